"""The agent in one process: what it holds, what it gives back, and what happens to folder and socket under it."""

from __future__ import annotations

import argparse
import os
import resource
import socket
import threading
import urllib.request
from dataclasses import replace
from pathlib import Path

import pytest

from eroica_hardware import place
from eroica_hardware.agent import Agent
from eroica_hardware.endpoint import Endpoint
from eroica_hardware.limits import raise_open_files
from eroica_hardware.options import Options, configure, resolve
from eroica_hardware.serve import MetricsServer
from eroica_otel.errors import ConfigError, DeliveryError, HardwareError
from eroica_otel.hardware.announce import SOCKET
from eroica_otel.hardware.pressure import PressureSource
from jobs import wait_until


def options(folder: Path, *words: str) -> Options:
    parser = argparse.ArgumentParser()
    configure(parser)
    given = parser.parse_args(["--dir", str(folder), "--sources", "pressure", "--listen", "none", *words])
    return resolve(given, {})


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_what_was_opened_is_closed_and_the_socket_goes(tmp_path: Path) -> None:
    before, threads = open_files(), threading.active_count()
    agent = Agent(options(tmp_path / "shared", "--listen", "127.0.0.1:0"))
    agent.start()
    assert (tmp_path / "shared" / SOCKET).is_socket()
    assert agent.healthy()
    wait_until(lambda: agent.samplers["pressure"].samples > 1, "samples")
    agent.close()
    assert not (tmp_path / "shared" / SOCKET).exists()
    assert threading.active_count() == threads
    assert open_files() == before


def test_a_port_that_is_taken_is_said_once_and_stops_no_sampling(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("eroica_hardware.endpoint.AGAIN_SECONDS", 0.0)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        agent = Agent(options(tmp_path / "shared", "--listen", f"127.0.0.1:{port}"))
        agent.start()
        wait_until(lambda: agent.samplers["pressure"].samples > 1, "samples")
        agent.look()
        agent.look()
        assert agent.server is None
    (said,) = caplog.messages
    assert f"port {port} on 127.0.0.1" in said
    assert "choose another with --listen" in said
    agent.look()
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/-/healthy") as answer:
        assert answer.status == 200
    agent.close()


def test_the_port_is_tried_again_every_10_s() -> None:
    tried: list[float] = []
    now = 0.0

    def make() -> MetricsServer:
        tried.append(now)
        raise DeliveryError("taken")

    endpoint = Endpoint(make, lambda: now)
    endpoint.start()
    for second in range(1, 31):
        now = float(second)
        endpoint.look()
    endpoint.stop()
    assert tried == [0, 10, 20, 30]


def test_a_certificate_that_cannot_be_used_leaves_neither_socket_nor_lock(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--tls-certificate"):
        Agent(options(tmp_path / "shared", "--listen", "127.0.0.1:0", "--tls-certificate", "/nowhere"))
    assert not (tmp_path / "shared" / SOCKET).exists()
    Agent(options(tmp_path / "shared")).close()


class Empty(PressureSource):
    """A source that finds nothing."""

    def look(self) -> None:
        self.missing = {"pressure": "this kernel tells\nno pressure"}


@pytest.mark.parametrize("asked", [True, False])
def test_a_source_that_was_asked_for_and_has_nothing_is_said_once(
    asked: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    given = options(tmp_path / "shared")
    agent = Agent(given if asked else replace(given, required=frozenset()), lambda _: Empty())
    agent.look()
    assert caplog.messages == []  # it has not looked yet
    agent.start()
    wait_until(lambda: agent.samplers["pressure"].looked, "the first look")
    agent.look()
    agent.look()
    agent.close()
    told = "source pressure has nothing to read: this kernel tells no pressure (it needs a kernel with PSI)"
    assert [message.partition(";")[0] for message in caplog.messages] == [told] * asked


def test_as_many_files_may_be_open_as_the_hard_limit_lets() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))
        most = 100 if hard == resource.RLIM_INFINITY else min(100, hard)
        assert raise_open_files(100) == most
        assert raise_open_files(50) == most
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (most, hard)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_second_agent_takes_nothing_from_the_first(tmp_path: Path) -> None:
    first = Agent(options(tmp_path / "shared"))
    with pytest.raises(HardwareError, match="another node agent"):
        Agent(options(tmp_path / "shared"))
    assert (tmp_path / "shared" / SOCKET).is_socket()
    first.look()
    first.close()


def test_a_socket_of_somebody_else_in_its_place_is_left_alone_and_the_agent_goes_on(tmp_path: Path) -> None:
    agent = Agent(options(tmp_path / "shared"))
    (tmp_path / "shared" / SOCKET).unlink()
    (tmp_path / "shared" / SOCKET).write_text("no socket")
    agent.look()
    agent.look()
    assert agent.announcements.counts["failed"] == 2
    agent.close()
    assert (tmp_path / "shared" / SOCKET).read_text() == "no socket"


def test_a_folder_that_is_gone_ends_it(tmp_path: Path) -> None:
    agent = Agent(options(tmp_path / "shared"))
    (tmp_path / "shared").rename(tmp_path / "moved")
    with pytest.raises(HardwareError, match="start the agent again"):
        agent.look()
    (tmp_path / "shared").symlink_to(tmp_path / "moved")
    with pytest.raises(HardwareError, match="start the agent again"):
        agent.look()
    agent.close()


def test_a_thread_that_ended_ends_it(tmp_path: Path) -> None:
    agent = Agent(options(tmp_path / "shared"))
    agent.start()
    agent._threads.append(threading.Thread())  # never started, so not alive
    with pytest.raises(HardwareError, match="a thread of the agent has ended"):
        agent.look()
    assert not agent.healthy()
    agent._threads.pop()
    agent.close()


def test_tidying_leaves_what_is_not_ours(tmp_path: Path) -> None:
    folder = place.prepare(tmp_path)
    for name in ("net.ring", ".nvml.ring.12", "agent.lock", "notes.ring.txt", "other"):
        (tmp_path / name).write_text("")
    (tmp_path / "link.ring").symlink_to("/etc/passwd")
    (tmp_path / "folder.ring").mkdir()
    if os.geteuid() == 0:
        (tmp_path / "theirs.ring").write_text("")
        os.chown(tmp_path / "theirs.ring", 4711, 4711)
    place.tidy(folder)
    os.close(folder)
    left = {path.name for path in tmp_path.iterdir()}
    theirs = {"theirs.ring"} if os.geteuid() == 0 else set()
    assert left == {"agent.lock", "notes.ring.txt", "other", "link.ring", "folder.ring"} | theirs


def test_a_folder_is_made_for_all_to_read_whatever_the_umask(tmp_path: Path) -> None:
    old = os.umask(0o077)
    try:
        os.close(place.prepare(tmp_path / "shared"))
    finally:
        os.umask(old)
    assert (tmp_path / "shared").stat().st_mode & 0o777 == 0o755


def test_a_file_in_place_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="give a folder"):
        place.prepare(tmp_path / "file")
