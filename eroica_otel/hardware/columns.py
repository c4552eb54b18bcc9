"""Sources whose numbers lie in files of /proc and /sys: open files in, raw values out, NaN for what cannot be read.

A file stays open and costs one pread a reading, also where several resources lie in it.
"""

from __future__ import annotations

import math
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from eroica_otel.hardware.pace import MOST_OF_THE_TIME, Clock, Pace, Turns
from eroica_otel.hardware.source import Resource

MOST_BYTES = 8192
NUMBER_BYTES = 64
# The kernel hands out the longer files of /proc by the page, in whole lines: only a short answer is surely all.
SURELY_ALL = 3072
BACK = "the counter went back"


def number(text: bytes) -> float:
    """Return the whole number that the file holds; raises ValueError for another form."""
    return float(int(text))


def names(folder: Path) -> list[str]:
    """Return the sorted names in a folder, [] where it cannot be read."""
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def text_of(path: Path) -> str:
    """Return the stripped text of a small file, "" where it cannot be read."""
    try:
        return path.read_bytes().decode("utf-8", "replace").strip()
    except OSError:
        return ""


def said(error: OSError) -> str:
    """Return the reason for people, without the path, which may name a user."""
    return (error.strerror or type(error).__name__).lower()


@dataclass(frozen=True, slots=True)
class Column:
    """One resource and where its raw value is.

    Attributes:
        resource: What is read.
        path: The file.
        take: Makes the raw value of the file's bytes; raises ValueError or LookupError for another form.
        interval_s: Least time between two readings of the file; NaN comes in between. 0 reads every time.
        factor: Raw units that ``take``'s number counts by.
        group: Whom it asks: files of one group and interval are read together and share the time it may take.
    """

    resource: Resource
    path: Path
    take: Callable[[bytes], float] = number
    interval_s: float = 0.0
    factor: float = 1.0
    group: str = ""


def key_of(resource: Resource) -> str:
    """Return the word under which ``missing`` tells of one resource."""
    return f"{resource.device} {resource.name}".strip()


class _File:
    """One open file and the columns in it, each with its place in the reading."""

    def __init__(self, columns: Sequence[tuple[int, Column]]) -> None:
        self.columns = columns
        self.interval_s = max(column.interval_s for _, column in columns)
        self.group = columns[0][1].group
        # One number is read into little memory, which costs less.
        self._most = NUMBER_BYTES if all(column.take is number for _, column in columns) else MOST_BYTES
        self._takes = [(place, column.take, column.factor, column.resource.counter) for place, column in columns]
        self._file = -1
        self.last = [-math.inf] * len(columns)
        self.broken = False

    def open(self) -> None:
        """Open it; raises OSError."""
        self._file = os.open(self.columns[0][1].path, os.O_RDONLY | os.O_CLOEXEC)

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
        self._file = -1

    @property
    def is_open(self) -> bool:
        return self._file >= 0

    def read(self, values: list[float], missing: dict[str, str]) -> None:
        """Fill in this file's values; a value that is not there leaves NaN and its reason."""
        try:
            text = os.pread(self._file, self._most, 0)
            if len(text) > SURELY_ALL or len(text) == self._most:
                text = self._rest(text)
        except OSError as error:
            self.fail(said(error), missing)
            return
        if self.broken:
            self._mend(missing)
        last = self.last
        for index, (place, take, factor, counts) in enumerate(self._takes):
            try:
                value = take(text) * factor
            except (ValueError, LookupError, OverflowError):
                self._odd(index, "the file has another form", missing)
                continue
            if counts:
                before, last[index] = last[index], value
                if value < before:  # it wrapped, or its device began anew
                    self._odd(index, BACK, missing)
                    continue
            values[place] = value

    def plain(self) -> Plain | None:
        """Return what a tight loop needs where the file is one whole number that only grows; else None."""
        (place, column), *others = self.columns
        if others or column.take is not number or not column.resource.counter:
            return None
        return self, self._file, place, column.factor, self.last

    def _rest(self, text: bytes) -> bytes:
        while part := os.pread(self._file, MOST_BYTES, len(text)):
            text += part
            if len(part) <= SURELY_ALL:
                break
        return text

    def _odd(self, index: int, reason: str, missing: dict[str, str]) -> None:
        self.broken = True
        missing[key_of(self.columns[index][1].resource)] = reason

    def fail(self, reason: str, missing: dict[str, str]) -> None:
        self.broken = True
        for _, column in self.columns:
            missing[key_of(column.resource)] = reason

    def _mend(self, missing: dict[str, str]) -> None:
        self.broken = False
        for _, column in self.columns:
            missing.pop(key_of(column.resource), None)


