"""The cases of the board: what is done to which rank, and which verdicts are right."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bench.faults.board import Board

QUOTA_PERIOD_MICROSECONDS = 100_000
Inject = Callable[["Board", ExitStack], None]
"""Starts a fault; what has to be undone goes on the stack."""


@dataclass(frozen=True)
class Case:
    """One row of the board.

    Attributes:
        name: Its name.
        what: What is done, for the table.
        rank: The rank it is done to; None for a clean run.
        causes: Causes that are right.
        inject: Starts it.
        nodes: Nodes, each with ``ranks`` ranks.
        ranks: Ranks of a node.
        arguments: Further arguments of training.py.
    """

    name: str
    what: str
    rank: int | None
    causes: frozenset[str]
    inject: Inject
    nodes: int = 2
    ranks: int = 2
    arguments: tuple[str, ...] = ()


def _switch(switch: str, rank: int, value: float) -> Inject:
    def inject(board: Board, undo: ExitStack) -> None:
        board.order(switch, rank, value)

    return inject


def _quota(rank: int, ratio: float) -> Inject:
    """Limit the trainer of ``rank`` to a share of one core, by a cgroup (version 1 or 2)."""

    def inject(board: Board, undo: ExitStack) -> None:
        first = Path("/sys/fs/cgroup/cpu")
        group = (first if first.is_dir() else Path("/sys/fs/cgroup")) / f"eroica-board-{os.getpid()}"
        group.mkdir()
        undo.callback(group.rmdir)
        quota = int(ratio * QUOTA_PERIOD_MICROSECONDS)
        if first.is_dir():
            (group / "cpu.cfs_period_us").write_text(str(QUOTA_PERIOD_MICROSECONDS))
            (group / "cpu.cfs_quota_us").write_text(str(quota))
        else:
            (group / "cpu.max").write_text(f"{quota} {QUOTA_PERIOD_MICROSECONDS}")
        pid = board.pid(rank)
        (group / "cgroup.procs").write_text(str(pid))
        undo.callback(_leave, group, pid)

    return inject


def _leave(group: Path, pid: int) -> None:
    if Path(f"/proc/{pid}").exists():
        (group.parent / "cgroup.procs").write_text(str(pid))


def _link(node: int, megabits: int) -> Inject:
    def inject(board: Board, undo: ExitStack) -> None:
        board.nodes[node].limit(megabits)

    return inject


def _nothing(board: Board, undo: ExitStack) -> None:
    board.ask_for_window()


CASES = (
    Case(
        "python", "60 ms of CPU in a Python function", 2, frozenset({"python_overhead"}), _switch("python", 2, 0.06)
    ),
    Case("input", "batches come 70 ms late", 1, frozenset({"slow_input"}), _switch("input", 1, 0.07)),
    Case(
        "input-workers", "the same behind two loader workers, 600 ms late", 3, frozenset({"slow_input"}),
        _switch("input", 3, 0.6), arguments=("--loader-workers", "2"),
    ),
    Case("quota", "CPU quota of 25 %", 0, frozenset({"cpu_starved"}), _quota(0, 0.25), arguments=("--repeats", "60")),
    Case(
        "link", "one node's link at 150 Mbit/s", 3, frozenset({"nic_degraded"}), _link(3, 150), nodes=4, ranks=1,
    ),
    Case("batch", "16 samples where others have 8", 1, frozenset({"load_imbalance"}), _switch("batch", 1, 8)),
    Case(
        "backward", "70 ms of waiting in the backward", 3, frozenset({"python_blocked"}), _switch("backward", 3, 0.07)
    ),
    Case("hang", "one rank waits for ever", 2, frozenset({"hang_in_python"}), _switch("hang", 2, 600)),
    Case("clean-1", "nothing, a window by hand", None, frozenset(), _nothing),
    Case("clean-2", "nothing, loader workers", None, frozenset(), _nothing, arguments=("--loader-workers", "2")),
)  # fmt: skip
