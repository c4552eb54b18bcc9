"""A file that takes only so many bytes a second: a pipe and a thread that reads it slowly."""

from __future__ import annotations

import fcntl
import os
import threading
import time

PIPE_BYTES = 4096
_F_SETPIPE_SZ = 1031


class SlowPipe:
    """What is written blocks, in the kernel, until the reader has taken enough; it has what ``torch.save`` asks for."""

    def __init__(self, bytes_per_second: float, least_bytes: int = PIPE_BYTES) -> None:
        self._out, self._in = os.pipe()
        fcntl.fcntl(self._in, _F_SETPIPE_SZ, least_bytes)
        threading.Thread(target=_drain, args=(self._out, bytes_per_second), daemon=True).start()

    def write(self, data: bytes) -> int:
        """Write all of ``data`` and return how much that was."""
        view = memoryview(data)
        while view:
            view = view[os.write(self._in, view) :]
        return len(data)

    def flush(self) -> None:
        """Do nothing: nothing is kept back."""


def full() -> int:
    """Return the end of a pipe into which nothing fits any more and which nobody reads."""
    _, end = os.pipe()
    os.set_blocking(end, False)
    try:
        while os.write(end, bytes(PIPE_BYTES)):
            pass
    except BlockingIOError:
        os.set_blocking(end, True)
    return end


def _drain(out: int, bytes_per_second: float) -> None:
    part = max(PIPE_BYTES, round(bytes_per_second * 0.002))
    while data := os.read(out, part):
        time.sleep(len(data) / bytes_per_second)
