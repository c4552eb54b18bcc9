"""The server of samples: answers each request at once, or late for the rank that the control folder names."""

from __future__ import annotations

import json
import pathlib
import socketserver
import threading
import time


class _Handler(socketserver.StreamRequestHandler):
    disable_nagle_algorithm = True
    server: Samples

    def handle(self) -> None:
        for line in self.rfile:
            rank, size = json.loads(line)
            time.sleep(self.server.delay_seconds(rank))
            self.wfile.write(bytes(size))


class Samples(socketserver.ThreadingTCPServer):
    """Serves in a thread of its own; ``close`` ends it.

    Attributes:
        address: "HOST:PORT".
    """

    daemon_threads = True

    def __init__(self, host: str, control: pathlib.Path) -> None:
        super().__init__((host, 0), _Handler)
        self._fault = control / "fault.json"
        self.address = f"{host}:{self.server_address[1]}"
        self._runner = threading.Thread(target=self.serve_forever, args=(0.1,), daemon=True)
        self._runner.start()

    def delay_seconds(self, rank: int) -> float:
        """Return how late the answer to ``rank`` comes."""
        if not self._fault.exists():
            return 0.0
        order = json.loads(self._fault.read_text())
        return float(order["value"]) if (order["switch"], order["rank"]) == ("input", rank) else 0.0

    def close(self) -> None:
        """Stop serving."""
        self.shutdown()
        self._runner.join()
        self.server_close()
