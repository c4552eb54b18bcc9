"""CUPTI_ACTIVITY_KIND_SYNCHRONIZATION of an Nsight Systems export -> the calls in which the host waited.

Where runtime calls are in the export too, each of these lies inside one of them, under its correlationId, and would be
told twice: then they are left out.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from eroica_otel.summarize.intervals import Times
from eroica_otel.summarize.readers.nsightdevices import PROCESS, pid_of
from eroica_otel.summarize.readers.tables import Database

SYNC, TYPES = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", "ENUM_CUPTI_SYNC_TYPE"
_PREFIX = "CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_"
_OTHER = "cudaSynchronize"


def waits(database: Database, process: int, *, called: bool) -> Iterator[tuple[Times, dict[int, str]]]:
    """Yield rows of (start, end, type, thread) and the names of the types.

    No row tells its thread; the main one stands for it, whose number is that of the process.

    Args:
        called: Whether runtime calls are in the export.
    """
    if called:
        return
    names = _names(database)
    where = f"WHERE {PROCESS} = {process}" if process and database.has(SYNC, PROCESS) else ""
    for part in database.numbers(SYNC, ("start", "end", "syncType", "streamId"), where):
        part[:, 3] = pid_of(process)
        yield part, {number: names.get(number, _OTHER) for number in np.unique(part[:, 2]).tolist()}


def _names(database: Database) -> dict[int, str]:
    """Return the call by type, from the symbol of the enumeration: ..._TYPE_STREAM_SYNCHRONIZE."""
    if not database.has(TYPES, "id") or not database.has(TYPES, "name"):
        return {}
    rows = [(int(number), str(name)) for number, name in database.all(f"SELECT id, name FROM {TYPES} LIMIT 64")]
    return {
        number: "cuda" + "".join(word.capitalize() for word in name.removeprefix(_PREFIX).split("_"))
        for number, name in rows
        if name.startswith(_PREFIX) and not name.endswith("UNKNOWN")
    }
