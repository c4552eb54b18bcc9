"""Processes that did not run: takes workers, gives the time that each of them lost. Comes before every comparison of
times.

Proof is process state T, or a sampler gap of a second or more in which the training thread used no CPU: a stopped
    process charges its time to whatever function it was in, and inside a collective it looks like all the others.
"""

from __future__ import annotations

import numpy as np

from eroica_otel.localize.columns import Floats
from eroica_otel.localize.compare import median, peers_median
from eroica_otel.localize.policy import Policy
from eroica_otel.table import Workers


def lost_seconds(workers: Workers, policy: Policy) -> Floats:
    """Return how long each process did not run during the window, 0 where nothing proves it, [W]."""
    state, length = workers.stopped_seconds.astype(np.float32), workers.seconds.astype(np.float32)
    silent = _silent(workers, policy)
    stopped = np.where(state >= policy.material_ratio * length, state, 0)
    return np.asarray(np.fmax(np.nan_to_num(stopped), silent), np.float32)


def _silent(workers: Workers, policy: Policy) -> Floats:
    """Sampler gaps that are long, far longer than the peers', and without CPU time."""
    with np.errstate(over="ignore"):  # what is too large for 32 bits is infinite
        gap, cpu = workers.sampler_gap_seconds.astype(np.float32), workers.cpu_seconds.astype(np.float32)
    others = np.nan_to_num(peers_median(gap))
    peers_cpu = peers_median(cpu)
    usual = np.where(np.isfinite(peers_cpu), peers_cpu, median(cpu) if len(workers) > 1 else 0)
    with np.errstate(invalid="ignore"):
        alone = gap - others >= policy.stopped_gap_seconds
        idle = cpu - usual <= policy.stopped_cpu_ratio * gap
        return np.where(alone & idle, gap, 0).astype(np.float32)
