"""What a training process says of itself, in one memory-mapped file: written by its 1 Hz thread, read by anybody.

The helper turns it into series, the demo and ``eroica-otel window`` into words. A reader never blocks the writer: a
sequence number makes a torn read detectable (odd while writing, changed by the end of the read). Layout, little endian:

    0  magic 8 bytes   8 sequence u64   16 heartbeat ns i64   24 iterations ever written to the ring u64   32 length
    of JSON u32 64 JSON, at most 16,320 bytes       16,384 ring of RING x (duration, period) float64 seconds, NaN =
    not measured
"""

from __future__ import annotations

import fcntl
import json
import mmap
import os
import struct
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from eroica_otel.errors import EroicaError
from eroica_otel.model import Identity

MAGIC = b"EROICA\x00\x01"
HEADER = struct.Struct("<8sQqQI")
RING = 4096
_JSON_AT, _RING_AT = 64, 16384
SIZE = _RING_AT + RING * 16

STATUS_FILE = "status"
REQUEST_FILE = "request-window"
"""Whoever may write the private folder asks for a manual window by creating this file."""
WATCHDOG_FILE = "watchdog"
"""Where faulthandler writes the stack of a training that holds the interpreter's lock (profile/watchdog.py)."""
PAGE_FILE = "page"
"""Socket on which the helper offers its series to the one that serves those of the node (export/node.py)."""
POINTS_FILE = "points"
"""What the helper hands back where the training's own meter provider exports (export/handed.py)."""
ORDER_FILE = "order"
ANSWER_FILE = "answer"
"""What ``eroica-otel set`` or ``disable`` asks for, and what the worker says to that (orders.py)."""


@dataclass(frozen=True, slots=True)
class Status:
    """State and totals of one worker; counters only grow.

    Attributes:
        state: One of model.STATES; "" where it is not known, because the round that should have found out failed.
        activity: What a person would want to know now, in a few words ("profiling iterations 40 to 71").
        baseline_seconds, ratio: As detect.degradation.Level; None before they exist.
        last_update_seconds: Unix time of the latest update, None before the first.
        window_id, windows: Latest window, and how many by (reason, outcome) as "reason outcome".
        after: (window id, iteration time after it over the time before), None until known.
        failures: Failures by stage.
        collectives: Collectives started, by process group.
        groups: (name, size, hash of ranks) of each process group.
        thread: threading.get_ident() of the thread that trains, 0 while unknown.
        thread_task, monitor_task: The kernel's numbers of that thread and of the one that writes this; 0 = unknown.
        silent_seconds: Time since the latest event of the training.
        nic, link: Interface or RDMA adapter of the collectives, and its name in the node agent's rings ("mlx5_0/1").
        gpu_uuid, pci_bus_id: Of the training thread's GPU; "" where there is none or it is not known.
        gpus: Names of the GPUs in the node agent's rings, the training thread's first.
    """

    identity: Identity
    pid: int
    state: str = "learning"
    activity: str = ""
    iterations: int = 0
    irregular: int = 0
    input_seconds: float = 0.0
    baseline_seconds: float | None = None
    recent_seconds: float | None = None
    ratio: float | None = None
    last_update_seconds: float | None = None
    window_id: int = 0
    windows: Mapping[str, int] = field(default_factory=dict)
    after: tuple[int, float] | None = None
    failures: Mapping[str, int] = field(default_factory=dict)
    collectives: Mapping[str, int] = field(default_factory=dict)
    groups: tuple[tuple[str, int, str], ...] = ()
    store_silent_seconds: float = 0.0
    signature: str = ""
    nic: str = ""
    thread: int = 0
    thread_task: int = 0
    monitor_task: int = 0
    silent_seconds: float = 0.0
    link: str = ""
    gpu_uuid: str = ""
    pci_bus_id: str = ""
    gpus: tuple[str, ...] = ()


def _encode(status: Status) -> bytes:
    """Return the status as JSON that fits; without its tables where it would not.

    Raises:
        EroicaError: even the rest is too long.
    """
    bare = replace(status, collectives={}, groups=(), failures={}, activity="")
    for tried in (status, replace(status, collectives={}, groups=()), bare):
        data = json.dumps(asdict(tried), separators=(",", ":")).encode()
        if len(data) <= _RING_AT - _JSON_AT:
            return data
    raise EroicaError(f"the status takes {len(data)} bytes, {_RING_AT - _JSON_AT} is the most: shorten the job's name")


