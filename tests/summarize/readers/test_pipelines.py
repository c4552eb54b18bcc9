"""Which stage of a pipeline a worker is, by the peers of its sends and receives; and what its kernels are called."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from eroica_otel.summarize.pattern import summarize
from eroica_otel.summarize.readers.arguments import Arguments
from eroica_otel.summarize.readers.kineto import read
from eroica_otel.summarize.readers.pipelines import stage_of
from factories_summarize import Row, capture, kineto_event, kineto_text

KERNEL = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"
PIPE = {"5": (1, 3, 5, 7)}
"""Four stages of a job of eight, of which this is one of two pipelines."""


def exchanges(*peers: int, group: str = "5", ranks: str | None = None) -> list[Arguments]:
    """Return a send to and a receive from each peer."""
    sends = [Arguments(collective="send", receiver=peer, group=group, ranks=ranks) for peer in peers]
    return sends + [Arguments(collective="recv", sender=peer, group=group, ranks=ranks) for peer in peers]


@pytest.mark.parametrize(
    ("rank", "peers", "stage"),
    [
        (1, (3,), "stage 1 of 4"),
        (3, (1, 5), "stage 2 of 4"),
        (7, (5,), "stage 4 of 4"),
        (7, (5, 1), "stage 4 of 4"),  # interleaved stages: the last one calls the first
        (1, (5,), "first stage"),  # not the next one of this group
    ],
)
def test_the_place_in_the_process_group_is_the_stage(rank: int, peers: tuple[int, ...], stage: str) -> None:
    assert stage_of(exchanges(*peers), PIPE, rank, 8) == stage


def test_the_group_may_be_told_by_each_event() -> None:
    assert stage_of(exchanges(5, ranks="[1, 3, 5, 7]"), {}, 7, 8) == "stage 4 of 4"
    # torch cuts long lists
    assert stage_of(exchanges(5, ranks="[1, 3, ..., 7]"), {}, 7, 8) == "last stage"


@pytest.mark.parametrize(
    ("rank", "peers", "stage"), [(0, (2,), "first stage"), (3, (1, 5), "middle stage"), (7, (5,), "last stage")]
)
def test_in_the_group_of_all_workers_the_peers_tell_it(rank: int, peers: tuple[int, ...], stage: str) -> None:
    assert stage_of(exchanges(*peers, group="0"), {"0": tuple(range(8))}, rank, 8) == stage


ROUND = [Arguments(collective="send", receiver=4, group="5"), Arguments(collective="recv", sender=2, group="5")]


@pytest.mark.parametrize(
    ("told", "rank"),
    [
        ([], 3),
        ([Arguments(collective="allreduce", group="5")], 3),
        (ROUND, 3),
        (exchanges(1, 5, 7), 3),
        (exchanges(3), 3),
        (exchanges(5), None),
        ([*exchanges(5), Arguments(collective="send", group="5")], 3),
    ],
    ids=["nothing", "a collective", "a ring", "with all", "with itself", "of an unknown rank", "with whom is not told"],
)
def test_what_is_no_pipeline_has_no_stage(told: Sequence[Arguments], rank: int | None) -> None:
    assert stage_of(told, PIPE, rank, 8) == ""


def last_stage(tmp_path: Path, kernels: Sequence[tuple[str, Mapping[str, object]]]) -> str:
    """Write a trace of the last stage and return its path."""
    launches = [
        {"Collective name": "send", "Dst Rank": 5, "Process Group Name": "5", "External id": 1},
        {"Collective name": "recv", "Src Rank": "5", "Process Group Name": "5", "External id": 2},
    ]
    bodies = [kineto_event(Row("record_param_comms", 0, 5), arguments=one) for one in launches]
    bodies += [
        kineto_event(Row(name, 10 * at, 10 * at + 5, "kernel", 9), arguments=more)
        for at, (name, more) in enumerate(kernels, 1)
    ]
    info = {"rank": 7, "world_size": 8, "pg_config": [{"pg_name": "5", "ranks": PIPE["5"]}]}
    (tmp_path / "t.json").write_text(kineto_text(bodies, header=f'"distributedInfo": {json.dumps(info)},'))
    return str(tmp_path / "t.json")


def names(tmp_path: Path, kernels: Sequence[tuple[str, Mapping[str, object]]]) -> set[str]:
    """Return the names of the communication in such a trace."""
    events = read(last_stage(tmp_path, kernels), (0, 0))
    return {events.names[number] for number in events.name} - {"record_param_comms"}


def test_the_kernels_of_a_stage_carry_it_whatever_launched_them(tmp_path: Path) -> None:
    launched: list[dict[str, object]] = [{"External id": 1}, {"External id": 2}, {}, {"Collective name": "coalesced"}]
    assert names(tmp_path, [(KERNEL, more) for more in launched]) == {"ncclDevKernel_SendRecv: stage 4 of 4"}


def test_a_live_window_calls_them_so_too(tmp_path: Path) -> None:
    window = summarize(capture(end=30, trace=last_stage(tmp_path, [(KERNEL, {"External id": 1}), (KERNEL, {})])))
    (found,) = [pattern for pattern in window.patterns if pattern.kind == "communication"]
    assert (found.function, found.family) == ("ncclDevKernel_SendRecv: stage 4 of 4", "point_to_point")
    assert [(one.group, one.calls) for one in found.collectives] == [("5", 2)]


def test_that_of_an_all_to_all_and_other_kernels_do_not(tmp_path: Path) -> None:
    reduce = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
    kernels = [(KERNEL, {"Collective name": "all_to_allv"}), (reduce, {})]
    assert names(tmp_path, kernels) == {KERNEL, reduce}


def test_a_kernel_for_any_collective_carries_both(tmp_path: Path) -> None:
    generic = "ncclDevKernel_Generic_1(ncclDevKernelArgsStorage<4096ul>)"
    assert names(tmp_path, [(generic, {"External id": 2}), (generic, {"Collective name": "allreduce"})]) == {
        "ncclDevKernel_Generic_1: recv, stage 4 of 4",
        "ncclDevKernel_Generic_1: allreduce",
    }
