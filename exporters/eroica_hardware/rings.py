"""The ring of one source in the shared folder: made when its resources are known, anew when they or the file change.

Takes rows, gives a ring that workers can read (eroica_otel/hardware/ring.py has the format).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress

from eroica_otel.hardware.ring import SUFFIX, FileStore, Layout, Writer, create, intact, slots_for
from eroica_otel.hardware.source import Resource

BEAT_NS = 250_000_000
CHECK_NS = 1_000_000_000


class KeptRing:
    """The ring of one source, in a shared folder whose descriptor stays the caller's."""

    def __init__(self, folder: int, family: str, slots: int = 1 << 16, batch: int = 1) -> None:
        """``slots`` is how many samples are kept, ``batch`` how many are stored at once."""
        self.name = family + SUFFIX
        self.made = 0
        self.batch = batch
        self._folder, self._family, self._slots = folder, family, slots
        self._writer: Writer | None = None
        self._store = FileStore(-1)
        self._head = b""
        self._beaten = self._checked = self._latest = 0

    def prepare(self, resources: tuple[Resource, ...], now: int) -> None:
        """Have a ring for these resources; without any there is none.

        Raises:
            OSError: the folder is full, read-only or gone.
            HardwareError: a resource that no ring can hold.
        """
        if not resources:
            self.close()
            return
        slots = slots_for(len(resources), self._slots, batch=self.batch)
        layout = Layout(self._family, resources, slots, self.batch)
        head = layout.head(0)  # as bytes, because a peak that is NaN equals nothing, itself included
        if self._writer is not None and head == self._head:
            return
        self.close()
        self._store = FileStore(create(self._folder, self.name, layout, now))
        self._writer, self._head = Writer(layout, self._store), head
        self._beaten = self._checked = now
        self._latest = 0
        self.made += 1

    def append(self, time: int, values: Sequence[float]) -> None:
        """Add a sample, where there is a ring; raises OSError, and HardwareError for a wrong number of values.

        A clock that went back (a machine that was restored) begins a new ring, as times in one only grow.
        """
        if time <= self._latest:
            self._renew(time)
        if self._writer is not None:
            self._writer.append(time, values)
            self._latest = self._beaten = time

    def extend(self, times: Sequence[int], rows: Sequence[Sequence[float]]) -> None:
        """Add samples, at most a batch, as ``append`` does; their times grow."""
        if times[0] <= self._latest:
            self._renew(times[-1])
        if self._writer is not None:
            self._writer.extend(times, rows)
            self._latest = self._beaten = times[-1]

    def alive(self, now: int) -> None:
        """Say four times a second that the agent lives, where no sample said so, and look once a second at the file.

        A file that is no longer what it was is replaced.

        Raises:
            OSError: the heartbeat cannot be written.
        """
        if self._writer is None:
            return
        if now - self._beaten >= BEAT_NS:
            self._beaten = now
            self._writer.beat(now)
        if now - self._checked >= CHECK_NS:
            self._checked = now
            if not intact(self._folder, self.name, self._store.file, self._writer.layout):
                self._renew(now)

    def _renew(self, now: int) -> None:
        if self._writer is not None:
            resources = self._writer.layout.resources
            self.close()
            self.prepare(resources, now)

    def close(self) -> None:
        """Say that no more samples come, and let the file go; it stays for those who still read it."""
        if self._writer is None:
            return
        with suppress(OSError):
            self._writer.beat(0)
        os.close(self._store.file)
        self._writer, self._store, self._head = None, FileStore(-1), b""
