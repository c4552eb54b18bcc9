"""What the readings of a process and its cgroup are with and without a fault that is made on purpose.

    python bench/host_evidence.py [--seconds 10]     (root, cgroup v1 with the controllers cpu and memory)

A process needs 4 ms of CPU in each 100 ms, or reads at random places of a mapped file of 128 MB that it has read.
Its cgroup, below that of this process, gets 25, 50 and 75 % of that need, more than it, no quota; of memory 48 MB, 400
MB, no limit. A row each, by what the helper of a worker reads (hardware/hostuse.py: process_cpu and cgroup_cpu are
shares of the least quota above it) and what is read at the borders of a window. So little CPU, because a process that
needs more would not reach its quota on a machine whose cores are wanted by others.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from eroica_otel.hardware.host import run_delay_ns, throttled_ns
from eroica_otel.hardware.hostuse import HostUse

ROOT = Path("/sys/fs/cgroup")
NEED_US, PERIOD_US = 4_000, 100_000
MB = 1 << 20
BUSY = f"""
import sys, time
sys.stdin.readline()
while True:
    end = time.monotonic() + {PERIOD_US / 1e6}
    until = time.thread_time() + {NEED_US / 1e6}
    while time.thread_time() < until:
        pass
    time.sleep(max(0.0, end - time.monotonic()))
"""
WALKING = """
import mmap, os, random, sys, time
sys.stdin.readline()
file = os.open(sys.argv[1], os.O_RDONLY)
size = os.fstat(file).st_size
mapped = mmap.mmap(file, size, prot=mmap.PROT_READ)
mapped.madvise(mmap.MADV_RANDOM)
while os.read(file, 1 << 20):
    pass
draw = random.Random(1)
while True:
    for _ in range(20):
        mapped[draw.randrange(size)]
    time.sleep(0.01)
"""


def below(controller: str) -> Path:
    """Return a new cgroup of a controller, below that of this process."""
    lines = Path("/proc/self/cgroup").read_text().splitlines()
    own = next(path for _, names, path in (line.split(":", 2) for line in lines) if controller in names.split(","))
    made = ROOT / controller / own.lstrip("/") / f"eroica-evidence-{os.getpid()}"
    made.mkdir()
    return made


@contextmanager
def limited(controller: str, file: str, value: int | None, pid: int) -> Iterator[None]:
    """Have a process in a cgroup with a limit; None = without one."""
    group = below(controller)
    before = group.parent / "cgroup.procs"
    try:
        if value is not None:
            (group / file).write_text(str(value))
        (group / "cgroup.procs").write_text(str(pid))
        yield
    finally:
        with suppress(ProcessLookupError):
            before.write_text(str(pid))
        time.sleep(0.5)
        group.rmdir()


def measured(pid: int, seconds: float) -> dict[str, float]:
    """Return what is read of a process for a while, after a second in which it gets going."""
    use = HostUse(pid)
    ready = time.monotonic() + 1.5
    while time.monotonic() < ready:
        use.sample(True)
        time.sleep(0.02)
    begin, throttled, delay = time.perf_counter_ns(), throttled_ns(pid), run_delay_ns(pid, pid)
    end = begin + round(seconds * 1e9)
    while time.perf_counter_ns() < end:
        use.sample(True)
        time.sleep(0.02)
    found = use.during(begin, end)
    grown = [(after - throttled[folder]) for folder, after in throttled_ns(pid).items() if folder in throttled]
    waited = run_delay_ns(pid, pid)
    if grown:
        found["throttled"] = max(grown) / (end - begin)
    if delay is not None and waited is not None:
        found["run_delay"] = (waited - delay) / (end - begin)
    use.close()
    return found


SHOWN = ("process_cpu", "cgroup_cpu", "throttled", "run_delay", "major_faults", "cgroup_memory")


def case(name: str, code: str, controller: str, file: str, value: int | None, seconds: float, data: Path) -> None:
    """Print one row."""
    with data.open("rb") as opened:  # what is in memory was charged to whoever wrote it
        os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    process = subprocess.Popen([sys.executable, "-c", code, str(data)], stdin=subprocess.PIPE)
    try:
        with limited(controller, file, value, process.pid):
            assert process.stdin is not None
            process.stdin.write(b"\n")
            process.stdin.flush()
            found = measured(process.pid, seconds)
            process.kill()
            process.wait()
    finally:
        process.kill()
        process.wait()
    print(f"| {name} | " + " | ".join(f"{found[one]:.3g}" if one in found else "-" for one in SHOWN) + " |", flush=True)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--memory", action="store_true", help="the cases of memory alone")
    arguments = parser.parse_args()
    seconds = arguments.seconds
    print(f"| case | {' | '.join(SHOWN)} |\n|---{'|---' * len(SHOWN)}|")
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        data = Path(folder) / "data"
        data.write_bytes(os.urandom(128 * MB))
        os.sync()
        for share in () if arguments.memory else (None, 4.0, 1.5, 0.75, 0.5, 0.25):
            quota = None if share is None else round(NEED_US * share)
            what = "no quota" if share is None else f"quota of {share:.0%} of the need"
            case(what, BUSY, "cpu", "cpu.cfs_quota_us", quota, seconds, data)
        for limit in (None, 400, 48):
            what = "no limit of memory" if limit is None else f"{limit} MB of memory, 128 MB of data"
            case(what, WALKING, "memory", "memory.limit_in_bytes", limit and limit * MB, seconds, data)


if __name__ == "__main__":
    main()
