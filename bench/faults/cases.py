"""The cases of the board: what is done to which rank, and which verdicts are right."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from eroica_otel.demo.quota import limited

if TYPE_CHECKING:
    from bench.faults.board import Board

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
        function: What the function that is named begins with; a cause with another one is not right.
    """

    name: str
    what: str
    rank: int | None
    causes: frozenset[str]
    inject: Inject
    nodes: int = 2
    ranks: int = 2
    arguments: tuple[str, ...] = ()
    function: str = ""


def _switch(switch: str, rank: int, value: float) -> Inject:
    def inject(board: Board, undo: ExitStack) -> None:
        board.order(switch, rank, value)

    return inject


def _quota(rank: int, ratio: float) -> Inject:
    """Limit the trainer of ``rank`` to a share of one core."""

    def inject(board: Board, undo: ExitStack) -> None:
        undo.enter_context(limited(board.pid(rank), ratio))

    return inject


def _link(rank: int, megabits: int) -> Inject:
    """Limit the link of the node on which ``rank`` runs."""

    def inject(board: Board, undo: ExitStack) -> None:
        board.node(rank).limit(megabits)

    return inject


def _stop(rank: int) -> Inject:
    """Stop the trainer of ``rank``, as a person or a batch system does with a signal."""

    def inject(board: Board, undo: ExitStack) -> None:
        pid = board.pid(rank)
        os.kill(pid, signal.SIGSTOP)
        undo.callback(_go_on, pid)

    return inject


def _go_on(pid: int) -> None:
    with suppress(ProcessLookupError):  # the launcher may have ended it
        os.kill(pid, signal.SIGCONT)


def _nothing(board: Board, undo: ExitStack) -> None:
    board.ask_for_window()


CASES = (
    Case(
        "python", "60 ms of CPU in a Python function", 2, frozenset({"python_overhead"}), _switch("python", 2, 0.06)
    ),
    Case(
        "input", "batches come 70 ms late", 1, frozenset({"slow_input"}), _switch("input", 1, 0.07),
        function="Remote.fetch_remote",
    ),
    Case(
        "input-workers", "the same behind two loader workers, 600 ms late", 3, frozenset({"slow_input"}),
        _switch("input", 3, 0.6), arguments=("--loader-workers", "2"), function="Remote.fetch_remote",
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
    Case("stopped", "SIGSTOP to one rank", 1, frozenset({"process_stopped"}), _stop(1)),
    Case(
        "left-out", "one rank leaves a collective out", 2, frozenset({"hang_missing_rank"}), _switch("skip", 2, 1),
        arguments=("--average-loss",),
    ),
    Case("clean-1", "nothing, a window by hand", None, frozenset(), _nothing),
    Case("clean-2", "nothing, loader workers", None, frozenset(), _nothing, arguments=("--loader-workers", "2")),
)  # fmt: skip
