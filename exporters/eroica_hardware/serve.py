"""GET /metrics and /-/healthy over HTTP or HTTPS, for those whom the doorkeeper admits.

Takes a collector, gives an endpoint. However many ask, the series are made at most once a second: scraping must not
take the CPU that sampling promises to leave alone.
"""

from __future__ import annotations

import gzip
import threading
import time
from collections.abc import Callable

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from eroica_hardware.passwords import Doorkeeper
from eroica_otel.webserver import Address, BoundedServer, Handler

FRESH_SECONDS = 1.0
MOST_FORMS = 8
THREADS = 4


class MetricsServer(BoundedServer):
    """The agent's endpoint."""

    look_seconds = 0.5

    def __init__(
        self,
        address: Address,
        collector: Collector,
        doorkeeper: Doorkeeper,
        healthy: Callable[[], bool],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Bind; ``start`` serves.

        Raises:
            DeliveryError: the port is taken.
            ConfigError: the host is not this machine, or the certificate cannot be loaded.
        """
        super().__init__(address, _Handler, threads=THREADS)
        self.doorkeeper, self.healthy = doorkeeper, healthy
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(collector)
        self._clock, self._lock = clock, threading.Lock()
        self._pages: dict[str, tuple[float, bytes, str]] = {}

    def page(self, accept: str) -> tuple[bytes, str]:
        """Return the series in the form asked for, at most a second old, and what form that is."""
        encode, kind = choose_encoder(accept)
        with self._lock:
            made, body, kept = self._pages.get(kind, (-1e9, b"", kind))
            if not 0 <= self._clock() - made < FRESH_SECONDS:
                body = bytes(encode(self._registry))
                self._pages = self._pages if len(self._pages) < MOST_FORMS else {}
                self._pages[kind] = (self._clock(), body, kind)
            return body, kept


class _Handler(Handler):
    server: MetricsServer

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path == "/-/healthy":
            healthy = self.server.healthy()
            self.answer(200 if healthy else 503, b"healthy\n" if healthy else b"a source has stopped\n")
        elif not self.server.doorkeeper.admits(self.headers.get("Authorization", ""), str(self.client_address[0])):
            self.answer(401, b"user and password are missing or wrong\n", WWW_Authenticate='Basic realm="metrics"')
        elif path == "/metrics":
            self._metrics()
        else:
            self.answer(404, b"there is /metrics and /-/healthy\n")

    do_HEAD = do_GET

    def _metrics(self) -> None:
        body, kind = self.server.page(self.headers.get("Accept", ""))
        if "gzip" in self.headers.get("Accept-Encoding", ""):
            self.answer(200, gzip.compress(body, 1), kind, Content_Encoding="gzip")
        else:
            self.answer(200, body, kind)