def _decode(data: bytes) -> Status:
    try:
        fields: dict[str, Any] = json.loads(data)
        fields["identity"] = Identity(**fields["identity"])
        fields["after"] = tuple(fields["after"]) if fields["after"] else None
        fields["groups"] = tuple(tuple(group) for group in fields["groups"])
        fields["gpus"] = tuple(fields["gpus"])
        return Status(**fields)
    except (ValueError, TypeError, KeyError) as error:
        raise EroicaError(f"a status file of another version of eroica_otel: {error}") from error


def hold(file: BinaryIO) -> None:
    """Show others that a process has this file; where the file system has no locks they see nothing."""
    with suppress(OSError):
        fcntl.flock(file.fileno(), fcntl.LOCK_SH | fcntl.LOCK_NB)


class StatusWriter:
    """The training process' side; the file is 0600, has its final size from the start, and is held (folder.py)."""

    def __init__(self, path: Path) -> None:
        self._held = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600), "r+b")
        os.posix_fallocate(self._held.fileno(), 0, SIZE)
        self._map = mmap.mmap(self._held.fileno(), SIZE)
        hold(self._held)
        self._ring: NDArray[np.float64] = np.frombuffer(self._map, np.float64, RING * 2, _RING_AT).reshape(RING, 2)
        self._sequence = 0
        self._count = 0

    def write(self, status: Status, iterations: Iterable[tuple[float, float]] = ()) -> None:
        """Publish ``status``, append (duration, period) pairs to the ring, and renew the heartbeat.

        Raises:
            EroicaError: the status is too long; the file keeps the one before.
        """
        data = _encode(status)
        self._begin(len(data))
        self._map[_JSON_AT : _JSON_AT + len(data)] = data
        for pair in iterations:
            self._ring[self._count % RING] = pair
            self._count += 1
        self._sequence += 1
        HEADER.pack_into(self._map, 0, MAGIC, self._sequence, time.perf_counter_ns(), self._count, len(data))

    def _begin(self, length: int) -> None:
        self._sequence += 1 - self._sequence % 2  # odd, also after a write that did not reach its end
        HEADER.pack_into(self._map, 0, MAGIC, self._sequence, time.perf_counter_ns(), self._count, length)


class StatusReader:
    """Anybody's side. ``read`` returns None while the writer has not written yet or is in the middle of it.

    Both raise EroicaError where the file is not such a file, or of another version.
    """

    def __init__(self, path: Path) -> None:
        try:
            with path.open("rb") as file:
                self._map = mmap.mmap(file.fileno(), SIZE, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as error:
            raise EroicaError(f"{path} is not a status file of eroica_otel: {error}") from error
        self._taken = 0
        self.lost = 0
        """Iterations that left the ring before they were read."""

    def read(self) -> tuple[Status, int, NDArray[np.float64]] | None:
        """Return the status, its heartbeat (monotonic ns) and the (duration, period) rows [n, 2] not yet returned."""
        magic, sequence, heartbeat, count, length = HEADER.unpack_from(self._map, 0)
        if magic != MAGIC or sequence % 2 or not length:
            return None
        data = self._map[_JSON_AT : _JSON_AT + length]
        first = max(self._taken, count - RING)
        order = np.arange(first, count) % RING
        rows = np.frombuffer(self._map[_RING_AT:SIZE], np.float64).reshape(RING, 2)[order]
        if HEADER.unpack_from(self._map, 0)[1] != sequence:
            return None
        self.lost += first - self._taken
        self._taken = count
        return _decode(data), heartbeat, rows


def _whole(reader: StatusReader) -> tuple[Status, int, NDArray[np.float64]] | None:
    """Read again for 0.1 s: a writer that lost its core in the middle of a write is there all the same."""
    for _ in range(20):
        seen = reader.read()
        if seen is not None:
            return seen
        time.sleep(0.005)
    return None


def live_workers(directory: Path) -> list[tuple[Path, Status]]:
    """Return (private folder, status) of the workers under ``directory`` whose process still runs, by rank."""
    found = []
    for path in sorted(directory.glob(f"*/{STATUS_FILE}")):
        try:
            seen = _whole(StatusReader(path))
        except EroicaError:
            continue
        if seen is not None and Path(f"/proc/{seen[0].pid}").exists():
            found.append((path.parent, seen[0]))
    return sorted(found, key=lambda item: (item[1].identity.training_job, item[1].identity.rank))
