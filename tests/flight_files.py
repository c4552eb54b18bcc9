"""Builders of flight recorder dumps: entries, dumps, and folders of them."""

from __future__ import annotations

import json
import pickle
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

GOLDEN = Path(__file__).parent / "golden" / "flight_recorder"
TIME_NS = 1_764_430_000_000_000_000


def entry(number: int = 5, name: str = "nccl:all_reduce", *, done: bool = False, **changes: Any) -> dict[str, Any]:
    """Return collective ``number`` of the default group, as torch 2.9 writes it."""
    return {
        "record_id": number, "pg_id": 0, "process_group": ("0", "default_pg"), "collective_seq_id": number,
        "p2p_seq_id": 0, "op_id": number, "profiling_name": name, "time_created_ns": TIME_NS + number,
        "input_sizes": [[4, 2]], "input_dtypes": ["Float"], "output_sizes": [[4, 2]], "output_dtypes": ["Float"],
        "state": "completed" if done else "scheduled", "time_discovered_started_ns": None,
        "time_discovered_completed_ns": None, "retired": done, "timeout_ms": 600_000, "is_p2p": False,
    } | changes  # fmt: skip


def transfer(name: str, number: int = 0, **changes: Any) -> dict[str, Any]:
    """Return a transfer between two ranks, "nccl:send 0->1", after ``number`` collectives."""
    return entry(number, name, is_p2p=True, p2p_seq_id=1, **changes)


def frame(name: str, file: str, line: int) -> dict[str, Any]:
    return {"name": name, "filename": file, "line": line}


STACK = [
    frame("all_reduce", "/usr/lib/python3/site-packages/torch/distributed/distributed_c10d.py", 2990),
    frame("step", "/job/train.py", 41),
    frame("main", "/job/train.py", 7),
]
"""Innermost first, as the recorder writes it."""


def dump(*entries: Mapping[str, Any], world: int = 4, **changes: Any) -> dict[str, Any]:
    """Return a dump of one rank; its status is that of its last entries."""
    numbers = [one["collective_seq_id"] for one in entries]
    done = [one["collective_seq_id"] for one in entries if one["state"] == "completed"]
    status = {"last_enqueued_collective": max(numbers, default=-1), "last_started_collective": -1,
              "last_completed_collective": max(done, default=-1)}  # fmt: skip
    return {
        "version": "2.9",
        "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": str(list(range(world)))}},
        "nccl_version": "2.27.3", "pg_status": {"0": status}, "entries": list(entries),
    } | changes  # fmt: skip


def write(
    folder: Path, dumps: Mapping[int, Mapping[str, Any]] | Sequence[Mapping[str, Any]], form: str = "pkl"
) -> Path:
    """Write one dump a rank as a job does, and return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for rank, one in dumps.items() if isinstance(dumps, Mapping) else enumerate(dumps):
        if form == "json":
            (folder / f"nccl_trace_rank_{rank}.json").write_text(json.dumps(one))
        else:
            (folder / f"nccl_trace_rank_{rank}").write_bytes(pickle.dumps(dict(one), 2))
    return folder
