"""A folder that pattern files are written into, as a source: takes the folder, hands over each whole line once.

A file may grow: what has no end of line yet waits. How far each was read is kept beside the journal, and only after the
windows are in it, so that a kill loses none and a restart reads none twice.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import msgspec

from eroica_otel.errors import ConfigError, Guard, QueryError, one_line, unguarded
from eroica_otel.model import WorkerWindow
from eroica_otel.query.files import LINE_BYTES, SUFFIX, window_of
from eroica_otel.rounds import Rounds

LOOK_SECONDS = 1.0
_ERRORS_KEPT = 64

logger = logging.getLogger(__name__)
_Read = dict[str, tuple[int, int]]
"""By the name of a file its inode and how many bytes of it were read."""


class FolderSource:
    """Follows one folder in a thread of its own, from ``start`` to ``stop``.

    Attributes:
        url: The folder, for people.
        failures: Lines and looks that failed.
        settled: Whether the last look found every file read to its end.
    """

    def __init__(
        self,
        folder: str,
        accept: Callable[[WorkerWindow], None],
        state: str = "",
        *,
        say: Callable[[str], None] = logger.info,
        guard: Guard = unguarded,
    ) -> None:
        """Prepare; nothing is read before ``start``.

        Args:
            folder: Whose files that end in .jsonl are read, the oldest first.
            accept: Takes a worker's window; may raise QueryError.
            state: File that tells how far each was read; "" for none.
            say: Takes lines for people.
            guard: Runs one look; what it does not let through cannot end the thread.

        Raises:
            ConfigError: there is no such folder.
        """
        if not os.path.isdir(folder):
            raise ConfigError(f"--files {folder}: there is no such folder; create it, or give another")
        self._accept, self._state, self._say, self._guard = accept, state, say, guard
        self.url, self.failures, self.settled, self._lines = folder, 0, False, 0
        self._read = _remembered(state)
        self._told: set[str] = set()
        self._rounds = Rounds("eroica-files", self._once)

    def start(self) -> None:
        """Begin to look."""
        self._rounds.start()

    def stop(self) -> None:
        """End."""
        self._rounds.stop(1.0)

    def requests(self) -> Mapping[str, int]:
        """Return how many lines were taken in, and how many failed."""
        return {"ok": self._lines, "failed": self.failures}

    def _once(self) -> float:
        self._guard("query", self.look)
        return LOOK_SECONDS

    def look(self) -> None:
        """Read what is new, once.

        Raises:
            OSError: the folder cannot be read, or how far it was read cannot be kept.
        """
        settled, before = True, dict(self._read)
        found = sorted(Path(self.url).glob(f"*{SUFFIX}"), key=lambda path: (path.stat().st_mtime_ns, path.name))
        for path in found:
            if self._rounds.stopping:
                return  # whoever takes may be closed already
            try:
                settled &= self._read_file(path)
            except OSError as error:
                self._fails(f"{path} cannot be read: {error.strerror or error}")
        self._read = {name: read for name, read in self._read.items() if name in {path.name for path in found}}
        if self._state and self._read != before:
            _remember(self._state, self._read)
        self.settled = settled

    def _read_file(self, path: Path) -> bool:
        """Hand over the whole lines that a file has more; return whether nothing is left of it."""
        with path.open("rb") as file:
            now = os.fstat(file.fileno())
            inode, begin = self._read.get(path.name, (now.st_ino, 0))
            if inode != now.st_ino or begin > now.st_size:
                begin = 0  # another file has taken its name
            file.seek(begin)
            for line in _whole_lines(file.readline):
                self._hand_over(path, begin, line)
                begin += len(line)
        self._read[path.name] = (now.st_ino, begin)
        return begin >= now.st_size

    def _hand_over(self, path: Path, at: int, line: bytes) -> None:
        try:
            if line.strip():
                self._accept(window_of(line))
                self._lines += 1
        except QueryError as error:
            self._fails(f"{path}, byte {at}, is left out: {error}")

    def _fails(self, why: str) -> None:
        self.failures += 1
        if why not in self._told and len(self._told) < _ERRORS_KEPT:
            self._told.add(why)
            self._say(one_line(why, 400))


def _whole_lines(readline: Callable[[int], bytes]) -> Iterator[bytes]:
    """Yield lines that have an end; one that is too long comes in pieces, none of which is a window."""
    while (line := readline(LINE_BYTES)) and (line.endswith(b"\n") or len(line) == LINE_BYTES):
        yield line


def _remembered(path: str) -> _Read:
    try:
        return msgspec.msgpack.decode(Path(path).read_bytes(), type=_Read) if path else {}
    except FileNotFoundError:
        return {}
    except (OSError, msgspec.MsgspecError) as error:
        logger.warning("%s cannot be read, so all files are: %s", path, error)
        return {}


def _remember(path: str, read: _Read) -> None:
    temporary = Path(f"{path}.new")
    temporary.write_bytes(msgspec.msgpack.encode(read))
    temporary.replace(path)
