"""Injectors: what a row of the table names, put to work on a board. Each returns at once; undo goes on the stack."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from bench.faults.case import Drawn, Inject
from bench.faults.faults import inputs, memory, network, signals
from eroica_otel.demo.nodes import MEGABITS

if TYPE_CHECKING:
    from bench.faults.board import Board

ALIGN_ITERATIONS = 20
"""Faults in which all ranks take part begin so many iterations later, in the same one on all ranks."""
TRAFFIC_PORT, TRAFFIC_STREAMS = 5201, 6
FOR_EVER_SECONDS = 3600.0


def switch(name: str, everybody: bool = False, fixed: float | None = None, **more: Any) -> Inject:
    """Switch a fault of the training's code on, on the drawn ranks or on all, with the drawn size or a fixed one."""

    def inject(board: Board, undo: ExitStack, drawn: Drawn) -> None:
        ranks = range(board.world) if everybody else drawn.ranks
        board.order(name, list(ranks), drawn.size if fixed is None else fixed, **more)

    return inject


def folder_switch(name: str, everybody: bool = False, fixed: float | None = None, **more: Any) -> Inject:
    """As ``switch``, for one that needs the board's folder."""

    def inject(board: Board, undo: ExitStack, drawn: Drawn) -> None:
        switch(name, everybody, fixed, folder=str(board.folder), **more)(board, undo, drawn)

    return inject


def files_switch(name: str, everybody: bool = False, fixed: float | None = None, **more: Any) -> Inject:
    """As ``folder_switch``, for one that reads a file there, which is made first."""

    def inject(board: Board, undo: ExitStack, drawn: Drawn) -> None:
        inputs.make_shards(board.folder, board.world)
        folder_switch(name, everybody, fixed, **more)(board, undo, drawn)

    return inject


def together(name: str, **more: Any) -> Inject:
    """Switch something on that all ranks take part in, in the same iteration; the drawn ones do it wrong."""

    def inject(board: Board, undo: ExitStack, drawn: Drawn) -> None:
        start = board.iteration() + ALIGN_ITERATIONS
        board.order(name, list(range(board.world)), drawn.size, start=start, wrong=list(drawn.ranks), **more)

    return inject


def route() -> Inject:
    """Send tokens of all ranks to the drawn rank's expert."""

    def inject(board: Board, undo: ExitStack, drawn: Drawn) -> None:
        board.order("route", list(range(board.world)), drawn.size, expert=drawn.ranks[0])

    return inject


def both(*injects: Inject) -> Inject:
    """Start several faults."""

    def inject(board: Board, undo: ExitStack, drawn: Drawn) -> None:
        for one in injects:
            one(board, undo, drawn)

    return inject


def on(place: int, inject: Inject, share: float = 1.0) -> Inject:
    """Start a fault on one of the drawn ranks alone, with a share of the drawn size."""

    def start(board: Board, undo: ExitStack, drawn: Drawn) -> None:
        inject(board, undo, Drawn(drawn.seed, (drawn.ranks[place],), drawn.size * share, drawn.delay_iterations))

    return start


def link(direction: str = "both") -> Inject:
    """Limit what the nodes of the drawn ranks may send, receive or both, to the drawn megabits a second."""

    def inject(board: Board, undo: ExitStack, drawn: Drawn) -> None:
        for node in _nodes(board, drawn):
            act = {"both": node.limit, "send": node.send_limit, "receive": node.receive_limit}[direction]
            act(round(drawn.size))
            undo.callback(node.limit, MEGABITS)

    return inject


def link_for(seconds: float) -> Inject:
    """Limit links as ``link`` does, for some seconds."""

    def inject(board: Board, undo: ExitStack, drawn: Drawn) -> None:
        for node in _nodes(board, drawn):
            undo.enter_context(network.slow_for(node, round(drawn.size), seconds))

    return inject


def flapping(up_seconds: float) -> Inject:
    """Take the links of the drawn ranks' nodes down for the drawn seconds, again and again."""

    def inject(board: Board, undo: ExitStack, drawn: Drawn) -> None:
        for node in _nodes(board, drawn):
            undo.enter_context(network.flapping(node, drawn.size, up_seconds))

    return inject


def down() -> Inject:
    """Take the links of the drawn ranks' nodes down once, for the drawn seconds."""

    def inject(board: Board, undo: ExitStack, drawn: Drawn) -> None:
        for node in _nodes(board, drawn):
            undo.enter_context(network.down(node, drawn.size))

    return inject


def loss() -> Inject:
    """Lose the drawn percentage of the packets to the nodes of the drawn ranks."""

    def inject(board: Board, undo: ExitStack, drawn: Drawn) -> None:
        for node in _nodes(board, drawn):
            undo.enter_context(network.losing(node, drawn.size / 100))

    return inject


def shared_nic() -> Inject:
    """Put the nodes of the drawn ranks behind one port of the drawn megabits a second."""

    def inject(board: Board, undo: ExitStack, drawn: Drawn) -> None:
        board.share_nic(list(drawn.ranks), round(drawn.size), undo)

    return inject


