"""What a fault does to the iteration time, measured without the plugin against a clean twin: fixed before any verdict.

Both run the same workload with the same seed. Iterations are taken in blocks of BLOCK; the effect is the mean of the
blocks after the onset against the twin's of the same iterations, and the noise the standard deviation of the twin's
blocks and of those before the onset. A faulty case counts on the board when its effect is at least LEAST_NOISES of
them; a hang when no iteration begins for STANDSTILL_SECONDS; where silence is right the effect is only shown.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bench.faults.board import Board
from bench.faults.case import FIRST, HANG, SILENCE, Case, Drawn
from eroica_otel.errors import EroicaError

BLOCK = 10
WARM, BEFORE, AFTER = 20, 50, 80
"""Iterations that do not count, those before the onset, and those after it."""
LEAST_NOISES = 3.0
STANDSTILL_SECONDS = 10.0
MOST_SECONDS = 60.0
"""For the iterations after the onset: what is slower is measured on fewer."""


@dataclass(frozen=True)
class Effect:
    """What was measured.

    Attributes:
        clean_seconds: Mean iteration time of the twin.
        faulty_seconds: Mean iteration time after the onset; None of a job that stood still.
        noise_seconds: Standard deviation of block means without the fault.
        stood_still: No iteration began for STANDSTILL_SECONDS.
    """

    clean_seconds: float
    faulty_seconds: float | None
    noise_seconds: float
    stood_still: bool

    @property
    def ratio(self) -> float | None:
        """How much longer an iteration takes, 0.5 = half as long again; None of a job that stood still."""
        return None if self.faulty_seconds is None else self.faulty_seconds / self.clean_seconds - 1

    @property
    def noises(self) -> float | None:
        """The effect in standard deviations."""
        if self.faulty_seconds is None:
            return None
        return (self.faulty_seconds - self.clean_seconds) / self.noise_seconds

    def counts(self, case: Case) -> bool:
        """Whether the case is measurable on this machine."""
        if case.verdict == SILENCE:
            return True
        if case.verdict == HANG:
            return self.stood_still
        return self.stood_still or (self.noises is not None and self.noises >= LEAST_NOISES)

    def as_dict(self) -> dict[str, Any]:
        """Return it for JSON."""
        return asdict(self)


def blocks(starts: Sequence[float] | NDArray[np.float64]) -> NDArray[np.float64]:
    """Return mean iteration times [blocks] of whole blocks, from when iterations began [n]."""
    periods = np.diff(np.asarray(starts))
    whole = len(periods) // BLOCK * BLOCK
    return np.asarray(periods[:whole].reshape(-1, BLOCK).mean(axis=1))


def effect_of(
    clean: NDArray[np.float64], faulty: NDArray[np.float64], onset: tuple[int, int], stood_still: bool
) -> Effect:
    """Return the effect, from when each iteration of the twin and of the faulty run began.

    Args:
        onset: How many iterations had begun before the fault was started, and index of the first one that is as slow
            as it can be; 0 and WARM where the fault is there from the beginning.

    Raises:
        EroicaError: there are too few iterations to say anything.
    """
    twin = blocks(clean[WARM:])
    started, slow = onset
    before, after = blocks(faulty[WARM : max(WARM, started)]), blocks(faulty[slow:])
    same = blocks(clean[slow : slow + len(after) * BLOCK + 1])
    noise = np.concatenate([twin - twin.mean(), before - before.mean()]) if len(before) else twin - twin.mean()
    if len(twin) < 3 or (not stood_still and not len(after)):
        raise EroicaError(f"{len(twin)} blocks of the clean twin and {len(after)} after the onset tell no effect")
    clean_seconds = float(same.mean() if len(same) else twin.mean())
    sums = 1 if not len(before) else 2
    deviation = float(np.sqrt((noise**2).sum() / max(1, len(noise) - sums)))
    return Effect(clean_seconds, None if stood_still else float(after.mean()), max(deviation, 1e-9), stood_still)


def measure(case: Case, drawn: Drawn, folder: Path) -> tuple[Effect, float]:
    """Run the clean twin and the faulty training without the plugin; return the effect and the part of the machine that
    others used meanwhile, the larger one.

    Raises:
        EroicaError: one of them did not get so far.
    """
    clean = _train(case, drawn, folder / "clean", is_faulty=False)
    faulty = _train(case, drawn, folder / "faulty", is_faulty=True)
    found = effect_of(clean.times, faulty.times, faulty.onset, faulty.stood_still)
    return found, max(clean.outside, faulty.outside)


class _Trained(NamedTuple):
    """When each iteration began, the onset, whether the job stood still, and what others used."""

    times: NDArray[np.float64]
    onset: tuple[int, int]
    stood_still: bool
    outside: float


def _train(case: Case, drawn: Drawn, folder: Path, *, is_faulty: bool) -> _Trained:
    with Board(case, drawn, folder, {"EROICA_DISABLED": "1"}) as board, ExitStack() as undo:
        board.wait_until_ready()
        from_first = case.onset == FIRST
        if is_faulty and from_first:
            board.inject(undo)
        board.go()
        onset = (0, WARM)
        if not from_first:
            board.wait(lambda: board.iteration() > WARM + BEFORE, "iterations before the onset", MOST_SECONDS)
            started = board.iteration()
            if is_faulty:
                board.inject(undo)
            onset = (started, board.iteration())
        stood_still = _run_on(board, WARM + BEFORE + AFTER, may_end=is_faulty and case.verdict == HANG)
        return _Trained(board.times(), onset, stood_still, board.machine.outside_share())


def _run_on(board: Board, iterations: int, *, may_end: bool) -> bool:
    """Wait for so many iterations, for MOST_SECONDS at most; return whether the job stands still, or has ended.

    Raises:
        EroicaError: it has ended although it may not.
    """
    end = time.monotonic() + MOST_SECONDS
    while board.iteration() <= iterations and time.monotonic() < end:
        times = board.times()
        since = time.time() - (times[-1] if len(times) else time.time())
        if since > STANDSTILL_SECONDS:
            return True
        if board.has_ended():
            if not may_end:
                raise EroicaError(f"the training ended; see {board.folder}")
            return True
        board.machine.look()
        time.sleep(0.2)
    return False