Plain = tuple[_File, int, int, float, list[float]]


class _Group:
    """Files that are read together."""

    def __init__(self, files: Sequence[_File]) -> None:
        self._plain = [plain for file in files if (plain := file.plain()) is not None]
        self._others = [file for file in files if file.plain() is None]

    def read(self, values: list[float], missing: dict[str, str]) -> None:
        """Fill in all values. Most files hold one counter: for them little code is run, as it is cold each time."""
        pread = os.pread
        for file, handle, place, factor, last in self._plain:
            try:
                value = int(pread(handle, NUMBER_BYTES, 0)) * factor
            except (OSError, ValueError):
                value = -math.inf
            if value < last[0] or file.broken or value == -math.inf:
                file.read(values, missing)  # which tells what is wrong, or right again
            else:
                last[0] = values[place] = value
        for file in self._others:
            file.read(values, missing)


class FileSource(ABC):
    """A source of hardware samples (source.Source) from files; a subclass says which columns there are now.

    Attributes:
        most: Share of the time that readings of one group of files may take.
    """

    family = ""
    most = MOST_OF_THE_TIME

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self.resources: tuple[Resource, ...] = ()
        self.missing: dict[str, str] = {}
        self._clock = clock
        self._files: list[_File] = []
        self._always = _Group([])
        self._paced: list[tuple[Pace, _Group]] = []
        self._turns = Turns(0)
        self._blank: list[float] = []

    @abstractmethod
    def columns(self) -> Iterable[Column]:
        """Return what there is to read now, and say in ``missing`` what there is not; never raises."""

    def look(self) -> None:
        """Find devices anew, open their files: one that is not there is no resource, one that is refused is NaN."""
        self.close()
        self.missing = {}
        by_path: dict[Path, list[Column]] = {}
        for column in self.columns():
            by_path.setdefault(column.path, []).append(column)
        found: list[Resource] = []
        for columns in by_path.values():
            file = _File(list(enumerate(columns, len(found))))
            try:
                file.open()
            except FileNotFoundError as error:
                file.fail(said(error), self.missing)
                continue
            except OSError as error:
                file.fail(said(error), self.missing)
            self._files.append(file)
            found += [column.resource for column in columns]
        self.resources = tuple(found)
        self._blank = [math.nan] * len(found)
        self._pace()

    def _pace(self) -> None:
        """Put the files together that are read together."""
        always: list[_File] = []
        paced: dict[tuple[float, str], list[_File]] = {}
        for file in self._files:
            if file.is_open:
                (paced.setdefault((file.interval_s, file.group), []) if file.interval_s else always).append(file)
        self._always = _Group(always)
        self._paced = [
            (Pace(interval, self._clock, self.most), _Group(files)) for (interval, _), files in paced.items()
        ]
        self._turns = Turns(len(self._paced))

    def read(self) -> list[float]:
        """Return the raw values of all resources, NaN for one that could not be read or is not due; never raises."""
        values = self._blank.copy()
        self._always.read(values, self.missing)
        if self._paced:
            self._read_paced(values, self._clock())
        return values

    def _read_paced(self, values: list[float], now: float) -> None:
        """Read the groups that are due."""
        began = now
        for index in self._turns.due(now):
            pace, files = self._paced[index]
            pace.start(now)  # not when its turn comes: it would be late for the next reading
            files.read(values, self.missing)
            ended = self._clock()
            pace.took(ended - began)
            began = ended
            self._turns.again(index, pace.due)

    def close(self) -> None:
        for file in self._files:
            file.close()
        self._files, self._paced, self._blank, self.resources = [], [], [], ()
        self._turns = Turns(0)
        self._always = _Group([])
