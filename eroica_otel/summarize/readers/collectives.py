"""Collectives in a trace -> their process group and bytes, and the name of those whose kernel says nothing.

Where a kernel's own arguments are silent, record_param_comms tells what was launched; both carry the same External id.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from eroica_otel import kinds
from eroica_otel.summarize.readers.arguments import Arguments
from eroica_otel.summarize.readers.columns import Joined
from eroica_otel.summarize.readers.decode import COMMS


def moved(columns: Joined, groups: tuple[str, ...]) -> dict[int, tuple[str, int | None]]:
    """Return row -> (process group, bytes of this worker's input) of each collective, "" and None where not told.

    Args:
        groups: Process groups of the job: with one alone there is no doubt which one it is.
    """
    alone = groups[0] if len(groups) == 1 else ""
    known = _launched(columns)
    found: dict[int, tuple[str, int | None]] = {}
    for row, told in columns.comms.items():
        if columns.names[columns.name[row]] == COMMS:
            continue
        launch = known.get(told.link() or -1)
        group, size = told.group, told.bytes()
        if launch is not None:
            group = launch.group if group is None else group
            size = launch.bytes() if size is None else size
        found[row] = (alone if group is None else group, size)
    return found


def named(columns: Joined) -> tuple[tuple[str, ...], NDArray[np.int32]]:
    """Return (names, name of each event), in which a kernel for any collective carries the one that it ran.

    RCCL's ncclDevKernel_Generic is one; what it ran is in its arguments or in those of record_param_comms.
    """
    generic = {number for number, name in enumerate(columns.names) if kinds.is_any_collective(name)}
    if not generic:
        return tuple(columns.names), columns.name
    known = _launched(columns)
    names = dict.fromkeys(columns.names)
    numbers = {name: number for number, name in enumerate(names)}
    name = columns.name.copy()
    for row, told in columns.comms.items():
        launch = known.get(told.link() or -1)
        ran = told.collective or (launch.collective if launch is not None else None)
        if int(name[row]) in generic and ran:
            name[row] = numbers.setdefault(kinds.resolved_collective(columns.names[name[row]], ran), len(numbers))
    return tuple(numbers), name


def _launched(columns: Joined) -> Mapping[int, Arguments]:
    """Return the arguments of record_param_comms by External id."""
    return {
        link: told
        for row, told in columns.comms.items()
        if columns.names[columns.name[row]] == COMMS and (link := told.link()) is not None
    }
