"""The node agent as a process: what it samples for whom, and that neither neighbours nor drivers nor folders stop it.

GPUs are recorded ones: a module `pynvml` on the path that answers as a control file says. All else is real.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from eroica_otel.hardware.announce import SOCKET, Announcement, announce
from eroica_otel.hardware.ringreader import open_ring
from eroica_otel.hardware.shared import open_folder
from jobs import wait_until
from servers import prometheus

TESTS = Path(__file__).parents[1]
SECOND = 1_000_000_000
PYNVML = """
import json, os, sys
from factories_nvml import Gpu, Recorded

class Controlled(Recorded):
    def _asked(self, call, gpu=None):
        with open(os.environ["NVML_CONTROL"]) as file:
            said = json.load(file)
        self.driver = said["driver"]
        for each in self.gpus:
            each.lost = each.uuid in said["lost"]
        super()._asked(call, gpu)

    def nvmlInit(self):
        try:
            self._asked("nvmlInit")
        except self.NVMLError as error:
            if error.value != 1:
                raise
        super().nvmlInit()

sys.modules["pynvml"] = Controlled(Gpu("h200", "GPU-a"), Gpu("h100", "GPU-b"), Gpu("h200_mig", "GPU-m"))
"""


class Agent:
    """One process of ``eroica-hardware`` on a folder."""

    def __init__(
        self, folder: Path, *words: str, before: tuple[str, ...] = (), variables: Mapping[str, str] | None = None
    ) -> None:
        self.folder = folder
        self.log = folder.parent / f"agent-{time.monotonic_ns()}.log"
        kept = {name: text for name, text in os.environ.items() if not name.startswith("EROICA_")}
        with self.log.open("w") as file:
            self.process = subprocess.Popen(
                [*before, sys.executable, "-m", "eroica_hardware", "--dir", folder, "--listen", "127.0.0.1:0",
                 "--host", "node-1", *words],
                env=kept | dict(variables or {}), stderr=file,
            )  # fmt: skip

    def said(self) -> str:
        return self.log.read_text()

    def url(self) -> str:
        """Return its address, as soon as it serves."""
        wait_until(lambda: "series on" in self.said() or self.process.poll() is not None, "the agent to serve")
        (url,) = re.findall(r"series on (\S+)/metrics", self.said())
        return str(url)

    def series(self) -> dict[str, float]:
        """Return the value of each series."""
        with urllib.request.urlopen(f"{self.url()}/metrics", timeout=20) as answer:
            lines = answer.read().decode().splitlines()
        return {row[0]: float(row[2]) for row in (line.rpartition(" ") for line in lines if not line.startswith("#"))}

    def total(self, name: str, **labels: str) -> float:
        """Return the sum of the series of that name with these labels, 0 where there is none."""
        wanted = [f'{label}="{value}"' for label, value in labels.items()]
        return sum(
            value
            for text, value in self.series().items()
            if text.startswith(f"{name}{{") and all(each in text for each in wanted)
        )

    def end(self, number: int = signal.SIGTERM) -> int:
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(30)


def said(rank: int = 0, pid: int | None = None, seconds: float = 2.0) -> Announcement:
    return Announcement(rank=rank, pid=pid or os.getpid(), window=1_700_000_000, seconds=seconds)


def samples(path: Path, source: str, seconds: float) -> int:
    """Return how many samples of the latest seconds a worker finds."""
    folder = open_folder(path)
    try:
        ring = open_ring(folder, f"{source}.ring")
        now = time.monotonic_ns()
        try:
            return len(ring.read(now - round(seconds * SECOND), now).times)
        finally:
            ring.close()
    finally:
        os.close(folder)


def alive(path: Path, source: str) -> bool:
    folder = open_folder(path)
    try:
        ring = open_ring(folder, f"{source}.ring")
        try:
            return ring.alive(time.monotonic_ns())
        finally:
            ring.close()
    finally:
        os.close(folder)


@pytest.fixture
def control(tmp_path: Path) -> Path:
    """Return the file that says what the recorded driver does now; the path has the module in its folder."""
    (tmp_path / "nvml").mkdir()
    (tmp_path / "nvml" / "pynvml.py").write_text(PYNVML)
    file = tmp_path / "control.json"
    steer(file)
    return file


def steer(file: Path, driver: int = 0, lost: tuple[str, ...] = ()) -> None:
    """Replace the file at once: the agent may read it at any time."""
    fresh = file.with_suffix(".new")
    fresh.write_text(json.dumps({"driver": driver, "lost": lost}))
    fresh.rename(file)


def recorded(control: Path) -> dict[str, str]:
    """Return the variables of an agent that finds the recorded GPUs."""
    path = os.pathsep.join([str(control.parent / "nvml"), str(TESTS), *filter(None, sys.path)])
    return {"NVML_CONTROL": str(control), "PYTHONPATH": path}


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Agent]:
    """An agent of the sources that every machine has."""
    started = Agent(tmp_path / "shared", "--sources", "net,pressure")
    yield started
    started.end(signal.SIGKILL)


def test_a_window_is_sampled_faster_and_sigterm_ends_all(agent: Agent) -> None:
    wait_until(lambda: agent.total("eroica_hardware_samples_total", source="net") > 100, "samples of a second")
    assert agent.total("eroica_hardware_window") == 0
    assert announce(agent.folder, said(seconds=10)) == ""
    wait_until(lambda: agent.total("eroica_hardware_window") == 1, "the window to be shown")
    time.sleep(2.5)
    fast = samples(agent.folder, "net", 2)
    assert fast > 2 * 150, "100 a second would be 200; a machine that is busy may not reach 500"
    assert announce(agent.folder, said()) == "refused: announced a moment ago"
    assert agent.total("eroica_hardware_announcements_total", outcome="accepted") == 1
    assert agent.total("eroica_hardware_announcements_total", outcome="refused") == 1
    assert agent.end() == 0
    assert not (agent.folder / SOCKET).exists()
    assert not alive(agent.folder, "net")
    assert announce(agent.folder, said()) != ""


def test_a_second_agent_says_so_and_the_first_goes_on(agent: Agent) -> None:
    agent.url()
    second = Agent(agent.folder, "--sources", "net")
    assert second.process.wait(30) == 3
    assert "another node agent serves this shared folder" in second.said()
    assert announce(agent.folder, said()) == ""
    assert alive(agent.folder, "net")


def test_an_agent_that_was_killed_leaves_nothing_that_looks_alive_and_the_next_begins_anew(tmp_path: Path) -> None:
    first = Agent(tmp_path / "shared", "--sources", "net,pressure")
    wait_until(lambda: first.total("eroica_hardware_samples_total", source="net") > 10, "samples")
    first.end(signal.SIGKILL)
    (first.folder / ".net.ring.4711").write_bytes(b"half made")
    (first.folder / "of-somebody-else").write_bytes(b"")
    wait_until(lambda: not alive(first.folder, "net"), "the heartbeat to be old")
    second = Agent(first.folder, "--sources", "net")
    try:
        wait_until(lambda: second.total("eroica_hardware_samples_total", source="net") > 10, "samples")
        assert alive(first.folder, "net")
        names = {path.name for path in first.folder.iterdir()}
        assert names == {"agent.lock", SOCKET, "net.ring", "of-somebody-else"}
        assert announce(first.folder, said()) == ""
    finally:
        second.end()


def test_gpus_and_drivers_come_and_go_and_all_else_goes_on(tmp_path: Path, control: Path) -> None:
    agent = Agent(tmp_path / "shared", "--sources", "nvml,nvml_state,gpm,net", variables=recorded(control))
    power = "hw_power_watts"
    try:
        wait_until(lambda: agent.total(power) > 0, "the power of the GPUs")
        series = agent.series()
        assert {re.findall('hw_id="([^"]*)"', name)[0] for name in series if name.startswith(power)} == {
            "GPU-a", "GPU-b", "GPU-m"
        }  # fmt: skip
        whole = 'what="GPU-m"'
        assert any(whole in name and 'source="gpm"' in name for name in series), "MIG has no activity of one rank"
        steer(control, lost=("GPU-a",))
        lost = 'reason="gpu is lost",source="nvml"'
        wait_until(lambda: any(lost in name for name in agent.series()), "the lost GPU to be told")
        before = agent.total("eroica_hardware_samples_total", source="net")
        steer(control, driver=9)
        gone = 'reason="driver not loaded",source="nvml",what="nvml"'
        wait_until(lambda: any(gone in name for name in agent.series()), "the driver to be told")
        wait_until(lambda: agent.total("eroica_hardware_resources", source="nvml_state") == 0, "no resource to be left")
        steer(control)
        wait_until(lambda: agent.total("eroica_hardware_resources", source="nvml_state") > 60, "the GPUs to be back")
        wait_until(lambda: samples(agent.folder, "nvml", 1) > 10, "their samples")
        assert agent.total("eroica_hardware_samples_total", source="net") > before + 100
        assert agent.total("eroica_hardware_failures_total") == 0
    finally:
        assert agent.end() == 0


def test_a_flood_on_the_socket_costs_samples_neither_of_sources_nor_of_workers(agent: Agent) -> None:
    wait_until(lambda: agent.total("eroica_hardware_samples_total", source="net") > 10, "samples")
    used = agent.total("eroica_hardware_cpu_seconds_total")
    begun, before = time.monotonic(), agent.total("eroica_hardware_samples_total", source="net")
    sent, open_ones = 0, []
    while time.monotonic() < begun + 4:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK)
        try:
            connection.connect(str(agent.folder / SOCKET))
            connection.send(b"\xff" * 700 if sent % 2 else b"[" * 1024)
            sent += 1
            open_ones.append(connection)
        except OSError:  # refused by the kernel: the queue is full
            connection.close()
            time.sleep(0.001)
        if len(open_ones) > 100:
            open_ones.pop(0).close()
    for connection in open_ones:
        connection.close()
    passed = time.monotonic() - begun
    assert sent > 100
    assert agent.total("eroica_hardware_samples_total", source="net") - before > 50 * passed
    assert agent.total("eroica_hardware_cpu_seconds_total") - used < 0.5 * passed
    assert agent.total("eroica_hardware_announcements_total", outcome="rubbish") > 0
    wait_until(lambda: announce(agent.folder, said(), patience_seconds=2) == "", "a window after the flood")


def test_who_is_no_chosen_user_is_refused(tmp_path: Path) -> None:
    agent = Agent(tmp_path / "shared", "--sources", "net", "--users", "4711")
    try:
        agent.url()
        assert announce(agent.folder, said()) == "refused: not a user whose windows are sampled"
        assert agent.total("eroica_hardware_announcements_total", outcome="stranger") == 1
    finally:
        agent.end()


def test_a_socket_and_a_ring_that_somebody_removed_come_back(agent: Agent) -> None:
    wait_until(lambda: agent.total("eroica_hardware_samples_total", source="net") > 10, "samples")
    (agent.folder / SOCKET).unlink()
    (agent.folder / "net.ring").unlink()
    os.symlink("/etc/passwd", agent.folder / "net.ring")
    wait_until(lambda: announce(agent.folder, said()) == "", "the socket to be there again")
    ring = agent.folder / "net.ring"
    wait_until(lambda: not ring.is_symlink() and ring.is_file() and alive(agent.folder, "net"), "the ring")
    assert agent.process.poll() is None


def test_a_folder_that_was_replaced_ends_the_agent_for_its_service_manager_to_begin_anew(agent: Agent) -> None:
    agent.url()
    agent.folder.rename(agent.folder.with_name("moved"))
    agent.folder.mkdir()
    assert agent.process.wait(30) == 3
    assert "was removed or replaced; start the agent again" in agent.said()


def private_mount() -> tuple[str, ...]:
    """Return what gives a command mounts of its own; needs root or user namespaces."""
    command = ("unshare", "--map-root-user", "--mount")
    subprocess.run([*command, "mount", "-t", "tmpfs", "none", "/mnt"], check=True, capture_output=True)
    return command


def test_a_folder_that_is_full_costs_its_rings_until_there_is_room(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    unshare = private_mount()
    mount = f'mount -t tmpfs -o size=100k none {shared} && exec "$@"'
    agent = Agent(shared, "--sources", "net,pressure", before=(*unshare, "sh", "-c", mount, "sh"))
    try:
        wait_until(lambda: agent.total("eroica_hardware_failures_total", source="net", stage="ring") > 0, "no room")
        wait_until(lambda: agent.total("eroica_hardware_samples_total", source="pressure") > 0, "the small ring")
        inside = ["nsenter", f"--target={agent.process.pid}", "--user", "--preserve-credentials", "--mount"]
        subprocess.run([*inside, "mount", "-o", "remount,size=64m", shared], check=True)
        wait_until(lambda: agent.total("hw_network_io_bytes_total") > 0, "room and the ring of the interfaces")
        assert agent.said().count("No space left on device") == 1
    finally:
        assert agent.end() == 0


def test_a_read_only_folder_is_refused_with_a_remedy(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    unshare = private_mount()
    mount = f'mount -t tmpfs -o ro none {shared} && exec "$@"'
    agent = Agent(shared, "--sources", "net", before=(*unshare, "sh", "-c", mount, "sh"))
    assert agent.process.wait(30) == 2
    assert "cannot be written by user 0; give a folder that this user may write by --dir" in agent.said()


def test_a_real_prometheus_scrapes_it_over_https_with_a_password(tmp_path: Path, control: Path) -> None:
    certificate, key, users = (tmp_path / name for name in ("certificate.pem", "key.pem", "users"))
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
         "-subj", "/CN=localhost", "-keyout", key, "-out", certificate],
        check=True, capture_output=True,
    )  # fmt: skip
    made = [sys.executable, "-m", "eroica_hardware", "password", "prom"]
    users.write_bytes(subprocess.run(made, input=b"secret\n", capture_output=True, check=True).stdout)
    protected = ["--tls-certificate", certificate, "--tls-key", key, "--password-file", users]
    agent = Agent(
        tmp_path / "shared", "--sources", "nvml,nvml_state,net", *map(str, protected), variables=recorded(control)
    )
    jobs = "\n".join(
        f"""
  - job_name: {name}
    scheme: https
    tls_config: {{insecure_skip_verify: true}}
    basic_auth: {{username: {user}, password: secret}}
    static_configs: [{{targets: ["{agent.url().removeprefix("https://")}"]}}]"""
        for name, user in (("right", "prom"), ("wrong", "guest"))
    )
    config = f"global: {{scrape_interval: 1s, scrape_timeout: 1s}}\nscrape_configs:{jobs}\n"
    try:
        with prometheus(tmp_path / "prometheus", config=config) as server:
            wait_until(lambda: len(server.query("hw_power_watts")) == 3, "the power of three GPUs")
            wait_until(lambda: len(server.query("up")) == 2, "a scrape with either password")
            found = {each["metric"]["hw_id"]: float(each["value"][1]) for each in server.query("hw_power_watts")}
            assert found == {"GPU-a": 625.24, "GPU-b": 588.39, "GPU-m": 292.14}
            assert [each["metric"]["job"] for each in server.query("up == 1")] == ["right"]
            assert [each["metric"]["job"] for each in server.query("up == 0")] == ["wrong"]
            (most,) = server.query('max(eroica_hardware_resource_ratio{resource="sm_clock"})')
            assert float(most["value"][1]) == 1
    finally:
        agent.end()
