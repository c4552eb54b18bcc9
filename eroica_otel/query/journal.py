"""Windows on disk: an append-only file that a killed localizer reads again. WorkerWindow in, WorkerWindow out.

Layout: a magic line, then records of length (4 bytes), CRC-32 of the payload (4 bytes), payload (msgpack). A torn or
damaged record ends the reading and is cut off; it is never fatal. A full disk costs what a restart would remember (the
windows stay in memory); it is counted and logged once, and the service goes on.
"""

from __future__ import annotations

import logging
import os
import struct
import threading
import zlib
from collections.abc import Iterator
from io import FileIO

import msgspec

from eroica_otel.errors import ConfigError
from eroica_otel.model import WorkerWindow

MAGIC = b"eroica journal 1\n"
COMPACT_BYTES = 32 * 2**20
"""Below this size the journal is never rewritten."""
WINDOWS_KEPT = 4
"""Windows of each job that survive a compaction: the one that is coming in, and a few to look back at."""
JOBS_KEPT = 64
"""Jobs that survive a compaction, those that wrote last."""
_HEADER = struct.Struct("<II")
_RECORD_BYTES = 16 * 2**20

logger = logging.getLogger(__name__)
_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(WorkerWindow)


def read(path: str) -> Iterator[WorkerWindow]:
    """Yield the windows of a journal, also of one that a localizer writes just now: nothing is locked or changed.

    Raises:
        ConfigError: the file is not a journal.
        OSError: it cannot be read.
    """
    with open(path, "rb") as file:
        if file.read(len(MAGIC)) != MAGIC:
            raise ConfigError(
                f"{path} is not a journal of this version; give the --state of a localizer of this version"
            )
    for payload in _records(path):
        try:
            yield _decoder.decode(payload)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            logger.warning("%s holds a record of another version, which is left out: %s", path, error)


class Journal:
    """The journal of one state folder; safe to use from several threads of one process.

    Attributes:
        failures: Windows that could not be written and records that could not be read.
    """

    def __init__(self, path: str, *, keep: int = WINDOWS_KEPT, compact_bytes: int = COMPACT_BYTES) -> None:
        """Open or create ``path`` (0600) and cut off what a killed writer left half-written.

        Args:
            path: The file; its folder exists.
            keep: Newest windows of each job that survive a compaction.
            compact_bytes: Size from which the file is rewritten once it has doubled.

        Raises:
            ConfigError: the file cannot be opened, or it is not a journal.
        """
        self.path, self.failures = path, 0
        self._keep, self._compact_bytes = keep, compact_bytes
        self._lock = threading.Lock()
        self._full = False
        try:
            self._file = _open(path)
            self._good = self._base = self._recover()
        except OSError as error:
            raise ConfigError(f"{path} cannot be used: {error.strerror}; give another --state folder") from error

    def windows(self) -> Iterator[WorkerWindow]:
        """Yield every window in the order in which they were written; what cannot be decoded is counted."""
        for payload in _records(self.path):
            try:
                yield _decoder.decode(payload)
            except (msgspec.MsgspecError, UnicodeDecodeError) as error:
                self.failures += 1
                logger.warning("%s holds a record of another version, which is left out: %s", self.path, error)

    def append(self, window: WorkerWindow) -> bool:
        """Write one window; return False when the disk refuses, which is counted and logged once."""
        record = _record(_encoder.encode(window))
        with self._lock:
            try:
                self._append(record)
                if self._good > max(self._compact_bytes, 2 * self._base):
                    self._compact()
            except OSError as error:
                self._failed(error)
                return False
            if self._full:
                self._full = False
                logger.warning("%s can be written again", self.path)
            return True

    def compact(self) -> None:
        """Rewrite the file so that it holds the newest windows of each job only.

        Raises:
            OSError: the disk refuses; the old file stays as it was.
        """
        with self._lock:
            self._compact()

    def close(self) -> None:
        """Close the file; everything is on disk already."""
        self._file.close()

    def _append(self, record: bytes) -> None:
        self._file.seek(self._good)
        _write(self._file, record)
        self._good += len(record)

    def _failed(self, error: OSError) -> None:
        self.failures += 1
        if not self._full:
            problem = f"{self.path} cannot be written ({error.strerror or error})"
            logger.warning("%s: a restart will not know the windows from now on; free some space", problem)
        self._full = True
        try:
            self._file.truncate(self._good)
        except OSError:
            # The next record overwrites the torn one, and a reader stops before it.
            logger.debug("%s keeps a torn record", self.path)

    def _recover(self) -> int:
        """Return the offset of the end of the last whole record; nothing stands after it."""
        size = self._file.seek(0, os.SEEK_END)
        self._file.seek(0)
        head = self._file.read(len(MAGIC)) or b""
        if head != MAGIC[: len(head)]:
            raise ConfigError(f"{self.path} is not a journal of this version; move it away or give another --state")
        if len(head) < len(MAGIC):
            self._file.truncate(0)
            self._file.seek(0)
            _write(self._file, MAGIC)
            return len(MAGIC)
        end = len(MAGIC) + sum(_HEADER.size + len(payload) for payload in _records(self.path))
        if end < size:
            self.failures += 1
            logger.warning("%s ends in a damaged record; %d bytes are cut off", self.path, size - end)
            self._file.truncate(end)
        return end

    def _compact(self) -> None:
        # The next try waits until the file has doubled again, also when this one fails.
        self._base = self._good
        newest = _newest(self.path, self._keep)
        temporary = self.path + ".new"
        file = _open(temporary)
        try:
            file.truncate(0)
            _write(file, MAGIC)
            for payload in _records(self.path):
                if _key(payload) in newest:
                    _write(file, _record(payload))
            os.fsync(file.fileno())
            os.replace(temporary, self.path)
        except OSError:
            file.close()
            raise
        self._file.close()
        self._file, self._good = file, file.tell()
        self._base = self._good


def _open(path: str) -> FileIO:
    return FileIO(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600), "r+")


def _write(file: FileIO, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[file.write(left) or 0 :]


def _record(payload: bytes) -> bytes:
    return _HEADER.pack(len(payload), zlib.crc32(payload)) + payload


def _records(path: str) -> Iterator[bytes]:
    """Yield payloads up to the first record that is torn or damaged."""
    with open(path, "rb") as file:
        file.seek(len(MAGIC))
        while len(header := file.read(_HEADER.size)) == _HEADER.size:
            length, checksum = _HEADER.unpack(header)
            payload = file.read(length) if length <= _RECORD_BYTES else b""
            if len(payload) < length or zlib.crc32(payload) != checksum:
                return
            yield payload


def _newest(path: str, keep: int) -> set[tuple[str, str, int]]:
    jobs: dict[tuple[str, str], dict[int, None]] = {}
    for payload in _records(path):
        team, job, window_id = _key(payload)
        windows = jobs.pop((team, job), {})
        jobs[team, job] = windows | {window_id: None}
    newest = list(jobs.items())[-JOBS_KEPT:]
    return {(*job, window_id) for job, windows in newest for window_id in list(windows)[-keep:]}


def _key(payload: bytes) -> tuple[str, str, int]:
    """Return team, job and window id; what cannot be decoded has a key that no window has."""
    try:
        window = _decoder.decode(payload)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return "", "", -1
    return window.identity.team, window.identity.training_job, window.window_id
