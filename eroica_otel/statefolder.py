"""What a restarted localizer knows again: its folder, the verdicts and open findings, the references.

Everything is replaced atomically, readable by this user only (0600 in 0700), and msgpack inside. The windows
themselves are in the journal (query/journal.py), which lies in the same folder.
"""

from __future__ import annotations

import fcntl
import hashlib
import logging
import os
import stat
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from eroica_otel.errors import ConfigError
from eroica_otel.jobstate import Life
from eroica_otel.model import Report, WorkerWindow

VERSION = 1
REFERENCE_SECONDS = 30 * 86400.0
"""The oldest reference of a key stays this long."""
_FULL = 0.95

logger = logging.getLogger(__name__)
_Kept = TypeVar("_Kept")


@dataclass(frozen=True, slots=True)
class JobRecord:
    """What is remembered of one job between rounds and over restarts.

    Attributes:
        team: Its team.
        training_job: Its name.
        judged: Ids of the windows that were judged, oldest first.
        life: Its open findings.
        report: Latest verdict.
        history: Verdicts before and with it, oldest first, without their details.
        success_timestamp_seconds: Unix time of it.
        duration_seconds: What it took to compute.
    """

    team: str
    training_job: str
    judged: tuple[int, ...] = ()
    life: Life = Life()  # noqa: RUF009 (frozen)
    report: Report | None = None
    history: tuple[Report, ...] = ()
    success_timestamp_seconds: float | None = None
    duration_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class _State:
    version: int
    jobs: tuple[JobRecord, ...]


@dataclass(frozen=True, slots=True)
class _Told:
    version: int


@dataclass(frozen=True, slots=True)
class ReferenceKey:
    """What two windows must share so that one can be the other's reference."""

    team: str
    training_job: str
    world_size: int
    roles: tuple[str, ...]
    signature: str


@dataclass(frozen=True, slots=True)
class Reference:
    """The healthy windows of a key, or the medians of each role; ``kept_at`` is unix seconds.

    Attributes:
        workers: How many the medians are of; 0 where each has its window.
    """

    key: ReferenceKey
    kept_at: float
    windows: tuple[WorkerWindow, ...]
    workers: int = 0

    @property
    def size(self) -> int:
        """Workers that it is of."""
        return self.workers or len(self.windows)


def key_of(windows: Sequence[WorkerWindow]) -> ReferenceKey:
    """Return the key of one window's workers (at least one)."""
    who = [window.identity for window in windows]
    signature = Counter(window.signature for window in windows).most_common(1)[0][0]
    return ReferenceKey(
        team=who[0].team,
        training_job=who[0].training_job,
        world_size=max(worker.world_size for worker in who),
        roles=tuple(sorted({worker.role for worker in who})),
        signature=signature,
    )


