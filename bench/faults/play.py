"""Plays one case through real Prometheus, and returns what came of it."""

from __future__ import annotations

import subprocess
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench.faults.case import FIRST, SILENCE, Case, Drawn
from bench.faults.verdict import Named, Verdict, judge, named_of
from bench.faults.watched import WatchedBoard
from eroica_otel.errors import EroicaError

START_SECONDS = 240.0
AGAIN_SECONDS = 40.0
"""After which a window that was not judged is asked for again."""
PATIENCE_SECONDS = 120.0
"""For an alert after the onset; what comes later is wrong."""
SETTLE_SECONDS = 10.0
"""After the first alert: another worker named by then counts against the run."""
QUIET_SECONDS = 45.0
"""For which a case in which silence is right runs before its window is asked for."""


PROBLEMS = (EroicaError, OSError, RuntimeError, ValueError, LookupError, subprocess.SubprocessError)
"""What may go wrong with one case and must not end the others."""


@dataclass
class Seen:
    """What one run gave.

    Attributes:
        verdict: How it is judged.
        seconds: From the onset to detection, to the verdict and to firing; None where there was none.
        iteration_seconds: Mean iteration time before the onset, after it and before the window, in it, and after it.
        blocked_seconds: For which the training stood still for the latest window.
        outside: The part of the machine that others used.
        error: Why there is no verdict, "" where there is one.
    """

    verdict: Verdict
    seconds: dict[str, float | None] = field(default_factory=dict)
    iteration_seconds: dict[str, float | None] = field(default_factory=dict)
    blocked_seconds: float | None = None
    outside: float = 0.0
    error: str = ""


def play(case: Case, drawn: Drawn, folder: Path) -> Seen:
    """Run one case."""
    watched = WatchedBoard(case, drawn, folder)
    try:
        with watched as board, ExitStack() as undo:
            return _play(board, undo)
    except PROBLEMS as error:
        none = Verdict(False, False, (), "no verdict")
        return Seen(none, outside=watched.machine.outside_share(), error=described(error))


def described(error: BaseException) -> str:
    """Return a problem with what the command that failed had to say."""
    details = error.stderr if isinstance(error, subprocess.CalledProcessError) else ""
    text = details.decode(errors="replace") if isinstance(details, bytes) else details or ""
    return f"{type(error).__name__}: {error} {text.strip()}".rstrip()


def _play(board: WatchedBoard, undo: ExitStack) -> Seen:
    onset = begin(board, undo)
    watch = Watch(board, onset)
    patience = PATIENCE_SECONDS + (START_SECONDS if board.case.onset == FIRST else 0.0)
    if board.case.verdict == SILENCE:
        _stay_silent(board, watch, QUIET_SECONDS if board.case.fault else 0.0)
    else:
        try:
            board.wait(watch.has_fired, "an alert to fire", patience)
        except EroicaError as error:
            if board.has_ended():
                raise
            watch.error = str(error)
    watch.settle(SETTLE_SECONDS)
    return watch.seen()


def begin(board: WatchedBoard, undo: ExitStack) -> float:
    """Bring a training to its fault; return the Unix time of the onset.

    Raises:
        EroicaError: it did not get so far.
    """
    board.wait_until_ready()
    if board.case.onset == FIRST:
        board.inject(undo)
        board.go()
        return time.time()
    board.go()
    board.wait(lambda: "reference" in board.judged(), "the reference window to be judged", START_SECONDS)
    board.wait(board.baselines_are_known, "the baselines", START_SECONDS)
    at = board.iteration() + board.drawn.delay_iterations
    board.wait(lambda: board.iteration() >= at, "the onset", START_SECONDS)
    onset = time.time()
    board.inject(undo)
    return onset


def _stay_silent(board: WatchedBoard, watch: Watch, quiet_seconds: float) -> None:
    end = time.time() + quiet_seconds
    board.wait(lambda: watch.has_fired() or time.time() > end, "silence", quiet_seconds + 10)
    show(board, watch)


def show(board: WatchedBoard, watch: Watch) -> None:
    """Ask for a window and wait until it is judged, or an alert fires.

    Raises:
        EroicaError: it is not judged.
    """
    begun = asked = time.time()
    board.ask_for_window()

    def judged() -> bool:
        nonlocal asked
        if time.time() - asked > AGAIN_SECONDS:  # the request may have met another window
            asked = time.time()
            board.ask_for_window()
        return watch.has_fired() or board.judged().get("manual", 0) >= int(begun)

    board.wait(judged, "the window to be judged", PATIENCE_SECONDS)


class Watch:
    """What is seen of a board after the onset."""

    def __init__(self, board: WatchedBoard, onset: float) -> None:
        self._board, self._onset = board, onset
        self._named: dict[Named, None] = {}
        self._window: int | None = None
        self._detected: float | None = None
        self._judged: float | None = None
        self._firing: float | None = None
        self.error = ""

    def has_fired(self) -> bool:
        """Look; return whether an alert has fired so far."""
        self._look_at_windows()
        alerts = self._board.firing()
        if alerts:
            for one in named_of(alerts, self._board.findings()):
                self._named[one] = None
            first = min(alert.since for alert in alerts)
            self._firing = first if self._firing is None else min(first, self._firing)
        return bool(self._named)

    def _look_at_windows(self) -> None:
        own = [worker for worker in self._board.workers() if worker.window_id > self._onset]
        if own and self._window is None:
            self._window = min(worker.window_id for worker in own)
            self._detected = float(self._window)
        if self._judged is None and any(number > self._onset for number in self._board.judged().values()):
            self._judged = time.time()

    def settle(self, seconds: float) -> None:
        """Go on looking: who is named by then was named."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.has_fired()
            self._board.machine.look()
            time.sleep(1.0)

    def named(self) -> list[Named]:
        """Return who was named so far; where silence is right what stands in the series without an alert, too."""
        if self._board.case.verdict != SILENCE or self._named:
            return list(self._named)
        rows = self._board.findings()
        return [Named("none", None, "", row.get("cause", ""), row.get("function", "")) for row in rows]

    def seen(self) -> Seen:
        """Return what was seen."""
        board, drawn = self._board, self._board.drawn
        hosts = {board.host(rank) for rank in drawn.ranks}
        moments = {"detection": self._detected, "verdict": self._judged, "firing": self._firing}
        seconds = {name: None if at is None else round(at - self._onset, 1) for name, at in moments.items()}
        times = board.times()
        return Seen(
            judge(board.case, drawn.ranks, hosts, self.named()),
            seconds,
            iteration_seconds(times, self._onset, self._window, board.case.window_seconds),
            board.blocked_seconds(),
            board.machine.outside_share(),
            self.error,
        )


def iteration_seconds(
    times: NDArray[np.float64], onset: float, window: float | None, window_seconds: float
) -> dict[str, float | None]:
    """Return mean iteration times before the onset, after it and before the window, in the window and after it.

    Args:
        times: When each iteration began (Unix time).
        window: When the window began, None without one.
    """
    end = np.inf if window is None else window + window_seconds
    spans = {
        "before": (onset - 10, onset),
        "faulty": (onset, np.inf if window is None else window),
        "window": (window, end),
        "after": (end + 2, np.inf),
    }
    periods = np.diff(times)
    found: dict[str, float | None] = {}
    for name, (first, last) in spans.items():
        inside = periods[(times[:-1] >= first) & (times[1:] <= last)] if first is not None else periods[:0]
        found[name] = round(float(inside.mean()), 4) if len(inside) else None
    return found
