"""Collectives enqueued and completed, as a real process group of one process tells them."""

from __future__ import annotations

import multiprocessing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
import torch.distributed as dist

from eroica_otel.profile.flight import MOST_GROUPS, collective_progress
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


def test_a_job_with_dozens_of_groups_reports_the_first() -> None:
    assert list(collective_progress(torch_like(status(), list(range(30))))) == [f"g{n}" for n in range(MOST_GROUPS)]
