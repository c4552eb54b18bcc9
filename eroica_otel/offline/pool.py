"""Many files -> many Members: over as many processes as there are cores, with progress for whoever looks on.

Processes are spawned, so that threads of the caller are none of their business. One that dies (memory) takes only its
own file with it: what it held up is read again, each in a process of its own. An interrupt ends all of it at once.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing.pool import ThreadPool

from eroica_otel.offline.member import Member, Request, read_member
from eroica_otel.offline.problem import Problem
from eroica_otel.offline.tally import Tally
from eroica_otel.profile import samples

Told = Callable[[int, int, str, float], None]
"""Takes files done, files in all, the path of the latest, and the share of all bytes that is gone through, 0 to 1."""
_Submit = Callable[[Request], "Future[Member | Problem]"]
LOOK_SECONDS = 0.5
"""So often the readers are looked at."""
SMALL_BYTES = 4 << 20
"""Files that are smaller together are read sooner than processes start."""


def read_all(requests: Sequence[Request], jobs: int = 0, told: Told = lambda done, count, path, share: None) -> (
    list[Member | Problem]
):  # fmt: skip
    """Return what became of each file, in the order of the requests.

    Args:
        jobs: Files read at a time; 0 for as many as there are cores, and one where all are small.
        told: Is called after each file, and about twice a second.
    """
    count = min(jobs or cores(), len(requests))
    if not jobs and sum(size_of(request.path) for request in requests) <= SMALL_BYTES:
        count = 1
    with Tally([size_of(request.path) for request in requests]) as tally:
        asked = [
            replace(request, beside=count, tally=tally.path, place=place) for place, request in enumerate(requests)
        ]
        return _read_all(asked, count, tally, told)


def _read_all(requests: Sequence[Request], count: int, tally: Tally, told: Told) -> list[Member | Problem]:
    done: dict[int, Member | Problem] = {}
    lost: list[int] = []

    def tell(place: int) -> None:
        told(len(done), len(requests), requests[place].path, tally.share(done))

    for place, future in _run(requests, range(len(requests)), count, tell):
        if isinstance(future.exception(), BrokenProcessPool):
            lost.append(place)
            continue
        done[place] = _outcome(requests[place], future)
        tell(place)
    for place in lost:
        alone = {place: replace(requests[place], beside=1)}
        _, future = next(_run(alone, [place], 0, tell))
        done[place] = _outcome(requests[place], future)
        tell(place)
    return [done[place] for place in range(len(requests))]


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _run(
    requests: Sequence[Request] | Mapping[int, Request],
    places: Sequence[int],
    count: int,
    looked: Callable[[int], None],
) -> Iterator[tuple[int, Future[Member | Problem]]]:
    """Yield what is done; ``looked`` is told one of those that are not, as long as there is no news."""
    with _in_thread() if count == 1 else _in_processes(count) as submit:
        futures = {submit(requests[place]): place for place in places}
        left = set(futures)
        while left:
            ready, left = wait(left, LOOK_SECONDS, FIRST_COMPLETED)
            for future in ready:
                yield futures[future], future
            if not ready:
                looked(min(futures[future] for future in left))


@contextmanager
def _in_thread() -> Iterator[_Submit]:
    """Yield what reads one file at a time.

    Its thread is waited for by nobody, at no time: an interrupt ends the command in the middle of a file.
    """
    with ThreadPool(1) as threads:

        def submit(request: Request) -> Future[Member | Problem]:
            future: Future[Member | Problem] = Future()
            threads.apply_async(
                read_member, (request,), callback=future.set_result, error_callback=future.set_exception
            )
            return future

        yield submit


@contextmanager
def _in_processes(count: int) -> Iterator[_Submit]:
    """Yield what reads several files at a time; 0: one in a process, for what killed another."""
    made = ProcessPoolExecutor(max(count, 1), mp_context=multiprocessing.get_context("spawn"))
    whole = False
    try:
        yield lambda request: made.submit(read_member, request)
        whole = True
    finally:  # after an interrupt the tally is taken away, which ends the readers
        made.shutdown(wait=whole, cancel_futures=True)


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


def size_of(path: str) -> int:
    """Return the bytes of a file, or of the trace in a capture folder; 0 where nobody knows."""
    path = os.path.join(path, samples.TRACE) if os.path.isdir(path) else path
    try:
        return os.path.getsize(path if os.path.exists(path) else path.rpartition("#")[0])
    except OSError:
        return 0
