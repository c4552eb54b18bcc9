from __future__ import annotations

import os
import socket
from pathlib import Path

from eroica_otel.ports import holder


def test_the_holder_of_a_port_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        name = Path("/proc/self/comm").read_text().strip()
        assert holder(server.getsockname()[1]) == f"{name} (pid {os.getpid()})"


def test_a_free_port_has_no_holder() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    assert holder(port) is None


def test_without_proc_nobody_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert holder(server.getsockname()[1], str(tmp_path)) is None
