"""One word in a mapped file by which a training wakes the processes of its DataLoader for a window.

A process that sleeps on the word costs nothing: it waits in the kernel (futex) and is woken by the one that changes it.
Where the kernel has no such call the word is looked at once a second. Both sides are short-lived or may be killed at
any time, so there is no handshake: the word is odd while a window runs, and each change is a new number.
"""

from __future__ import annotations

import mmap
import os
import platform
import struct
import sys
import time
from pathlib import Path
from typing import Any

LOADERS_FILE = "loaders"
"""Name of the file in a training's private folder."""
POLL_SECONDS = 1.0
_SIZE = 4096
_BODY = struct.Struct("<qd")
_BODY_AT = 8
_WAIT, _WAKE, _ALL = 0, 1, 0x7FFFFFFF
_FUTEX = {"x86_64": 202, "aarch64": 98, "riscv64": 98, "ppc64le": 221, "s390x": 238}
"""Number of the system call futex by machine (Linux, arch/*/entry/syscalls)."""


class Bell:
    """The word, seen from either side; raises OSError where the file cannot be opened or mapped.

    ``ring`` and ``silence`` are the training's, ``wait`` is that of a loader's process.
    """

    def __init__(self, path: Path, create: bool = False) -> None:
        flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        descriptor = os.open(path, flags, 0o600)
        try:
            if create:
                os.write(descriptor, bytes(_SIZE))  # a hole in a file would be a SIGBUS once the disk is full
            elif os.fstat(descriptor).st_size < _SIZE:
                raise OSError(f"{path} is not complete yet")
            self._map = mmap.mmap(descriptor, _SIZE)
        finally:
            os.close(descriptor)
        self._call = _futex(self._map)

    @property
    def word(self) -> int:
        """The number of the latest change; odd while a window runs."""
        return int.from_bytes(self._map[:4], sys.byteorder)

    @property
    def window(self) -> tuple[int, float]:
        """Id of the window, and the samples a second that are wanted in it."""
        window, hertz = _BODY.unpack_from(self._map, _BODY_AT)
        return int(window), float(hertz)

    def ring(self, window: int, hertz: float) -> bool:
        """Begin ``window``; return False, and change nothing, while another one runs."""
        if self.word & 1:
            return False
        _BODY.pack_into(self._map, _BODY_AT, window, hertz)
        self._change()
        return True

    def silence(self, window: int) -> None:
        """End ``window``, if it is this one that runs."""
        if self.word & 1 and self.window[0] == window:
            self._change()

    def _change(self) -> None:
        self._map[:4] = ((self.word + 1) & 0xFFFFFFFF).to_bytes(4, sys.byteorder)
        if self._call is not None:
            self._call(_WAKE, _ALL, None)

    def wait(self, seen: int, seconds: float | None = None) -> int:
        """Sleep while the word is ``seen``, at most ``seconds``; return the word."""
        began = time.monotonic()
        if self._call is not None:
            self._call(_WAIT, seen, seconds)
        if self.word == seen:
            # Without the call, or where the kernel refuses it, this is what keeps the caller from a busy loop.
            left = (POLL_SECONDS if seconds is None else seconds) - (time.monotonic() - began)
            if left > 0:
                time.sleep(left)
        return self.word


def _futex(memory: mmap.mmap) -> Any:
    """Return a function that calls futex(2) on the first word of ``memory``; None where that is not to be had."""
    number = _FUTEX.get(platform.machine())
    if number is None or os.name != "posix" or not hasattr(os, "sched_getaffinity"):
        return None
    try:
        import ctypes  # here: a process that only imports this package needs it not

        syscall = ctypes.CDLL(None).syscall
    except (ImportError, OSError, AttributeError):
        return None
    syscall.restype = ctypes.c_long
    word = ctypes.c_uint32.from_buffer(memory)
    address = ctypes.c_void_p(ctypes.addressof(word))
    time_type = ctypes.c_long * 2

    def call(operation: int, value: int, seconds: float | None, keep: object = word) -> None:
        limit = None
        if seconds is not None:
            limit = ctypes.byref(time_type(int(seconds), int(seconds % 1 * 1e9)))
        syscall(
            ctypes.c_long(number),
            address,
            ctypes.c_int(operation),
            ctypes.c_uint32(value),
            limit,
            None,
            ctypes.c_int(0),
        )

    return call
