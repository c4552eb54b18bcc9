from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

from eroica_otel.ports import holder, runs_module


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


def test_a_holder_is_known_by_the_module_that_it_runs(tmp_path: Path) -> None:
    (tmp_path / "listener.py").write_text(
        "import socket, sys\n"
        "server = socket.create_server(('127.0.0.1', 0))\n"
        "print(server.getsockname()[1], flush=True)\n"
        "sys.stdin.read()\n"
    )
    command = [sys.executable, "-m", "listener", "argument"]
    with subprocess.Popen(command, cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        assert runs_module(port, "listener")
        assert not runs_module(port, "listen")
        assert not runs_module(port, "eroica_otel.helper")
        process.communicate()
    assert not runs_module(port, "listener")
