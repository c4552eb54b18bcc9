"""Many files -> many Members: over as many processes as there are cores, with progress for whoever looks on.

Processes are spawned, so that threads of the caller are none of their business. One that dies (memory) takes only its
own file with it: what it held up is read again, each in a process of its own.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager

from eroica_otel.offline.member import Member, Request, read_member
from eroica_otel.offline.problem import Problem

Told = Callable[[int, int, str], None]
"""Takes files done, files in all, and the path of the latest."""
SMALL_BYTES = 4 << 20
"""Files that are smaller together are read sooner than processes start."""


def read_all(requests: Sequence[Request], jobs: int = 0, told: Told = lambda done, count, path: None) -> (
    list[Member | Problem]
):  # fmt: skip
    """Return what became of each file, in the order of the requests.

    Args:
        jobs: Files read at a time; 0 for as many as there are cores, and one where all are small.
        told: Is called after each file.
    """
    count = min(jobs or cores(), len(requests))
    if not jobs and sum(_size(request.path) for request in requests) <= SMALL_BYTES:
        count = 1
    done: dict[int, Member | Problem] = {}
    lost: list[int] = []
    for place, future in _run(requests, range(len(requests)), count):
        if isinstance(future.exception(), BrokenProcessPool):
            lost.append(place)
            continue
        done[place] = _outcome(requests[place], future)
        told(len(done), len(requests), requests[place].path)
    for place in lost:
        _, future = next(_run(requests, [place], 0))
        done[place] = _outcome(requests[place], future)
        told(len(done), len(requests), requests[place].path)
    return [done[place] for place in range(len(requests))]


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _run(
    requests: Sequence[Request], places: Sequence[int], count: int
) -> Iterator[tuple[int, Future[Member | Problem]]]:
    with _executor(count) as executor:
        futures = {executor.submit(read_member, requests[place]): place for place in places}
        for future in as_completed(futures):
            yield futures[future], future


@contextmanager
def _executor(count: int) -> Iterator[Executor]:
    """Yield threads for one file at a time, processes for several; 0: one process for what killed another."""
    made: Executor
    if count == 1:
        made = ThreadPoolExecutor(1)
    else:
        made = ProcessPoolExecutor(max(count, 1), mp_context=multiprocessing.get_context("spawn"))
    try:
        yield made
    finally:
        made.shutdown(wait=True, cancel_futures=True)


def _outcome(request: Request, future: Future[Member | Problem]) -> Member | Problem:
    """Return the result; a fault of ours costs this file and no other."""
    error = future.exception()
    if error is None:
        return future.result()
    if isinstance(error, BrokenProcessPool):
        text = "the process that read it was ended from outside; did memory run out? profile fewer iterations"
    else:
        text = f"reading it failed in an unforeseen way ({type(error).__name__}: {error}); please report this"
    return Problem(request.path, f"{request.path}: {text}")


def _size(path: str) -> int:
    try:
        return os.path.getsize(path if os.path.exists(path) else path.rpartition("#")[0])
    except OSError:
        return 0
