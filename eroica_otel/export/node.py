"""One port for all workers of a node: each helper offers its page on a Unix socket, who holds the port shows them all.

There is no election: whoever can bind the port has it, the others try once a second. So a killed holder is replaced
within a second, and at no time two pages show one worker. A page is asked for at the scrape: a worker that is gone has
none, one that came late has one.
"""

from __future__ import annotations

import contextlib
import os
import socket
import socketserver
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from prometheus_client import CollectorRegistry, generate_latest

from eroica_otel.errors import ConfigError, DeliveryError
from eroica_otel.export.pull import HELPER, OTHER_PORT
from eroica_otel.ports import arguments
from eroica_otel.status import PAGE_FILE
from eroica_otel.webserver import Address, BoundedServer, Handler

PAGE_SECONDS = 3.0
"""What a scrape waits for one worker's page: its helper may be stopped."""
RETRY_SECONDS = 1.0
GRACE_SECONDS = 5.0
"""Head start of the helper of local rank 0, so that it holds the port where nothing is in its way."""
SAID_AT = 2
"""Failures in a row that are told: at the first one the holder may have ended since, and nobody is found there."""
_AT_A_TIME = 16
_KIND = "text/plain; version=0.0.4; charset=utf-8"


class NodePage:
    """This worker's page on its socket, and the node's page on the port when this process holds it."""

    def __init__(
        self, registry: CollectorRegistry, folder: Path, host: str, port: int, failed: Callable[[str], None]
    ) -> None:
        """Args: folder: The worker's private one, whose siblings are the other workers'."""
        self._address = Address(host, port, flag="OTEL_EXPORTER_PROMETHEUS_PORT")
        self._directory = folder.parent
        self._failed = failed
        self._failures = 0
        self._own = _serve_page(folder, lambda: generate_latest(registry))
        self._node: BoundedServer | None = None
        self._stopping = threading.Event()
        self._runner = threading.Thread(target=self._run, name="eroica-node", daemon=True)

    def start(self, first: bool) -> None:
        """Offer the page, and try to hold the port; at once when ``first``."""
        self._first = first
        threading.Thread(target=self._own.serve_forever, args=(0.1,), name="eroica-page", daemon=True).start()
        self._runner.start()

    def stop(self) -> None:
        """Take the page away and free the port."""
        self._stopping.set()
        self._runner.join(timeout=2)
        if self._node is not None:
            self._node.stop()
        self._own.shutdown()
        self._own.server_close()

    def _run(self) -> None:
        wait = 0.0 if self._first else GRACE_SECONDS
        while self._node is None and not self._stopping.wait(wait):
            wait = RETRY_SECONDS
            self._try()

    def _try(self) -> None:
        directory = self._directory

        class NodeHandler(Handler):
            def do_GET(self) -> None:
                if self.path.partition("?")[0] not in ("/", "/metrics"):
                    self.answer(404, b"/metrics has the series of all workers of this node\n")
                    return
                self.answer(200, merged(pages(directory)), _KIND)

        try:
            node = BoundedServer(self._address, NodeHandler)
        except (DeliveryError, ConfigError) as error:
            self._failures = 0 if self._held_by_sibling() else self._failures + 1
            if self._failures == SAID_AT:
                self._failed(f"no delivery by prometheus: {error}; or {OTHER_PORT}")
            return
        node.start("eroica-node-port")
        self._node = node

    def _held_by_sibling(self) -> bool:
        words = arguments(self._address.port)
        return HELPER in words and any(Path(word).parent == self._directory for word in words if "/" in word)


class _PageServer(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Drop the connection: who asked went away."""


def _serve_page(folder: Path, page: Callable[[], bytes]) -> _PageServer:
    class PageHandler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.sendall(page())

    (folder / PAGE_FILE).unlink(missing_ok=True)  # of a helper that was killed
    with _short(folder) as path:
        server = _PageServer(path, PageHandler)
    (folder / PAGE_FILE).chmod(0o600)
    return server


@contextlib.contextmanager
def _short(folder: Path) -> Iterator[str]:
    """Give a path of the socket that fits into the 107 bytes of an address, however deep the folder lies."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{descriptor}/{PAGE_FILE}"
    finally:
        os.close(descriptor)


def pages(directory: Path) -> list[bytes]:
    """Return the pages of all workers under ``directory`` whose helper answers, in the order of their folders."""
    folders = sorted(path.parent for path in directory.glob(f"pid-*/{PAGE_FILE}"))
    with ThreadPoolExecutor(_AT_A_TIME) as pool:
        return [page for page in pool.map(_page, folders) if page]


def _page(folder: Path) -> bytes:
    end = time.monotonic() + PAGE_SECONDS
    parts = []
    try:
        with _short(folder) as path, socket.socket(socket.AF_UNIX) as client:
            client.settimeout(PAGE_SECONDS)
            client.connect(path)
            while part := client.recv(1 << 16):
                parts.append(part)
                client.settimeout(max(0.01, end - time.monotonic()))
    except OSError:  # it has ended, or is stopped: half a page would show half a worker
        return b""
    return b"".join(parts)


def merged(texts: Iterable[bytes]) -> bytes:
    """Return pages in the text format as one: the format wants all samples of a series' family in one place."""
    heads: dict[bytes, list[bytes]] = {}
    samples: dict[bytes, list[bytes]] = {}
    for text in texts:
        family, fresh = b"", False
        for line in text.splitlines(keepends=True):
            if line.startswith(b"# HELP "):
                family = line.split(b" ", 3)[2]
                fresh = family not in heads
                heads.setdefault(family, [])
            if line.startswith(b"#"):
                heads[family] += [line] if fresh else []
            else:
                samples.setdefault(family, []).append(line)
    return b"".join(line for family, head in heads.items() for line in (*head, *samples.get(family, ())))
