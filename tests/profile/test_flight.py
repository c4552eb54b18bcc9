"""Collectives enqueued and completed, as a real process group of one process tells them."""

from __future__ import annotations

import multiprocessing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
import torch.distributed as dist

from eroica_otel.localize.verdict import judge
from eroica_otel.procgroups import OF_A_HANG
from eroica_otel.profile.flight import collective_progress
from eroica_otel.query.decode import decode
from factories_central import collect, window
from jobs import wait_until


def two_groups(folder: str) -> None:
    """Three collectives in one group and one in another; as a process of its own."""
    dist.init_process_group("gloo", rank=0, world_size=1, init_method=f"file://{folder}/store")
    second = dist.new_group([0])
    for _ in range(3):
        dist.all_reduce(torch.ones(2))
    dist.all_reduce(torch.ones(2), group=second)
    progress = collective_progress(torch)
    first, other = progress
    assert progress[first][0] - progress[other][0] == 2
    # gloo's own thread tells the recorder, after the caller has its result; in torch 2.4 it tells nothing.
    told = hasattr(torch._C._distributed_c10d, "_dump_fr_trace_json")
    wait_until(
        lambda: all(done == (put if told else None) for put, done in collective_progress(torch).values()),
        "all to be completed",
    )
    dist.destroy_process_group()


def test_each_group_has_its_own_count(tmp_path: Path) -> None:
    # The recorder of a process still numbers the groups of tests before this one.
    context = multiprocessing.get_context("spawn")
    process = context.Process(target=two_groups, args=(str(tmp_path),))
    process.start()
    process.join(120)
    assert process.exitcode == 0


def test_without_process_groups_there_is_none() -> None:
    assert collective_progress(torch) == {}
    assert collective_progress(None) == {}


def torch_like(status: str, sequences: list[int], **dump: Any) -> Any:
    """Return a torch that says what it is told; the recorder's names vary by version."""
    groups = {_Group(f"g{number}", sequence): None for number, sequence in enumerate(sequences)}
    c10d = SimpleNamespace(**dump) if dump else SimpleNamespace(_dump_fr_trace_json=lambda includeCollectives: status)
    return SimpleNamespace(
        distributed=SimpleNamespace(
            is_available=lambda: True,
            is_initialized=lambda: True,
            distributed_c10d=SimpleNamespace(_world=SimpleNamespace(pg_map=groups)),
        ),
        _C=SimpleNamespace(_distributed_c10d=c10d),
    )


class _Group:
    def __init__(self, name: str, sequence: int) -> None:
        self.group_name, self._sequence = name, sequence

    def _get_sequence_number_for_group(self) -> int:
        return self._sequence


def status(*counts: tuple[int, int]) -> str:
    rows = [
        f'"{n}": {{"last_enqueued_collective": "{put}", "last_completed_collective": "{done}"}}'
        for n, (put, done) in enumerate(counts)
    ]
    return f'{{"pg_status": {{{", ".join(rows)}}}}}'


def test_a_process_that_waits_has_enqueued_more_than_completed() -> None:
    assert collective_progress(torch_like(status((5, 4), (3, 3)), [5, 3])) == {"g0": (5, 4), "g1": (3, 3)}


def test_where_the_recorder_means_another_group_nothing_is_said_to_be_completed() -> None:
    assert collective_progress(torch_like(status((5, 4), (3, 3)), [5, 9])) == {"g0": (5, 4), "g1": (9, None)}


def test_the_older_name_of_the_recorder_is_known_and_none_is_no_harm() -> None:
    older = torch_like("", [5], _dump_nccl_trace_json=lambda includeCollectives: status((5, 4)))
    assert collective_progress(older) == {"g0": (5, 4)}
    assert collective_progress(torch_like("", [5], other=1)) == {"g0": (5, None)}
    assert collective_progress(torch_like("no json", [5])) == {"g0": (5, None)}


def test_of_more_groups_than_are_shown_those_with_something_to_come_are() -> None:
    counts = [(100 + number, 100 + number) for number in range(OF_A_HANG + 6)]
    counts[2] = (7, 6)
    shown = collective_progress(torch_like(status(*counts), [put for put, _ in counts]))
    assert list(shown) == ["g2", *(f"g{number}" for number in range(7, OF_A_HANG + 6))]
    assert shown["g2"] == (7, 6)


def test_the_rank_that_20_groups_wait_for_in_the_17th_is_named() -> None:
    """Of four ranks rank 2 has not entered collective 6 of the 17th group; it has finished all that it entered."""

    def progress(rank: int) -> dict[str, tuple[int, int | None]]:
        counts = [(9, 9)] * 20
        counts[16] = (5, 5) if rank == 2 else (6, 5)
        return collective_progress(torch_like(status(*counts), [put for put, _ in counts]))

    hung = [
        window(rank, reason="blocked", iterations=0, kinds={}, silent_seconds=60.0, progress=progress(rank))
        for rank in range(4)
    ]
    read = [decode(collect(one)) for one in hung]
    report = judge([one for one in read if one is not None], expected=4)
    (finding,) = report.findings
    assert finding.ranks == (2,)
    assert "g16" in " ".join(finding.evidence)
