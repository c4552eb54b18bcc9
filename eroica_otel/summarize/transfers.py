"""Calls of collectives and network samples -> what each collective moved, and how fast the link went meanwhile."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from eroica_otel.model import Capture, Collective
from eroica_otel.summarize.blocks import Moves
from eroica_otel.summarize.intervals import Intervals, Reals, Times, clip, inside, union
from eroica_otel.summarize.shares import held_use
from eroica_otel.traces import Samples

NANOSECONDS = 1e9
BIN_NS = 5_000_000
"""200 Hz: at 1 kHz idle samples between two bursts dominate, below 100 Hz the end of a slow link is named wrongly."""
PEAK_QUANTILE = 0.9
FASTEST_QUANTILE = 0.05


def collective_calls(moves: Moves, start: int, end: int) -> dict[int, tuple[Collective, ...]]:
    """Return per function what its calls that begin in [start, end) moved, one item per process group."""
    calls: dict[tuple[int, str], list[int]] = {}
    within = (moves.start >= start) & (moves.start < end)
    for place in np.flatnonzero(within).tolist():
        told = moves.told[place]
        if told is not None:
            calls.setdefault((int(moves.function[place]), told[0]), []).append(place)
    found: dict[int, tuple[Collective, ...]] = {}
    for (function, group), members in sorted(calls.items()):
        found[function] = (*found.get(function, ()), _collective(moves, group, members))
    return found


def _collective(moves: Moves, group: str, members: list[int]) -> Collective:
    seconds = (moves.end[members] - moves.start[members]) / 1e9
    known = [told[1] for member in members if (told := moves.told[member]) is not None and told[1] is not None]
    return Collective(
        group=group,
        calls=len(members),
        bytes=sum(known) if len(known) == len(members) else None,
        fastest_seconds=float(np.quantile(seconds, FASTEST_QUANTILE)),
    )


def link_peaks(capture: Capture, whole: Intervals, device: Mapping[str, Samples] | None = None) -> Mapping[str, float]:
    """Return the 90th percentile of the link's rate per direction over ``whole``, as a share of its speed.

    Args:
        device: Samples of the device, as Trace.metrics; of NVLink's two directions the busier is told.

    ``whole`` is all the time inside one collective function, not only its exposed part: exposed time misses a slow
    link. Each bin of 5 ms counts by its overlap. Slightly above 1 is possible (headers, a token bucket); empty without
    a known speed or samples.
    """
    found: dict[str, float] = {}
    if capture.nic_peak_bytes:
        for name, counter in (("nic_tx", capture.nic_tx), ("nic_rx", capture.nic_rx)):
            found |= _peak(name, capture.nic_ns, counter, capture.nic_peak_bytes, whole)
    for samples in (device or {}).get("nvlink_tx"), (device or {}).get("nvlink_rx"):
        if samples is not None and samples.time_ns.size:
            used, known = held_use(samples.time_ns, samples.ratio)
            seen = _peak("nvlink", samples.time_ns, used, NANOSECONDS, whole, known)
            found |= {name: max(peak, found.get(name, 0.0)) for name, peak in seen.items()}
    return found


def _peak(
    name: str,
    times: Times,
    counter: NDArray[np.int64] | Reals,
    peak_per_second: float,
    whole: Intervals,
    known: Reals | None = None,
) -> dict[str, float]:
    """Return {name: 90th percentile}; {} without samples while ``whole`` lasts. ``known`` is as of ``held_use``."""
    if times.size < 2:
        return {}
    first, borders = int(times[0]), _borders(times, whole)
    if borders.size < 2:
        return {}
    weight = inside(union(clip(whole, int(borders[0]), int(borders[-1]))), borders)
    if known is not None:  # a bin of which a part is not known is left out
        weight = np.where(np.diff(np.interp(borders - first, times - first, known)) < BIN_NS - 1, 0, weight)
    if not weight.sum():
        return {}
    # From the first sample on: as a float64 a time since 1970 is only good to 256 ns.
    # A counter that goes back has begun anew: what it counted meanwhile is not known, and never less than nothing.
    grown = np.append(0.0, np.cumsum(np.maximum(np.diff(np.asarray(counter, np.float64)), 0.0)))
    rates = np.diff(np.interp(borders - first, times - first, grown)) / (peak_per_second * BIN_NS / NANOSECONDS)
    return {name: _weighted_quantile(rates, weight)}


def _borders(times: Times, whole: Intervals) -> Times:
    """Return the borders of the bins from the first sample on, as far as samples and ``whole`` reach, and no further:
    one sample with a wrong time must not ask for a bin each 5 ms until then.
    """
    first, last = int(times[0]), int(times[-1])
    if not whole.start.size:
        return np.zeros(0, np.int64)
    low = first + max(int(whole.start.min()) - first, 0) // BIN_NS * BIN_NS
    return np.arange(low, min(last, int(whole.end.max()) + BIN_NS) + 1, BIN_NS)


def _weighted_quantile(values: NDArray[np.float64], weight: Times) -> float:
    """Return the smallest value that is not exceeded in PEAK_QUANTILE of the weight."""
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weight[order])
    return float(values[order][np.searchsorted(reached, PEAK_QUANTILE * reached[-1])])