class StateFolder:
    """The folder ``localizer`` inside the one that was given; only one process uses it at a time."""

    def __init__(self, path: str) -> None:
        """Create or open the folder and lock it.

        Raises:
            ConfigError: it cannot be written, belongs to someone else, is of a newer version, or another localizer
                uses it.
        """
        self.path = os.path.join(os.path.abspath(path), "localizer")
        try:
            os.makedirs(path, mode=0o700, exist_ok=True)
            _private(self.path)
            _private(os.path.join(self.path, "references"))
            self._lock, self._left = _lock(os.path.join(self.path, "lock"), path)
        except OSError as error:
            raise ConfigError(
                f"--state {path}: {error.strerror or error}; give a folder that can be written"
            ) from error
        told = _read(os.path.join(self.path, "state"), _Told, said=True)
        if told is not None and told.version > VERSION:
            os.close(self._lock)
            raise ConfigError(
                f"--state {path} was written by a newer version (state {told.version}, this version reads "
                f"{VERSION - 1} and {VERSION}); use that version, or give another folder"
            )

    @property
    def journal(self) -> str:
        """Path of the journal."""
        return os.path.join(self.path, "journal")

    def close(self) -> None:
        """Let another process use the folder."""
        self.beat()
        os.close(self._lock)

    def beat(self) -> None:
        """Leave the time, from which the next process sees since when nobody has looked."""
        os.utime(self._lock)

    def idle_seconds(self, now: float) -> float:
        """Return the time since an earlier process left it last, 0 without one (``now`` is unix time)."""
        return 0.0 if self._left is None else max(0.0, now - self._left)

    def read(self) -> tuple[JobRecord, ...]:
        """Return what was written last; nothing when there is none or it cannot be understood."""
        state = _read(os.path.join(self.path, "state"), _State)
        return state.jobs if state is not None and VERSION - 1 <= state.version <= VERSION else ()

    def write(self, jobs: Sequence[JobRecord]) -> None:
        """Replace what is remembered.

        Raises:
            OSError: the disk refuses; the earlier state stays.
        """
        _replace(os.path.join(self.path, "state"), msgspec.msgpack.encode(_State(VERSION, tuple(jobs))))

    def reference(self, key: ReferenceKey, now: float) -> Reference | None:
        """Return the reference of a key; None without one younger than 30 days (``now`` is unix time)."""
        found = _read(self._reference_path(key), Reference)
        if found is None or found.key != key or now - found.kept_at > REFERENCE_SECONDS:
            return None
        return found

    def keep(self, new: Reference) -> None:
        """Keep a reference unless the key has one; an incomplete one gives way to one with more workers.

        Raises:
            OSError: the disk refuses.
        """
        old = self.reference(new.key, new.kept_at)
        full = _FULL * new.key.world_size
        if old is None or (old.size < full and new.size > old.size):
            _replace(self._reference_path(new.key), msgspec.msgpack.encode(new))

    def prune(self, now: float | None = None) -> None:
        """Remove references that are too old to be used."""
        limit = (time.time() if now is None else now) - REFERENCE_SECONDS
        for entry in os.scandir(os.path.join(self.path, "references")):
            if entry.stat(follow_symlinks=False).st_mtime < limit:
                os.unlink(entry.path)

    def _reference_path(self, key: ReferenceKey) -> str:
        digest = hashlib.sha256(msgspec.msgpack.encode(key)).hexdigest()[:32]
        return os.path.join(self.path, "references", digest)


def replace_file(path: str, data: bytes, mark: str = "") -> None:
    """Write a file so that a reader sees the old content or the new, never a part; ``mark`` tells writers apart.

    Raises:
        OSError: the disk refuses; the old content stays.
    """
    temporary = f"{path}{mark}.new"
    try:
        with open(temporary, "wb") as file:
            file.write(data)
        os.replace(temporary, path)
    except OSError:
        if os.path.isfile(temporary):
            os.unlink(temporary)
        raise


def _replace(path: str, data: bytes) -> None:
    previous = os.umask(0o077)
    try:
        replace_file(path, data)
    finally:
        os.umask(previous)


def _private(path: str) -> None:
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        found = os.lstat(path)
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
            raise ConfigError(f"{path} is not a folder of this user; give another --state folder") from None
        os.chmod(path, 0o700)


def _lock(path: str, folder: str) -> tuple[int, float | None]:
    """Return the locked file and when it was left by the process before, None without one."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        owner = os.read(descriptor, 20).decode(errors="replace").strip() or "unknown"
        os.close(descriptor)
        raise ConfigError(
            f"--state {folder} is in use by another localizer (pid {owner}); stop it or give another folder"
        ) from None
    found = os.fstat(descriptor)
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, str(os.getpid()).encode(), 0)
    return descriptor, found.st_mtime if found.st_size else None


def _read(path: str, kind: type[_Kept], *, said: bool = False) -> _Kept | None:
    """Return what a file holds, None where it cannot be understood; that is logged unless it is ``said`` elsewhere."""
    try:
        with open(path, "rb") as file:
            return msgspec.msgpack.decode(file.read(), type=kind)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
        if not said:
            logger.warning("%s cannot be read and is left out: %s", path, error)
        return None
