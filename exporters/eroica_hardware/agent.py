"""The node agent: takes options, runs sources, rings, socket and /metrics until it is told to end.

Threads: one for all quick sources, one for each that may hang, one for announcements, those of the endpoint; the main
one looks every second whether folder and socket are still there. Nothing is written but the shared folder.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from eroica_hardware import catalog, place
from eroica_hardware.announce import Announcements
from eroica_hardware.endpoint import Endpoint
from eroica_hardware.exposition import Exposition
from eroica_hardware.listener import hold, listen, remove
from eroica_hardware.nsys import NsysSampler, NsysSource
from eroica_hardware.options import Options
from eroica_hardware.passwords import Doorkeeper, read
from eroica_hardware.rings import KeptRing
from eroica_hardware.sampler import Sampler, start
from eroica_hardware.serve import MetricsServer
from eroica_hardware.windows import Windows
from eroica_otel.errors import HardwareError, one_line
from eroica_otel.hardware.netns import NamespaceSource
from eroica_otel.hardware.source import Source

LOG = logging.getLogger(__name__)

LOOK_SECONDS = 1.0
END_SECONDS = 2.0


class Agent:
    """One agent; ``start`` begins, ``run`` waits, ``close`` ends."""

    def __init__(
        self,
        options: Options,
        make: Callable[[str], Source] | None = None,
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        """Take the folder and the port; ``make`` makes a source of its name, None = as the catalogue does.

        Raises:
            ConfigError: an option cannot be used.
            HardwareError: another agent serves the folder, or something else stands in its place.
        """
        self.options = options
        self._make = make or self._of_catalog
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []
        doorkeeper = Doorkeeper(read(options.password_file) if options.password_file else {})
        self.folder = place.prepare(options.folder)
        self._lock, self._socket = -1, 0
        self._endpoint: Endpoint | None = None
        self._told: set[str] = set()
        try:
            self._lock = hold(self.folder)
            place.tidy(self.folder)
            self.windows = Windows(clock())
            self.announcements = Announcements(listen(self.folder), self.windows, options.users, clock)
            self._socket = place.socket_inode(self.folder)
            self.samplers = {family: self._sampler(family, clock) for family in options.sources}
            self.announcements.met = self._met
            self.exposition = Exposition(
                options.host, self.folder, tuple(self.samplers.values()), self.windows, self.announcements, clock
            )
            if (address := options.address) is not None:
                self._endpoint = Endpoint(lambda: MetricsServer(address, self.exposition, doorkeeper, self.healthy))
        except BaseException:
            self._leave()
            raise

    def start(self) -> None:
        """Begin to sample, to listen and to serve."""
        groups: Sequence[Sequence[Sampler]] = [
            [self.samplers[family] for family in group] for group in catalog.groups(self.samplers)
        ]
        self._threads = start(groups, self._stop)
        listener = threading.Thread(
            target=self.announcements.run, args=(self._stop.is_set,), name="announcements", daemon=True
        )
        listener.start()
        self._threads.append(listener)
        if self._endpoint is not None:
            self._endpoint.start()

    @property
    def server(self) -> MetricsServer | None:
        """The server of /metrics, None where none is wanted or its port is taken."""
        return None if self._endpoint is None else self._endpoint.server

    def run(self, stop: threading.Event) -> None:
        """Wait until ``stop`` is set.

        Raises:
            HardwareError: the shared folder was removed or replaced, or a thread has ended: begin anew.
        """
        while not stop.wait(LOOK_SECONDS):
            self.look()

    def look(self) -> None:
        """Look whether folder and socket are still there; a socket that somebody removed is made again.

        Raises:
            HardwareError: the folder was replaced, or a thread has ended.
            ConfigError: the host or the certificate of /metrics has gone before its port could be had.
        """
        if not place.same(self.folder, self.options.folder):
            raise HardwareError(
                f"the shared folder {self.options.folder} was removed or replaced; start the agent again"
            )
        if not self.healthy():
            raise HardwareError("a thread of the agent has ended; start the agent again, and report what it logged")
        if not place.socket_is(self.folder, self._socket):
            self._listen_again()
        if self._endpoint is not None:
            self._endpoint.look()
        self._tell_empty()

    def healthy(self) -> bool:
        """Whether every thread that was started still runs."""
        return all(thread.is_alive() for thread in self._threads)

    def close(self) -> None:
        """End the threads, say in the rings that no more comes, take the socket away; never raises."""
        self._stop.set()
        if self._endpoint is not None:
            self._endpoint.stop()
        end = time.monotonic() + END_SECONDS
        for thread in self._threads:
            thread.join(max(0.0, end - time.monotonic()))
        for one in self.samplers.values():
            if isinstance(one, NsysSampler):
                one.close()
        if not any(thread.is_alive() for thread in self._threads):  # else closing may hang as that one does
            for one in self.samplers.values():
                getattr(one.source, "close", lambda: None)()
        self._leave()

    def _met(self) -> None:
        """A worker has spoken for the first time: it may be in a network namespace that nobody knew."""
        if (sampler := self.samplers.get(NamespaceSource.family)) is not None:
            sampler.look_soon()

    def _tell_empty(self) -> None:
        """Say once of each source that was asked for by name that it has nothing to read, and why."""
        for family in sorted(self.options.required & self.samplers.keys() - self._told):
            one = self.samplers[family]
            if not one.looked:
                continue
            self._told.add(family)
            if not one.source.resources and (missing := dict(one.source.missing)):
                reason = one_line(missing.get(family, "; ".join(missing.values())))
                needs = catalog.CATALOG[family].looks_for
                LOG.warning(
                    "source %s has nothing to read: %s (it needs %s); it goes on looking", family, reason, needs
                )

    def _listen_again(self) -> None:
        try:
            self.announcements.replace(listen(self.folder))
        except HardwareError as error:  # a hostile folder: rings go on, windows have samples of the steady rate
            self._socket_lost(str(error))
            return
        self._socket = place.socket_inode(self.folder)
        LOG.warning("somebody removed the socket of the shared folder; it was made again")

    def _socket_lost(self, reason: str) -> None:
        level = logging.DEBUG if self.announcements.counts["failed"] else logging.WARNING
        self.announcements.counts["failed"] += 1
        LOG.log(level, "nobody can announce a window: %s", reason)

    def _sampler(self, family: str, clock: Callable[[], int]) -> Sampler:
        ring = KeptRing(self.folder, family, catalog.slots_of(family), catalog.batch_of(family))
        entry, source = catalog.CATALOG[family], self._make(family)
        if isinstance(source, NsysSource):
            return NsysSampler(source, ring, lambda: self.windows.until, clock, self.options.nsys_hertz)
        return Sampler(source, ring, self.windows.running, clock, entry.most_hertz, entry.most_busy)

    def _of_catalog(self, family: str) -> Source:
        wanted = catalog.Wanted(self.options.dcgm, self.options.nic_mbit, self.announcements.workers)
        return catalog.CATALOG[family].make(wanted)

    def _leave(self) -> None:
        if self._socket and place.socket_is(self.folder, self._socket):
            remove(self.folder)
        for file in (self._lock, self.folder):
            with suppress(OSError):
                if file >= 0:
                    os.close(file)
        self._lock = self.folder = -1
