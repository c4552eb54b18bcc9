"""A loop like that of a DataLoader's process, without torch: takes numbers, sleeps them off, ends at None."""

from __future__ import annotations

import time
from typing import Any


def read_slowly(seconds: float) -> None:
    time.sleep(seconds)


def _worker_loop(index_queue: Any, done: Any, num_workers: int) -> str:
    for number in iter(index_queue.get, None):
        read_slowly(number)
        done.put(number)
    return "ended"
