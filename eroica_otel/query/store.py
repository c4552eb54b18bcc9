"""Deliveries -> what is known now: the workers of each job and the newest windows. In memory, bounded, thread-safe.

Times are those of the clock that is given in (monotonic seconds of this machine); no worker's clock is ever compared.
"""

from __future__ import annotations

import statistics
import threading
from collections import OrderedDict, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from eroica_otel import names
from eroica_otel.errors import QueryError, one_line
from eroica_otel.model import STATES, Identity, Point, WorkerWindow
from eroica_otel.query.arrived import Arrived as Arrived
from eroica_otel.query.decode import decode, identity
from eroica_otel.query.gathered import Earlier, window_id_of
from eroica_otel.query.otlp import Delivery
from eroica_otel.table import Table
from eroica_otel.tabled import taken

WINDOWS_KEPT = 16
JOBS_KEPT = 64
WORKERS_MOST = 2**17
"""Workers of all jobs that are known at once, unless the owner of a store wants more of them."""
PATTERNS_MOST = 2**22
"""Patterns of all windows that are held at once, about 2 GB; beyond it the windows that came first are let go."""
ROWS_A_PATTERN = 16
"""Patterns in a table that take as much memory as one that is an object."""
FORGOTTEN_SECONDS = 600.0
"""A job that was silent for so long gives way to another where there are too many workers; its findings have ended."""
LIVE_SECONDS = 60.0
"""Two processes are live at once when both delivered within this time."""
_INTERVALS = 5
_PROCESSES_MOST = 4
"""Live processes that one rank is told apart into."""

JobKey = tuple[str, str]
"""(team, training_job)."""


@dataclass(frozen=True, slots=True)
class Worker:
    """Latest state of one worker; ``state`` is "" until it says one."""

    identity: Identity
    state: str
    last_seen: float
    iterations: float | None
    duplicates: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Job:
    """Everything known about one job; released windows are not in it.

    Attributes:
        key: Team and name.
        workers: By rank; those of an earlier, larger world may still be there.
        windows: By window id, in the order in which their first parts came; ids are of different clocks.
        spacing: Median time between two deliveries of a worker (samples, where a backend is read), 0 when unknown.
        last_seen: Latest delivery.
    """

    key: JobKey
    workers: Mapping[int, Worker]
    windows: Mapping[int, Arrived]
    spacing: float
    last_seen: float


@dataclass(slots=True)
class _Process:
    marks: dict[str, str]
    last_seen: float


@dataclass(slots=True)
class _Worker:
    identity: Identity
    state: str = ""
    iterations: float | None = None
    last_seen: float = 0.0
    intervals: deque[float] = field(default_factory=lambda: deque(maxlen=_INTERVALS))
    processes: list[_Process] = field(default_factory=list)
    clash: float | None = None


@dataclass(slots=True)
class _Window:
    first: float
    latest: float
    ranks: set[int] = field(default_factory=set)
    windows: dict[int, WorkerWindow] = field(default_factory=dict)
    tables: list[Table] = field(default_factory=list)
    patterns: int = 0
    released: bool = False
    blocked: Identity | None = None

    def release(self) -> None:
        """Drop the contents; the ranks stay known."""
        self.windows, self.tables, self.patterns, self.released = {}, [], 0, True


@dataclass(slots=True)
class _Job:
    last_seen: float
    workers: dict[int, _Worker] = field(default_factory=dict)
    windows: OrderedDict[int, _Window] = field(default_factory=OrderedDict)
    joined: dict[int, int] = field(default_factory=dict)


