"""Foreign traffic: another job's copy from one node to another, as fast as the link lets it.

python -m bench.faults.faults.traffic receive PORT
python -m bench.faults.faults.traffic send HOST PORT STREAMS
"""

from __future__ import annotations

import contextlib
import socket
import sys
import threading
import time

PART = bytes(1 << 20)


def receive(port: int) -> None:
    """Take what comes and throw it away."""
    with socket.create_server(("0.0.0.0", port)) as server:
        while True:
            connection, _ = server.accept()
            threading.Thread(target=_drain, args=(connection,), daemon=True).start()


def send(host: str, port: int, streams: int) -> None:
    """Send for ever in several streams, of which each takes as much of the link as one of the training's."""
    threads = [threading.Thread(target=_fill, args=(host, port)) for _ in range(streams)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _fill(host: str, port: int) -> None:
    with _connected(host, port) as connection:
        while True:
            connection.sendall(PART)


def _connected(host: str, port: int) -> socket.socket:
    """Connect to a receiver that may only be starting."""
    while True:
        try:
            return socket.create_connection((host, port))
        except ConnectionRefusedError:
            time.sleep(0.1)


def _drain(connection: socket.socket) -> None:
    with connection, contextlib.suppress(OSError):
        while connection.recv_into(bytearray(1 << 18), 0, socket.MSG_TRUNC):  # thrown away in the kernel
            pass


if __name__ == "__main__":
    if sys.argv[1] == "receive":
        receive(int(sys.argv[2]))
    send(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
