"""How far this process is with the collectives of its process groups; torch.distributed is an argument."""

from __future__ import annotations

import hashlib
from typing import Any


def progress(distributed: Any) -> tuple[dict[str, int], tuple[tuple[str, int, str], ...]]:
    """Return collectives started by group, and (name, size, hash of ranks) of each group.

    Read from torch.distributed's registry of groups, 0.2 us each; names of private attributes vary by version, and
    where they are missing nothing is reported.
    """
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return {}, ()
    world = getattr(distributed.distributed_c10d, "_world", None)
    sequences: dict[str, int] = {}
    groups: list[tuple[str, int, str]] = []
    for group in list(getattr(world, "pg_map", {})):
        name = str(getattr(group, "group_name", "") or len(groups))
        ranks = sorted(getattr(world, "pg_group_ranks", {}).get(group, {}))
        digest = hashlib.blake2s(",".join(map(str, ranks)).encode(), digest_size=4).hexdigest()
        groups.append((name, len(ranks), digest))
        try:
            sequences[name] = int(group._get_sequence_number_for_group())
        except (AttributeError, RuntimeError):
            continue
    return sequences, tuple(groups)
