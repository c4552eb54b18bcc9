"""Where the localizer job gets its deliveries from: takes what was asked for, gives sources behind one protocol.

The embedded OTLP receiver, a Prometheus that is read, a folder that is followed, or several; what the first two
bring goes to the same function.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from typing import NamedTuple, Protocol
from urllib.parse import urlsplit

from eroica_otel.errors import ConfigError
from eroica_otel.jobfaults import Faults
from eroica_otel.jobinlet import Inlet
from eroica_otel.query.client import Backend, shown_url
from eroica_otel.query.following import FolderSource
from eroica_otel.query.prometheus import PrometheusSource
from eroica_otel.query.receiver import Receiver
from eroica_otel.query.store import WORKERS_MOST
from eroica_otel.webserver import Address, is_loopback


class Places(NamedTuple):
    """Where measurements come from.

    Attributes:
        listen: Address of the OTLP receiver; None for none.
        backend: Prometheus that is read; None for none.
        files: Folder of pattern files that is followed; "" for none.
        state: Folder of --state.
        workers: How many workers are followed at once.
    """

    listen: Address | None = None
    backend: Backend | None = None
    files: str = ""
    state: str = ""
    workers: int = WORKERS_MOST


class Source(Protocol):
    """What deliveries come from."""

    @property
    def url(self) -> str:
        """Return where they come from or go to, for people."""

    def start(self) -> None:
        """Begin to hand deliveries over."""

    def stop(self) -> None:
        """End it and free what is held."""

    def requests(self) -> Mapping[str, int]:
        """Return the number of requests or questions by outcome."""


class Sources:
    """The sources of one localizer; ``start`` and ``stop`` reach all of them.

    Attributes:
        receiver: The embedded OTLP receiver; None where none was asked for.
        reader: What reads the backend; None where none was asked for.
        folder: What follows a folder of pattern files; None where none was asked for.
    """

    def __init__(self, places: Places, inlet: Inlet, *, say: Callable[[str], None], faults: Faults) -> None:
        """Open the receiver's port and load what the backend needs; nothing is received or asked before ``start``.

        Raises:
            ConfigError: an address, certificate, token or folder cannot be used, or there is no source at all.
            DeliveryError: the port is taken.
        """
        listen, backend, files, state, workers = places
        if listen is None and backend is None and not files:
            raise ConfigError("the localizer has no source; give an address to listen on, a Prometheus or a folder")
        guard, self._stopped = faults.guard, False
        self.reader = self.folder = None
        with ExitStack() as undo:
            self.receiver = None if listen is None else Receiver(listen, inlet.delivery)
            if self.receiver is not None:
                undo.callback(self.receiver.stop)
            if backend is not None:
                self.reader = PrometheusSource(
                    backend, inlet.delivery, take=inlet.table, say=say, guard=guard, workers=workers
                )
            if files:
                how_far = os.path.join(os.path.abspath(state), "localizer", "files") if state else ""
                self.folder = FolderSource(files, inlet.window, how_far, say=say, guard=guard)
            undo.pop_all()

    def __iter__(self) -> Iterator[Source]:
        """Yield what there is."""
        if self.receiver is not None:
            yield self.receiver
        if self.reader is not None:
            yield self.reader
        if self.folder is not None:
            yield self.folder

    def read_back(self, seconds: float) -> None:
        """Have the first look reach over what nobody has looked at for so long; before ``start``."""
        if self.reader is not None:
            self.reader.missed_seconds = seconds

    def start(self) -> None:
        """Start all."""
        for source in self:
            source.start()

    def stop(self) -> None:
        """Stop all, once."""
        if not self._stopped:
            self._stopped = True
            for source in self:
                source.stop()

    def requests(self) -> Mapping[str, int]:
        """Return the requests that the receiver answered by outcome; nothing without one."""
        return self.receiver.requests() if self.receiver is not None else {}

    def queries(self) -> Mapping[str, int]:
        """Return the questions that the backend was asked by outcome; nothing without one."""
        return self.reader.requests() if self.reader is not None else {}

    def settled(self) -> bool:
        """Return whether all that is in backend and folder was read; of the receiver nobody knows what comes."""
        return all(source is None or source.settled for source in (self.reader, self.folder))

    def failures(self) -> int:
        """Return how many looks and deliveries of the backend, and lines of files, failed."""
        return sum(source.failures for source in (self.reader, self.folder) if source is not None)


def check_backend(backend: Backend, *own: Address) -> None:
    """Refuse to read what this localizer itself serves.

    Raises:
        ConfigError: the backend is one of its ``own`` addresses.
    """
    for address in own:
        if leads_to(backend.url, address):
            raise ConfigError(
                f"--prometheus {shown_url(backend.url)} is this localizer's own {address.flag}; give the address of "
                "the Prometheus that scrapes the workers"
            )


def leads_to(url: str, address: Address) -> bool:
    """Return whether who asks ``url`` asks what listens on ``address``."""
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    here = parts.hostname == address.host or (is_loopback(parts.hostname or "") and is_loopback(address.host))
    return here and port == address.port
