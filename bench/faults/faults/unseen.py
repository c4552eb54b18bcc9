"""Faults of the cases that nothing is tuned on: trackers, polls, patterns, stale locks, jobs left over."""

from __future__ import annotations

import pathlib
import re
import socket
import sys
import threading
import time
from contextlib import ExitStack
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import torch

from bench.faults.faults.order import Order, Scene

if TYPE_CHECKING:
    from bench.faults.board import Board
    from bench.faults.case import Drawn, Inject

FOR_EVER_SECONDS = 3600.0
POLL_SECONDS, BEAT_SECONDS = 0.1, 0.05
BUFFER_FLOATS = 256
QUANTITY = re.compile(r"(\d+)+ units")
"""A pattern with a repetition in a repetition: where a text has the number without the word it tries all ways to part
its digits, twice as many with each digit.
"""
TEXT = "12345678901 pieces"


def push_metrics(model: Any, order: Order, scene: Scene) -> Any:
    """Send the step's metrics to a tracker and wait for its answer, which takes ``value`` seconds."""
    tracker = scene.kept.get("tracker")
    if tracker is None:
        tracker, server = socket.socketpair()
        scene.kept["tracker"] = tracker
        threading.Thread(target=_answer_late, args=(server, order.value), daemon=True).start()
    tracker.sendall(b'{"step": %d, "loss": 0.1234}\n' % scene.iteration)
    tracker.recv(64)
    return model


def _answer_late(server: socket.socket, seconds: float) -> None:
    with server:
        while server.recv(1024):
            time.sleep(seconds)
            server.sendall(b"taken\n")


def wait_for_flag(model: Any, order: Order, scene: Scene) -> Any:
    """Ask again and again, without a pause, whether a thread is done: for ``value`` seconds a core is busy."""
    flag = threading.Event()
    threading.Timer(order.value, flag.set).start()
    while not flag.is_set():
        pass
    return model


def clean_text(batch: Any, order: Order, scene: Scene) -> Any:
    """Look for a quantity in texts with a pattern that tries far too much, for ``value`` seconds of CPU time."""
    end = time.thread_time() + order.value
    while time.thread_time() < end:
        QUANTITY.search(TEXT)
    return batch


def sync_buffers(model: Any, order: Order, scene: Scene) -> Any:
    """Add ``value`` small buffers up over all ranks, each in a collective of its own instead of all in one."""
    for _ in range(round(order.value)):
        torch.distributed.all_reduce(torch.ones(BUFFER_FLOATS))
    return model


def wait_for_baton(hidden: Any, order: Order, scene: Scene) -> Any:
    """Wait until nobody builds the extension any more: for ever, for who began died and left the lock file in
    ``folder``.
    """
    baton = pathlib.Path(order.more["folder"]) / f"extension-{scene.rank}.lock"
    baton.touch()
    while baton.exists():
        time.sleep(POLL_SECONDS)
    return hidden


def stop_early(model: Any, order: Order, scene: Scene) -> Any:
    """Find by this rank's own loss that the training is done, and wait for all at its end; the others go on."""
    torch.distributed.monitored_barrier(timeout=timedelta(seconds=FOR_EVER_SECONDS))
    return model


def beat(model: Any, order: Order, scene: Scene) -> Any:
    """Have a thread beside the training say all 50 ms that this rank lives; that does no harm."""
    if "beat" not in scene.kept:
        scene.kept["beat"] = threading.Thread(target=_beat, args=(scene.kept,), daemon=True)
        scene.kept["beat"].start()
    return model


def _beat(kept: dict[str, Any]) -> None:
    while True:
        kept["alive"] = time.time()
        time.sleep(BEAT_SECONDS)


def left_over() -> Inject:
    """Run the drawn number of busy processes on each core: an earlier job whose processes were not ended."""

    def inject(board: Board, undo: ExitStack, drawn: Drawn) -> None:
        for core in board.cores:
            count = str(max(1, round(drawn.size)))
            board.start([sys.executable, "-m", "bench.faults.faults.neighbour", str(core), count])

    return inject
