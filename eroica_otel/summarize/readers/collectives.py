"""Collectives in a trace -> their process group and bytes, and the name of those whose kernel says nothing.

Where a kernel's own arguments are silent, record_param_comms tells what was launched; both carry the same External id.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from eroica_otel import kinds
from eroica_otel.summarize.readers.arguments import RECEIVES, SENDS, Arguments
from eroica_otel.summarize.readers.columns import Joined
from eroica_otel.summarize.readers.decode import COMMS
from eroica_otel.summarize.readers.header import Header
from eroica_otel.summarize.readers.pipelines import stage_of


class Launches:
    """What record_param_comms says of each collective, by External id."""

    def __init__(self, told: Iterable[tuple[str, Arguments]], header: Header) -> None:
        """Take name and arguments of every collective and record_param_comms.

        Args:
            header: Of the trace: with one process group alone there is no doubt which one it is.
        """
        self._alone = next(iter(header.groups)) if len(header.groups) == 1 else ""
        self._known: dict[int, Arguments] = {}
        exchanges: list[Arguments] = []
        for name, arguments in told:
            if name == COMMS and (link := arguments.link()) is not None:
                self._known[link] = arguments
            if arguments.collective in (SENDS, RECEIVES):
                exchanges.append(arguments)
        self._stage = stage_of(exchanges, header.groups, header.rank, header.world_size)

    def moved(self, name: str, told: Arguments) -> tuple[str, int | None] | None:
        """Return (process group, bytes of this worker's input), "" and None where not told; None: no collective."""
        if name == COMMS:
            return None
        launch = self._known.get(told.link() or -1)
        group, size = told.group, told.bytes()
        if launch is not None:
            group = launch.group if group is None else group
            size = launch.bytes() if size is None else size
        return self._alone if group is None else group, size

    def name(self, name: str, told: Arguments) -> str:
        """Return the name; of a kernel for any collective the one that carries what it ran, where that is told.

        RCCL's ncclDevKernel_Generic is one; what it ran is in its arguments or in those of record_param_comms. A send
        or receive in a pipeline carries the worker's stage, so that stages have functions of their own.
        """
        point_to_point = self._stage and kinds.is_send_recv(name)
        if not point_to_point and not kinds.is_any_collective(name):
            return name
        launch = self._known.get(told.link() or -1)
        ran = told.collective or (launch.collective if launch is not None else None)
        if point_to_point:
            # Several in one kernel are launched as something else, or nobody says as what.
            others = ran and ran not in (SENDS, RECEIVES) and "coalesced" not in ran
            return name if others else kinds.resolved_collective(name, self._stage)
        if self._stage and ran in (SENDS, RECEIVES):
            ran = f"{ran}, {self._stage}"
        return kinds.resolved_collective(name, ran) if ran else name


def launches(columns: Joined, header: Header) -> Launches:
    """Return what the collectives of a whole trace were launched with."""
    return Launches(((columns.names[columns.name[row]], told) for row, told in columns.comms.items()), header)


def moved(columns: Joined, known: Launches) -> Mapping[int, tuple[str, int | None]]:
    """Return row -> (process group, bytes of this worker's input) of each collective."""
    found = {row: known.moved(columns.names[columns.name[row]], told) for row, told in columns.comms.items()}
    return {row: one for row, one in found.items() if one is not None}


def named(columns: Joined, known: Launches) -> tuple[tuple[str, ...], NDArray[np.int32]]:
    """Return (names, name of each event), in which a kernel for any collective carries the one that it ran."""
    numbers = {name: number for number, name in enumerate(columns.names)}
    name = columns.name
    for row, told in columns.comms.items():
        before = columns.names[columns.name[row]]
        after = known.name(before, told)
        if after != before:
            name = columns.name.copy() if name is columns.name else name
            name[row] = numbers.setdefault(after, len(numbers))
    return tuple(numbers), name
