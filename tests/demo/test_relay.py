"""The relay with real sockets: bytes arrive whole, both directions, and an end of one side reaches the other."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from eroica_otel.demo.stage import free_port


def echo(listener: socket.socket) -> None:
    """Answer one connection with what it says, until it ends."""
    connection, _ = listener.accept()
    with connection:
        while data := connection.recv(1 << 16):
            connection.sendall(data)


def send_all(connection: socket.socket, data: bytes) -> None:
    """Send and end this direction."""
    connection.sendall(data)
    connection.shutdown(socket.SHUT_WR)


@pytest.fixture
def port(tmp_path: Path) -> Iterator[int]:
    """A port from which two relays, one for each side of a namespace, lead to an echo."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        answering = threading.Thread(target=echo, args=(listener,), daemon=True)
        answering.start()
        found, path = free_port(), str(tmp_path / "socket")
        command = [sys.executable, "-m", "eroica_otel.demo.relay"]
        ways = ((path, f"127.0.0.1:{listener.getsockname()[1]}"), (f"127.0.0.1:{found}", path))
        relays = [subprocess.Popen([*command, *way], stdout=subprocess.PIPE, text=True) for way in ways]
        for relay in relays:
            assert relay.stdout is not None
            assert relay.stdout.readline() == "ready\n"
        yield found
        for relay in relays:
            relay.kill()
            relay.communicate()
        answering.join(20)


def test_bytes_go_through_whole_and_come_back_after_the_end(port: int) -> None:
    sent = bytes(range(256)) * 4096
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        sender = threading.Thread(target=send_all, args=(connection, sent))
        sender.start()
        received = b""
        while part := connection.recv(1 << 16):
            received += part
        sender.join()
    assert received == sent