class Store:
    """The latest state per worker and the newest windows per job; what is too old is dropped, oldest first."""

    def __init__(
        self,
        *,
        windows: int = WINDOWS_KEPT,
        jobs: int = JOBS_KEPT,
        workers: int = WORKERS_MOST,
        patterns: int = PATTERNS_MOST,
    ) -> None:
        self._lock = threading.Lock()
        self._jobs: OrderedDict[JobKey, _Job] = OrderedDict()
        self._windows, self._most_jobs = windows, jobs
        self._most_workers, self._most_patterns = workers, patterns

    def add(self, delivery: Delivery, now: float) -> WorkerWindow | None:
        """Take one delivery in; return the worker's window when this is the first time it is seen.

        Raises:
            QueryError: its labels or counts cannot come from a worker, or there are too many workers already.
        """
        who = identity(delivery.points)
        with self._lock:
            self._admit(who, now)
            job = self._job((who.team, who.training_job), now)
            worker = job.workers.setdefault(who.rank, _Worker(who))
            _refresh(worker, who, delivery, now)
            _recognise(worker, _marks(who, delivery.process), now)
            if _known(job, who.rank, delivery.points):
                return None
            window = decode(delivery.points)
            if window is None:
                return None
            return window if self._keep(job, _gathered(job, window, now), now) else None

    def add_table(self, key: JobKey, table: Table, now: float) -> bool:
        """Take one window of many workers in, in which something moved; return whether any of it is new."""
        if not len(table.workers):
            return False
        window_id, ranks = int(table.workers.window_id[0]), table.workers.rank
        with self._lock:
            job = self._job(key, now)
            kept = job.windows.setdefault(window_id, _Window(now, now))
            fresh = ~np.isin(ranks, np.fromiter(kept.ranks, np.int64, len(kept.ranks)))
            kept.ranks |= set(ranks[fresh].tolist())
            if fresh.any() and not kept.released:
                kept.tables.append(taken(table, fresh))
                kept.patterns += kept.tables[-1].beta.size // ROWS_A_PATTERN
            self._settle(job, kept, now)
            return bool(fresh.any()) and window_id in job.windows

    def restore(self, window: WorkerWindow, now: float) -> WorkerWindow | None:
        """Take in a window from a file, in the order in which they came; its worker is not thereby alive.

        Return it under the id that it is kept by, None where it is known or no window.
        """
        with self._lock:
            job = self._job((window.identity.team, window.identity.training_job), now)
            window = _gathered(job, window, now)
            return window if self._keep(job, window, now) else None

    def release(self, key: JobKey, window_id: int) -> None:
        """Drop the contents of a window that was judged; its id stays known, so that it is not taken in again."""
        with self._lock:
            job = self._jobs.get(key)
            if job is not None and window_id in job.windows:
                job.windows[window_id].release()

    def jobs(self) -> tuple[Job, ...]:
        """Return a snapshot of every job."""
        with self._lock:
            return tuple(_snapshot(key, job) for key, job in self._jobs.items())

    def _admit(self, who: Identity, now: float) -> None:
        job = self._jobs.get((who.team, who.training_job))
        if job is not None and who.rank in job.workers:
            return
        while sum(len(job.workers) for job in self._jobs.values()) >= self._most_workers:
            key, longest = next(iter(self._jobs.items()))
            if now - longest.last_seen < FORGOTTEN_SECONDS:
                name = one_line(who.training_job, 80)
                raise QueryError(
                    f"{self._most_workers:,} workers are followed already and no more of {name}, so that nobody sees "
                    "when these hang or recover; raise --workers, or let another localizer follow some of the jobs "
                    "(--match)"
                )
            del self._jobs[key]

    def _job(self, key: JobKey, now: float) -> _Job:
        job = self._jobs.setdefault(key, _Job(now))
        job.last_seen = now
        self._jobs.move_to_end(key)
        while len(self._jobs) > self._most_jobs:
            self._jobs.popitem(last=False)
        return job

    def _keep(self, job: _Job, window: WorkerWindow, now: float) -> bool:
        if not (window.patterns or window.kinds or window.stopped_seconds or window.silent_seconds):
            # The patterns are stale already and the id is all that is left: nothing to judge.
            return False
        kept = job.windows.setdefault(window.window_id, _Window(now, now))
        if window.identity.rank in kept.ranks:
            return False
        kept.ranks.add(window.identity.rank)
        if window.reason == "blocked" and kept.blocked is None:
            kept.blocked = window.identity
        if not kept.released:
            kept.windows[window.identity.rank] = window
            kept.patterns += len(window.patterns)
        self._settle(job, kept, now)
        return window.window_id in job.windows

    def _settle(self, job: _Job, kept: _Window, now: float) -> None:
        """Let go what is too much."""
        kept.latest = now
        while len(job.windows) > self._windows:
            job.windows.popitem(last=False)
        job.joined = {own: kept for own, kept in job.joined.items() if kept in job.windows}
        self._make_room()

    def _make_room(self) -> None:
        held = [window for job in self._jobs.values() for window in job.windows.values() if window.patterns]
        excess = sum(window.patterns for window in held) - self._most_patterns
        for window in sorted(held, key=lambda window: window.first):
            if excess <= 0:
                return
            excess -= window.patterns
            window.release()


