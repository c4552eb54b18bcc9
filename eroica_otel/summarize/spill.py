"""Arrays that are needed again later -> memory while they are small, beyond that a file without a name.

The file is gone when its process is, however that ends. Where none can be written (no room, no permission) the arrays
stay in memory, and ``problem`` says why.
"""

from __future__ import annotations

import os
import tempfile
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
HELD_BYTES = 16 << 20
"""What stays in memory: a window of half a million events needs no file."""


class Slot(NamedTuple):
    """Where some arrays of one length are.

    Attributes:
        size: Items of each array.
        types: Type of each array's items.
        place: Byte of the file at which the first array begins; the others follow.
        arrays: The arrays themselves where they are in memory, else empty.
    """

    size: int
    types: tuple[str, ...]
    place: int
    arrays: list[Array]


class Spill:
    """Keeps arrays until it is closed; a context manager.

    Attributes:
        problem: Why nothing can be written, "" while it can, or need not.
    """

    def __init__(self, folder: str = "", file: int = -1) -> None:
        """Take a folder for the file (none: all stays in memory), or the descriptor of one that takes everything."""
        self._folder = folder
        self._left = HELD_BYTES if file < 0 else 0
        self._file = file
        self._end = 0
        self._others: list[Spill] = []
        self.problem = ""

    def __enter__(self) -> Spill:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for other in self._others:
            other.__exit__(kind, error, trace)
            self.problem = self.problem or other.problem
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def another(self) -> Spill:
        """Return one more for the same folder, which is closed with this one."""
        self._others.append(Spill(self._folder))
        return self._others[-1]

    def descriptor(self) -> int:
        """Return the descriptor of the file for a process that is to write into it instead, -1 where there is none."""
        return self._file if self._opened() else -1

    def put(self, *arrays: Array) -> Slot:
        """Keep some arrays of one length."""
        size, types = arrays[0].size, tuple(array.dtype.str for array in arrays)
        nbytes = sum(array.nbytes for array in arrays)
        if nbytes > self._left and self._opened():
            try:
                place = self._end
                for array in arrays:
                    self._write(array)
                return Slot(size, types, place, [])
            except OSError as error:
                self._failed(error)
        self._left -= nbytes
        return Slot(size, types, 0, list(arrays))

    def get(self, slot: Slot) -> list[Array]:
        """Return what was put; nobody may change it.

        Raises:
            OSError: the file cannot be read.
        """
        if slot.arrays:
            return slot.arrays
        place, found = slot.place, []
        for kind in slot.types:
            nbytes = slot.size * np.dtype(kind).itemsize
            found.append(np.frombuffer(os.pread(self._file, nbytes, place), kind))
            place += nbytes
        return found

    def _opened(self) -> bool:
        if self._file < 0 and self._folder and not self.problem:
            try:
                with tempfile.TemporaryFile(dir=self._folder, buffering=0) as file:
                    self._file = os.dup(file.fileno())
            except OSError as error:
                self._failed(error)
        return self._file >= 0 and not self.problem

    def _failed(self, error: OSError) -> None:
        where = f" in {self._folder}" if self._folder else ""
        self.problem = f"no file for a large trace{where}: {error.strerror or error}; memory is used instead"

    def _write(self, array: Array) -> None:
        left = memoryview(array.tobytes())
        while left:
            written = os.pwrite(self._file, left, self._end)
            self._end += written
            left = left[written:]
