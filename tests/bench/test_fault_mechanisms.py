"""That the faults from outside really hurt: links, lost packets, neighbours, stopped processes, disks and memory.

Needs root, as the board does: namespaces and cgroups.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from eroica_otel.demo.nodes import Node, nodes
from faultboard import ROOT, cpu_seconds, faults

CGROUPS = Path("/sys/fs/cgroup")
PORT = 5100
MEGABYTE = 1_000_000
PATIENCE_SECONDS = 60.0


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Node]]:
    with nodes(2, tmp_path_factory.mktemp("nodes")) as made:
        yield made


SEND = (
    "import socket, sys\n"
    "connection = socket.create_connection((sys.argv[1], int(sys.argv[2])))\n"
    "connection.sendall(bytes(int(sys.argv[3])))\n"
)
TAKE = (
    "import socket, sys, time\n"
    "server = socket.create_server(('0.0.0.0', int(sys.argv[1])))\n"
    "print('ready', flush=True)\n"
    "connection, _ = server.accept()\n"
    "begin, size = time.monotonic(), 0\n"
    "while part := connection.recv(1 << 16):\n"
    "    size += len(part)\n"
    "print(size, time.monotonic() - begin, flush=True)\n"
)


def python(node: Node, program: str, *arguments: str) -> subprocess.Popen[str]:
    inside = ["ip", "netns", "exec", node.namespace, sys.executable, "-c", program, *arguments]
    return subprocess.Popen(inside, stdout=subprocess.PIPE, text=True)


def megabits(source: Node, target: Node, size_bytes: int) -> float:
    """Send from one node to another and return the rate that arrived."""
    with python(target, TAKE, str(PORT)) as taker:
        assert taker.stdout is not None
        assert taker.stdout.readline() == "ready\n"
        with python(source, SEND, target.address, str(PORT), str(size_bytes)) as sender:
            taken, seconds = taker.stdout.readline().split()
            sender.wait(PATIENCE_SECONDS)
        taker.wait(PATIENCE_SECONDS)
    assert int(taken) == size_bytes
    return size_bytes * 8 / 1e6 / float(seconds)


def carrier_changes(node: Node) -> int:
    file = "/sys/class/net/eth0/carrier_changes"
    inside = ["ip", "netns", "exec", node.namespace, "sh", "-c", f"mount -t sysfs sysfs /sys; cat {file}"]
    return int(subprocess.run(["unshare", "-m", *inside], check=True, capture_output=True, text=True).stdout)


def test_of_what_goes_over_a_lossy_link_a_part_is_lost_and_sent_again(pair: list[Node]) -> None:
    source, target = pair
    before = sent_again(source)
    with faults("network").losing(target, 0.2):
        megabits(source, target, 4 * MEGABYTE)  # all of it arrives
        lost = [part for part in shaping(target, "-s").split("qdisc") if "pfifo" in part]
    assert "dropped 0" not in lost[0]
    assert "Sent 0 bytes" in lost[0]
    assert sent_again(source) > before
    assert "htb" not in shaping(target)


def sent_again(node: Node) -> int:
    """Return how many segments TCP has sent again on a node."""
    command = ["ip", "netns", "exec", node.namespace, "cat", "/proc/net/snmp"]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    heads, values = (line.split() for line in lines if line.startswith("Tcp:"))
    return int(values[heads.index("RetransSegs")])


def test_a_link_is_slow_for_its_seconds_and_then_as_before(pair: list[Node]) -> None:
    source, target = pair
    with faults("network").slow_for(target, 20, PATIENCE_SECONDS):
        wait_for(lambda: "20Mbit" in shaping(target))
        slow = megabits(source, target, 2 * MEGABYTE)
    assert slow < 25  # 20 Mbit/s and a burst of 0.08 MB
    assert "1Gbit" in shaping(target)


def shaping(node: Node, *options: str) -> str:
    command = ["tc", *options, "qdisc", "show", "dev", node.link]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def wait_for(reached: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while not reached():
        assert time.monotonic() < end, "waited in vain"


def test_a_flapping_link_loses_its_carrier_again_and_again_and_is_up_in_the_end(pair: list[Node]) -> None:
    node = pair[1]
    before = carrier_changes(node)
    with faults("network").flapping(node, 0.05, 0.05):
        wait_for(lambda: carrier_changes(node) >= before + 6)
    assert megabits(pair[0], node, MEGABYTE) > 0


def test_what_is_sent_while_a_link_is_down_arrives_when_it_is_up_again(pair: list[Node]) -> None:
    source, target = pair
    with faults("network").down(target, 1.5):
        wait_for(lambda: "state DOWN" in _link(target))
        assert 4 * 8 / megabits_from_now(source, target, 4 * MEGABYTE) >= 1.0


def _link(node: Node) -> str:
    return subprocess.run(["ip", "link", "show", node.link], check=True, capture_output=True, text=True).stdout


def megabits_from_now(source: Node, target: Node, size_bytes: int) -> float:
    """As ``megabits``, counted from the call and not from the connection."""
    begin = time.monotonic()
    megabits(source, target, size_bytes)
    return size_bytes * 8 / 1e6 / (time.monotonic() - begin)


def test_foreign_traffic_takes_its_part_of_the_link(pair: list[Node]) -> None:
    source, target = pair
    source.limit(50)
    alone = megabits(source, target, 4 * MEGABYTE)
    program = [sys.executable, "-m", "bench.faults.faults.traffic"]
    taker = ["ip", "netns", "exec", target.namespace, *program, "receive", "5201"]
    sender = ["ip", "netns", "exec", source.namespace, *program, "send", target.address, "5201", "6"]
    with _running(taker), _running(sender):
        before = _bytes_to(target)
        wait_for(lambda: _bytes_to(target) > before + MEGABYTE)
        beside = megabits(source, target, 2 * MEGABYTE)
    source.limit(1000)
    assert beside < 0.7 * alone


def _bytes_to(node: Node) -> int:
    return int(Path(f"/sys/class/net/{node.link}/statistics/tx_bytes").read_text())


@contextmanager
def _running(command: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(command, cwd=ROOT)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


BUSY = "while True: pass"


def state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_a_neighbour_takes_most_of_a_core_from_who_is_bound_to_it() -> None:
    core = max(os.sched_getaffinity(0))
    neighbour = [sys.executable, "-m", "bench.faults.faults.neighbour", str(core), "3"]
    mine = [sys.executable, "-c", f"import os; os.sched_setaffinity(0, [{core}])\n{BUSY}"]
    with _running(neighbour) as other, _running(mine) as me:
        wait_for(lambda: cpu_seconds(other.pid) > 0.3 and cpu_seconds(me.pid) > 0.1)
        before, delay = cpu_seconds(me.pid), run_delay_seconds(me.pid)
        wait_for(lambda: cpu_seconds(me.pid) > before + 0.2)
        # Four share the core, so that three seconds of waiting go with each of running; half of that would do.
        assert run_delay_seconds(me.pid) - delay > 0.3


def run_delay_seconds(pid: int) -> float:
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) / 1e9


def test_a_stopped_process_does_nothing_and_then_goes_on() -> None:
    with _running([sys.executable, "-c", BUSY]) as process:
        wait_for(lambda: cpu_seconds(process.pid) > 0.05)
        with faults("signals").stopped([process.pid], PATIENCE_SECONDS):
            wait_for(lambda: state(process.pid) == "T")
            before = cpu_seconds(process.pid)
        assert state(process.pid) != "T"
        wait_for(lambda: cpu_seconds(process.pid) > before)


def test_a_process_is_stopped_again_and_again() -> None:
    with _running([sys.executable, "-c", BUSY]) as process:
        with faults("signals").stopped([process.pid], 0.05, 0.05):
            for wanted in (True, False, True, False, True):
                wait_for(lambda stopped=wanted: (state(process.pid) == "T") == stopped)  # type: ignore[misc]
        assert state(process.pid) != "T"


def test_a_killed_process_is_gone_and_one_that_is_gone_is_no_error() -> None:
    with _running([sys.executable, "-c", BUSY]) as process:
        for _ in range(2):
            faults("signals").send([process.pid], signal.SIGKILL)
            assert process.wait(PATIENCE_SECONDS) == -signal.SIGKILL


LOOK_UP = (
    "import sys, torch\n"
    "from bench.faults.faults import order, work\n"
    "scene = order.Scene(0, 1, 0)\n"
    "asked = order.Order('look-up', (0,), 50.0, more={'folder': sys.argv[1]})\n"
    "for line in sys.stdin:\n"
    "    work.look_up(None, asked, scene)\n"
    "    print(flush=True)\n"
)


@contextmanager
def in_group(controller: str, command: list[str]) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """Run a command in a group of its own; gives it and the group's folder."""
    group = CGROUPS / controller / f"eroica-{os.getpid()}-fault"
    group.mkdir()
    process = subprocess.Popen(
        command, cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        preexec_fn=lambda: (group / "cgroup.procs").write_text(str(os.getpid())) and None,
    )  # fmt: skip
    try:
        yield process, group
    finally:
        process.kill()
        process.communicate()
        wait_for(lambda: not (group / "cgroup.procs").read_text())
        group.rmdir()


