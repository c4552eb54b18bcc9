"""Where the trainings' samples come from: a server over TCP and an object store over HTTP, each with a throttle."""

from __future__ import annotations

import http.server
import json
import socketserver
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass


@dataclass(frozen=True)
class Slowness:
    """How a server treats some ranks.

    Attributes:
        ranks: Whose requests.
        delay_seconds: How late the first byte comes.
        bytes_per_second: How fast the rest comes; None = at once.
        every: Only each ``every``-th request of a rank.
    """

    ranks: frozenset[int] = frozenset()
    delay_seconds: float = 0.0
    bytes_per_second: float | None = None
    every: int = 1

    def seconds(self, size_bytes: int) -> float:
        """Return how long an answer of that size takes more."""
        rate = self.bytes_per_second
        return self.delay_seconds + (size_bytes / rate if rate else 0.0)


class Throttle:
    """What a server of the board can be asked for."""

    def __init__(self, sleep: Callable[[float], None] = time.sleep) -> None:
        self._sleep = sleep
        self._slowness = Slowness()
        self._asked: Counter[int] = Counter()

    def slow(
        self,
        ranks: Collection[int],
        delay_seconds: float = 0.0,
        bytes_per_second: float | None = None,
        every: int = 1,
    ) -> None:
        """Be slow for some ranks from now on."""
        self._slowness = Slowness(frozenset(ranks), delay_seconds, bytes_per_second, every)

    def fair(self) -> None:
        """Answer all at once again."""
        self._slowness = Slowness()

    def wait(self, rank: int, size_bytes: int) -> None:
        """Wait as long as an answer to ``rank`` is to take."""
        said = self._slowness
        self._asked[rank] += 1
        if rank in said.ranks and self._asked[rank] % said.every == 0:
            self._sleep(said.seconds(size_bytes))


class _Samples(socketserver.StreamRequestHandler):
    disable_nagle_algorithm = True
    server: Server

    def handle(self) -> None:
        with suppress(OSError):  # the training ends, or its link does
            for line in self.rfile:
                rank, size = json.loads(line)
                self.server.throttle.wait(rank, size)
                self.wfile.write(bytes(size))


class _Objects(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Server

    def do_GET(self) -> None:
        """Answer /RANK/SIZE with so many bytes."""
        rank, size = (int(word) for word in self.path.strip("/").split("/"))
        self.server.throttle.wait(rank, size)
        self.send_response(200)
        self.send_header("Content-Length", str(size))
        self.end_headers()
        self.wfile.write(bytes(size))

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


HANDLERS = {"samples": ("tcp", _Samples), "objects": ("http", _Objects)}


class Server(socketserver.ThreadingTCPServer):
    """Serves in threads of its own; ``close`` ends it.

    Args:
        kind: "samples" or "objects".

    Attributes:
        url: "tcp://HOST:PORT" or "http://HOST:PORT".
    """

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, kind: str, host: str) -> None:
        scheme, handler = HANDLERS[kind]
        super().__init__((host, 0), handler)
        self.throttle = Throttle()
        self.url = f"{scheme}://{host}:{self.server_address[1]}"
        self._runner = threading.Thread(target=self.serve_forever, args=(0.1,), daemon=True)
        self._runner.start()

    def close(self) -> None:
        """Stop serving."""
        self.shutdown()
        self._runner.join()
        self.server_close()
