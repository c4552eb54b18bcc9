"""Raw samples of the agent's -> shares of a peak over a window, or why they are not enough. No I/O, no clock.

Whatever the agent wrote is taken as hostile: values that no counter and no share can have are missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from eroica_otel.errors import HardwareError
from eroica_otel.hardware.choice import BYTES, MOST_APART_NS
from eroica_otel.hardware.source import Resource
from eroica_otel.traces import Samples

LEAST_COVERED = 0.8
"""Share of a window that has to be sampled; on less a mean says little about the rest."""


def shares_of(resource: Resource, times: NDArray[np.int64], values: NDArray[np.float64]) -> Samples:
    """Return the shares of the peak in use, each from its own sample to the next, as Samples asks for.

    A counter that went back (it wrapped, or began anew) leaves NaN: nothing is known of the time in between.

    Raises:
        HardwareError: fewer than two samples are known, or a counter went back each time.
    """
    known = np.isfinite(values) & (values >= 0)
    time, value = times[known], values[known]
    if time.size < 2:
        raise HardwareError(f"{resource.name} of {resource.device or 'the node'} could not be read in the window")
    if resource.counter:
        rise = np.diff(value)  # until the next sample
        if not np.any(rise >= 0):
            raise HardwareError(f"{resource.name} of {resource.device or 'the node'} only went back in the window")
        rate = np.where(rise >= 0, rise, np.nan) / (np.diff(time) * 1e-9)
        value = np.append(rate, rate[-1])
    factor = BYTES.get(resource.unit, np.nan)
    return Samples(time, np.minimum(1.0, value / resource.peak), resource.peak * factor)


def check_cover(time: NDArray[np.int64], start: int, end: int, apart_ns: int = MOST_APART_NS) -> None:
    """Check that samples, which tell of no more than ``apart_ns`` each, tell of most of a window.

    Raises:
        HardwareError: they do not, with the share that they tell of.
    """
    inside = np.clip(time, start, end)
    steps = np.diff(inside, prepend=start, append=end)
    covered = float(np.minimum(steps, apart_ns).sum()) / max(end - start, 1)
    if covered < LEAST_COVERED or not np.any((time >= start - apart_ns) & (time <= end + apart_ns)):
        raise HardwareError(f"only {min(covered, 1.0):.0%} of the window was sampled")


def mean_of(several: Sequence[Samples]) -> Samples:
    """Return the mean over the GPUs of one process, on the times of all of them; the peak is that of all together."""
    if len(several) == 1:
        return several[0]
    first = max(int(one.time_ns[0]) for one in several)
    time = np.unique(np.concatenate([one.time_ns for one in several]))
    time = time[time >= first]
    held = [one.ratio[np.searchsorted(one.time_ns, time, side="right") - 1] for one in several]
    return replace(several[0], time_ns=time, ratio=np.mean(held, axis=0), peak_bytes=sum(o.peak_bytes for o in several))
