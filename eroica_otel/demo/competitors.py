"""Processes that want the same core as one worker: FAULT=cpu. Needs no privilege.

The worker's threads are pinned to one core, on which some endless loops then run too.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

COMPETITORS = 4
_LOOP = "while True: pass"


def missing() -> str:
    """Return what this fault needs and the machine lacks, "" for nothing."""
    if not hasattr(os, "sched_setaffinity"):
        return "Linux, to pin a worker to one core"
    cores = len(os.sched_getaffinity(0))
    return "" if cores > 1 else "two cores: on one, the other workers would be slowed down as well"


def compete(pid: int) -> list[subprocess.Popen[bytes]]:
    """Pin process ``pid`` to one core and start the competitors there; the caller ends them.

    The other processes keep all cores, and move away from this one.
    """
    core = {max(os.sched_getaffinity(0))}
    for thread in Path(f"/proc/{pid}/task").iterdir():
        os.sched_setaffinity(int(thread.name), core)
    started = [
        subprocess.Popen([sys.executable, "-c", _LOOP], stdin=subprocess.DEVNULL, start_new_session=True)
        for _ in range(COMPETITORS)
    ]
    for process in started:
        os.sched_setaffinity(process.pid, core)
    return started