def ask(process: subprocess.Popen[str], times: int) -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    for _ in range(times):
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline() == "\n"


def major_faults(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[9])


def test_a_table_larger_than_the_memory_left_is_read_from_disk_again_and_again(tmp_path: Path) -> None:
    memory = faults("memory")
    faults("inputs").make_shards(tmp_path, 1)
    with in_group("memory", [sys.executable, "-c", LOOK_UP, str(tmp_path)]) as (process, group):
        ask(process, 200)  # all of its pages are in memory now
        assert memory.group_of(process.pid) == group
        before = major_faults(process.pid)
        ask(process, 20)
        assert major_faults(process.pid) - before < 20
        (group / "memory.limit_in_bytes").write_text(str(memory.kept_bytes(group) + 16 * MEGABYTE))
        before = major_faults(process.pid)
        ask(process, 4)
        assert major_faults(process.pid) - before > 20  # of 200 rows three in four are not there


READ = (
    "import sys, time\n"
    "from bench.faults.faults import inputs, order\n"
    "asked = order.Order('read-shard', (0,), 1024.0, more={'folder': sys.argv[1]})\n"
    "for number, line in enumerate(sys.stdin):\n"
    "    inputs.read_shard(None, asked, order.Scene(0, 1, number))\n"
    "    print(flush=True)\n"
)


def test_a_slow_disk_makes_reading_samples_slow(tmp_path: Path) -> None:
    device = os.stat(tmp_path).st_dev
    faults("inputs").make_shards(tmp_path, 1)
    with in_group("blkio", [sys.executable, "-c", READ, str(tmp_path)]) as (process, group):
        ask(process, 1)
        limit = f"{os.major(device)}:{os.minor(device)} {8 * MEGABYTE}"
        (group / "blkio.throttle.read_bps_device").write_text(limit)
        begin = time.monotonic()
        ask(process, 9)
        assert time.monotonic() - begin >= 0.8  # 9 MiB at 8 MB/s, less what the kernel lets through at first