def _gathered(job: _Job, window: WorkerWindow, now: float) -> WorkerWindow:
    """Return the window under the id of the hang that it is part of."""
    earlier = {
        window_id: Earlier(kept.first, frozenset(kept.ranks), kept.blocked)
        for window_id, kept in job.windows.items()
        if kept.blocked is not None
    }
    window_id = window_id_of(window, earlier, now)
    if window_id == window.window_id:
        return window
    job.joined[window.window_id] = window_id
    return replace(window, window_id=window_id)


def _refresh(worker: _Worker, who: Identity, delivery: Delivery, now: float) -> None:
    state, whole = "", False
    for point in delivery.points:
        if point.name == names.WORKER_STATE.name and point.value == 1 and point.labels["state"] in STATES:
            state = point.labels["state"]
        elif point.name == names.ITERATIONS.name:
            worker.iterations, whole = point.value, True
    if state or whole:
        # A helper that hears nothing from its trainer says no state: the earlier one is not known to hold.
        worker.state = state
    if delivery.spacing_seconds > 0 or worker.last_seen:
        worker.intervals.append(delivery.spacing_seconds or now - worker.last_seen)
    worker.identity, worker.last_seen = who, now


def _known(job: _Job, rank: int, points: Iterable[Point]) -> bool:
    for point in points:
        if point.name == names.WINDOW_ID.name:
            own = int(point.value) if 0 <= point.value < 2**53 else -1
            ids = (own, job.joined.get(own, own))
            return any(window_id in job.windows and rank in job.windows[window_id].ranks for window_id in ids)
    return True


def _marks(who: Identity, process: Mapping[str, str]) -> dict[str, str]:
    # Before the worker knows its run, its restart count says nothing either.
    return {"host": who.host, "run_id": who.run_id, "restart": str(who.restart) if who.run_id else "", **process}


def _recognise(worker: _Worker, marks: dict[str, str], now: float) -> None:
    """Note which process speaks for the worker; a process that speaks again after another did is a duplicate.

    A restart shows A A A B B B and never A again. Marks that one side does not know cannot tell two processes apart.
    """
    worker.processes = [process for process in worker.processes if now - process.last_seen <= LIVE_SECONDS]
    for index, process in enumerate(worker.processes):
        if all(value == (process.marks.get(name) or value) for name, value in marks.items() if value):
            if index < len(worker.processes) - 1:
                worker.clash = now
            worker.processes.append(worker.processes.pop(index))
            process.last_seen = now
            process.marks |= {name: value for name, value in marks.items() if value}
            return
    worker.processes = [*worker.processes[1 - _PROCESSES_MOST :], _Process(marks, now)]


def _duplicates(worker: _Worker) -> tuple[str, ...]:
    if worker.clash is None or worker.last_seen - worker.clash > LIVE_SECONDS or len(worker.processes) < 2:
        return ()
    return tuple(sorted(_describe(process.marks) for process in worker.processes))


def _describe(marks: Mapping[str, str]) -> str:
    pid = f" pid {marks['process.pid']}" if marks.get("process.pid") else ""
    run = f" run {marks['run_id']}" if marks["run_id"] else ""
    at = f" at {marks['instance']}" if marks.get("instance") else ""
    return f"{marks['host'] or 'unknown host'}{at}{pid}{run}"


def _snapshot(key: JobKey, job: _Job) -> Job:
    workers = {
        rank: Worker(worker.identity, worker.state, worker.last_seen, worker.iterations, _duplicates(worker))
        for rank, worker in sorted(job.workers.items())
    }

    def ids(window_id: int) -> frozenset[int]:
        return frozenset((window_id, *(own for own, kept in job.joined.items() if kept == window_id)))

    windows = {
        window_id: Arrived(
            window_id, dict(window.windows), window.first, window.latest, ids(window_id), tuple(window.tables)
        )
        for window_id, window in job.windows.items()
        if not window.released
    }
    spacings = [statistics.median(worker.intervals) for worker in job.workers.values() if worker.intervals]
    return Job(key, workers, windows, statistics.median(spacings) if spacings else 0.0, job.last_seen)