def traffic() -> Inject:
    """Have the node of the drawn rank send another job's data to the next but one node."""

    def inject(board: Board, undo: ExitStack, drawn: Drawn) -> None:
        source = board.node(drawn.ranks[0])
        target = board.node((drawn.ranks[0] + 2) % board.world)
        program = [sys.executable, "-m", "bench.faults.faults.traffic"]
        inside = ["ip", "netns", "exec"]
        board.start([*inside, target.namespace, *program, "receive", str(TRAFFIC_PORT)])
        where = [target.address, str(TRAFFIC_PORT), str(TRAFFIC_STREAMS)]
        board.start([*inside, source.namespace, *program, "send", *where])

    return inject


def quota() -> Inject:
    """Let each of the drawn ranks have the drawn part of a core."""
    return _limited(lambda board, rank, drawn: board.cgroup(rank).cpu(drawn.size))


def one_core() -> Inject:
    """Bind all drawn ranks, with the processes that load for them, to one and the same core."""
    return _limited(lambda board, rank, drawn: board.cgroup(rank).cores({board.cores[-1]}))


def disk() -> Inject:
    """Let each of the drawn ranks read and write the drawn megabytes a second from disks."""
    return _limited(lambda board, rank, drawn: board.cgroup(rank).disk(round(drawn.size * 1e6)))


def memory_limit() -> Inject:
    """Leave the drawn ranks the drawn megabytes beyond what cannot be dropped from memory."""

    def limit(board: Board, rank: int, drawn: Drawn) -> None:
        kept = memory.kept_bytes(memory.group_of(board.pid(rank)))
        board.cgroup(rank).memory(kept + round(drawn.size * 1e6))

    return _limited(limit)


def neighbour(seconds: float | None = None) -> Inject:
    """Bind the drawn rank to the last core and all others to the rest, and run the drawn number of busy processes on
    the former, for ever or for some seconds.
    """

    def inject(board: Board, undo: ExitStack, drawn: Drawn) -> None:
        *others, mine = board.cores
        for rank in range(board.world):
            board.cgroup(rank).cores({mine} if rank in drawn.ranks else set(others))
            undo.callback(board.cgroup(rank).free)
        busy_on_last_core(seconds)(board, undo, drawn)

    return inject


def busy_on_last_core(seconds: float | None = None) -> Inject:
    """Run the drawn number of busy processes on the last core, for ever or for some seconds."""

    def inject(board: Board, undo: ExitStack, drawn: Drawn) -> None:
        ending = [] if seconds is None else [str(seconds)]
        program = [sys.executable, "-m", "bench.faults.faults.neighbour"]
        board.start([*program, str(board.cores[-1]), str(max(1, round(drawn.size))), *ending])

    return inject


def store(server: str, every: int = 1) -> Inject:
    """Have a server answer the drawn ranks the drawn seconds late, in every so-manieth request."""

    def inject(board: Board, undo: ExitStack, drawn: Drawn) -> None:
        board.server(server).slow(list(drawn.ranks), delay_seconds=drawn.size, every=every)
        undo.callback(board.server(server).fair)

    return inject


def slow_store(server: str) -> Inject:
    """Have a server send to the drawn ranks at the drawn kilobytes a second."""

    def inject(board: Board, undo: ExitStack, drawn: Drawn) -> None:
        board.server(server).slow(list(drawn.ranks), bytes_per_second=drawn.size * 1000)
        undo.callback(board.server(server).fair)

    return inject


def stop(running_seconds: float | None = None) -> Inject:
    """Stop the trainers of the drawn ranks for the drawn seconds, once or again and again."""

    def inject(board: Board, undo: ExitStack, drawn: Drawn) -> None:
        pids = [board.pid(rank) for rank in drawn.ranks]
        undo.enter_context(signals.stopped(pids, drawn.size, running_seconds))

    return inject


def stop_for_ever() -> Inject:
    """Stop the trainers of the drawn ranks."""

    def inject(board: Board, undo: ExitStack, drawn: Drawn) -> None:
        undo.enter_context(signals.stopped([board.pid(rank) for rank in drawn.ranks], FOR_EVER_SECONDS))

    return inject


def cut() -> Inject:
    """Pull the cables of the drawn ranks' nodes."""

    def inject(board: Board, undo: ExitStack, drawn: Drawn) -> None:
        for node in _nodes(board, drawn):
            node.cut()
            undo.callback(node.mend)

    return inject


def lose_node() -> Inject:
    """Take the nodes of the drawn ranks off the network for ever and kill what trains there, as a power cut does."""

    def inject(board: Board, undo: ExitStack, drawn: Drawn) -> None:
        pids = [board.pid(rank) for rank in drawn.ranks]
        cut()(board, undo, drawn)
        signals.send(pids, signal.SIGKILL)

    return inject


def _limited(limit: Callable[[Board, int, Drawn], None]) -> Inject:
    def inject(board: Board, undo: ExitStack, drawn: Drawn) -> None:
        for rank in drawn.ranks:
            undo.callback(board.cgroup(rank).free)
            limit(board, rank, drawn)

    return inject


def _nodes(board: Board, drawn: Drawn) -> Sequence[Any]:
    """Return the nodes of the drawn ranks, each once."""
    return list({(node := board.node(rank)).namespace: node for rank in drawn.ranks}.values())
