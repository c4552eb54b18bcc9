"""What to do about a cause: takes the function that shows it, gives the sentence that fits what there is already.

The table of causes holds one sentence for each cause, which alerts show too. Of a slow input it depends on whether
processes of the DataLoader read ahead: to ask for some where there are some helps nobody. That a GPU has more to do may
be another program's work.
"""

from __future__ import annotations

import math
import re

from eroica_otel.localize.causes import Cause
from eroica_otel.localize.columns import Function

_QUEUE = re.compile(r"MultiProcessingDataLoaderIter\b|:_(?:try_)?get_data:")
"""Frames of torch and torchdata that only a DataLoader with processes has."""

_NO_PROCESSES = "read ahead with DataLoader workers (num_workers), and check where the data is read from"
_BEHIND = (
    "find the slow step in the DataLoader's processes, which read ahead already and do not keep up, and check where "
    "the data is read from"
)


def advice_on(cause: Cause, function: Function, on_cpu: float, busy: float) -> str:
    """Return what to do, without a final stop.

    Args:
        function: What shows the cause.
        on_cpu: CPU time of it as a share of its time, NaN unknown.
        busy: From this share on it computes rather than waits.
    """
    if cause.name == "load_imbalance" and not math.isfinite(on_cpu):
        return f"{cause.advice}; where it is equal, see what else runs on this GPU"
    if cause.name != "slow_input":
        return cause.advice
    if function.family == "loader":
        return _inside(function.name, on_cpu, busy)
    has_processes = any(_QUEUE.search(frame) for frame in (*function.stack, function.name))
    return _BEHIND if has_processes else _NO_PROCESSES


def _inside(name: str, on_cpu: float, busy: float) -> str:
    """Say what to do about a function in the DataLoader's processes."""
    if not math.isfinite(on_cpu):
        return f"make {name} faster or prepare its result before the training: the DataLoader's processes are in it"
    if on_cpu >= busy:
        return (
            f"make {name} cheaper or prepare its result before the training: it keeps the DataLoader's processes busy, "
            "and more of them help only while cores are free"
        )
    return (
        f"see what {name} waits for in the DataLoader's processes: move what it reads nearer, cache it, or fetch "
        "several samples at once"
    )
