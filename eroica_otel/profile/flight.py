"""How far this process is with its collectives: enqueued and completed, per process group. torch is an argument.

torch's Flight Recorder tells it in 0.1 ms without its entries; it is on by default, also for gloo. The full dump would
hold the interpreter's lock for tens of milliseconds. Its names vary by version.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from eroica_otel.procgroups import foremost

_DUMPS = ("_dump_fr_trace_json", "_dump_nccl_trace_json")


def collective_progress(torch: Any) -> dict[str, tuple[int, int | None]]:
    """Return (enqueued, completed) by process group of this process; completed is None where torch does not tell.

    A process that waits in a group has enqueued more than completed; one that the others wait for has enqueued less
    than they. Point-to-point transfers do not count.
    """
    distributed = getattr(torch, "distributed", None)
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return {}
    world = getattr(distributed.distributed_c10d, "_world", None)
    recorded = _recorded(getattr(getattr(torch, "_C", None), "_distributed_c10d", None))
    found: dict[str, tuple[int, int | None]] = {}
    for number, (name, enqueued) in enumerate(_groups(world)):
        # The recorder numbers the groups that this process belongs to; where the counts differ it means another one.
        matching = recorded.get(str(number))
        told = matching[1] if matching is not None and enqueued in (None, matching[0]) else None
        if enqueued is None and matching is not None:
            enqueued = matching[0]
        if enqueued is not None:
            found[name] = (enqueued, told)
    return foremost(found)


def _groups(world: Any) -> Iterator[tuple[str, int | None]]:
    """Yield name and collectives started of each group, None where torch does not tell."""
    for number, group in enumerate(list(getattr(world, "pg_map", {}))):
        try:
            enqueued: int | None = int(group._get_sequence_number_for_group())
        except (AttributeError, RuntimeError):
            enqueued = None
        yield str(getattr(group, "group_name", "") or number), enqueued


def _recorded(c10d: Any) -> dict[str, tuple[int, int]]:
    """Return (enqueued, completed) by the recorder's own number of the group; {} where it tells nothing."""
    dump = next((getattr(c10d, name) for name in _DUMPS if hasattr(c10d, name)), None)
    if dump is None:
        return {}
    try:
        groups: dict[str, dict[str, Any]] = json.loads(dump(includeCollectives=False)).get("pg_status", {})
        return {
            number: (int(one["last_enqueued_collective"]), max(int(one["last_completed_collective"]), 0))
            for number, one in groups.items()
        }
    except (RuntimeError, TypeError, ValueError, KeyError, AttributeError):
        return {}
