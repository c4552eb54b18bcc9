"""Processes that did not run: takes windows, gives the time that each of them lost. Comes before every comparison of
times.

Proof is process state T, or a sampler gap of a second or more in which the training thread used no CPU: a stopped
    process charges its time to whatever function it was in, and inside a collective it looks like all the others.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from eroica_otel.localize.columns import Floats
from eroica_otel.localize.compare import median, peers_median
from eroica_otel.localize.policy import Policy
from eroica_otel.model import WorkerWindow


def lost_seconds(windows: Sequence[WorkerWindow], policy: Policy) -> Floats:
    """Return how long each process did not run during the window, 0 where nothing proves it, [W]."""
    state = _column([window.stopped_seconds for window in windows])
    length = _column([window.seconds for window in windows])
    silent = _silent(windows, policy)
    stopped = np.where(state >= policy.material_ratio * length, state, 0)
    return np.asarray(np.fmax(np.nan_to_num(stopped), silent), np.float32)


def _silent(windows: Sequence[WorkerWindow], policy: Policy) -> Floats:
    """Sampler gaps that are long, far longer than the peers', and without CPU time."""
    gap = _column([window.sampler_gap_seconds for window in windows])
    cpu = _column([window.cpu_seconds for window in windows])
    others = np.nan_to_num(peers_median(gap))
    peers_cpu = peers_median(cpu)
    usual = np.where(np.isfinite(peers_cpu), peers_cpu, median(cpu) if len(windows) > 1 else 0)
    with np.errstate(invalid="ignore"):
        alone = gap - others >= policy.stopped_gap_seconds
        idle = cpu - usual <= policy.stopped_cpu_ratio * gap
        return np.where(alone & idle, gap, 0).astype(np.float32)


def _column(values: Sequence[float | None]) -> Floats:
    return np.array([math.nan if value is None else value for value in values], np.float32)
