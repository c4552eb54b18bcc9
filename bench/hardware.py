"""What the node agent costs with 8 GPUs, how steady it is, what a worker's read costs, and whether rings ever tear.

    python bench/hardware.py cost [--seconds 10] [--latency-us 0] [--busy] [--against CHECKOUT]
    python bench/hardware.py read
    python bench/hardware.py races [--count 10000000] [--processes 2]
    python bench/hardware.py race [--seconds 20]

cost: the real agent (bench/hardware_agent.py), 100 Hz and then a window that is announced to it. Its GPUs are not real.
Where a C compiler and nvidia-ml-py are at hand, the real nvidia-ml-py asks a stand-in of NVIDIA's library
(nvml_stand_in.c), else the agent asks an object with the NVML calls. So the cost of a real driver's calls is NOT in the
figures; ``--latency-us`` adds so much time on the core to each call. Interfaces, RDMA ports and PCIe devices are files
in memory, which answer faster than sysfs does; CPU pressure and disks are this machine's. CPU time is that of all
threads of the agent, in blocks of half a second: cores that others keep busy make everything cost up to
three times as much, so the figure is that of the lowest tenth of the blocks, and the median is beside it.

read: a worker's read of the 20 s before now out of rings as the agent writes them, CPU time, median and least of 15.

races: reads of a small ring while its writer goes on, both the real code, in an order drawn at random before each part
of a load; stores are divided at any byte.

race: two processes at full speed, one writes a ring of 64 samples of 200 values, one reads it over and over.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import Process
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from eroica_otel.hardware.announce import Announcement, announce  # noqa: E402
from eroica_otel.hardware.ring import FileStore, Layout, Writer, create, slots_for  # noqa: E402
from eroica_otel.hardware.ringreader import open_ring  # noqa: E402
from eroica_otel.hardware.shared import open_folder  # noqa: E402
from eroica_otel.hardware.source import Resource  # noqa: E402
from factories_ring import at_random, is_torn, raced  # noqa: E402

LIBRARY = "libnvidia-ml.so.1"
PORT = 19466
BLOCK_SECONDS = 0.5
FAMILIES = "nvml,nvml_state,gpm,rdma,rdma_state,net,pcie,pressure,disk"
SECOND = 1_000_000_000
READS = 15
BATCH = 20_000
RACED = ((1, 1), (2, 1), (3, 1), (6, 1), (4, 2))
"""Rings: samples that are kept, and that are stored at once."""
# Rows as the agent writes them for 8 GPUs: source, columns, Hz in a window, columns that one worker reads.
RINGS = (
    ("nvml", 40, 1000, (0, 1, 2, 3, 4)),
    ("gpm", 72, 9, (1, 4, 5, 6, 7, 8)),
    ("rdma", 16, 200, (0, 1)),
    ("net", 72, 500, (0, 1)),
)
LARGE = ("all of NVML in one ring, which is not done", 240, 1000, (0, 9, 10, 12, 13))


def stand_in(folder: Path) -> dict[str, str]:
    """Return the variables with which nvidia-ml-py finds the stand-in, {} where it cannot be made."""
    compiler = shutil.which("cc")
    made = folder / LIBRARY
    source = ROOT / "bench" / "nvml_stand_in.c"
    if (
        compiler is None
        or subprocess.run(
            [compiler, "-O1", "-shared", "-fPIC", f"-Wl,-soname,{LIBRARY}", "-o", made, source], check=False
        ).returncode
    ):
        return {}
    return {"LD_LIBRARY_PATH": str(folder)}


def load_stand_in() -> None:
    """Have this process' nvidia-ml-py use the stand-in; raises SystemExit where it cannot be made."""
    with tempfile.TemporaryDirectory() as folder:
        if not stand_in(Path(folder)):
            raise SystemExit("this needs a C compiler, cc")
        ctypes.CDLL(str(Path(folder) / LIBRARY))  # by its name it is found from now on


@contextmanager
def agent(folder: Path, library: dict[str, str], arguments: argparse.Namespace, tree: Path) -> Iterator[int]:
    """Run an agent of the checkout ``tree``; give its process number."""
    path = os.pathsep.join(map(str, (ROOT / "tests", tree, tree / "exporters", ROOT)))
    variables = os.environ | library | {"PYTHONPATH": path, "NVML_NS": str(round(arguments.latency_us * 1000))}
    command = [sys.executable, str(ROOT / "bench" / "hardware_agent.py"), "--dir", str(folder)]
    command += ["--sources", arguments.sources, "--listen", f"127.0.0.1:{PORT}"]
    command += [] if library else ["--recorded", "--latency-us", str(arguments.latency_us)]
    process = subprocess.Popen(command, env=variables)
    try:
        while not list(folder.glob("*.ring")):
            if process.poll() is not None:
                raise SystemExit("hardware.py: the agent has ended, see above")
            time.sleep(0.1)
        time.sleep(1.5)
        yield process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of all threads of a process by its clock (clock_getcpuclockid(3) gives that number)."""
    return time.clock_gettime((~pid << 3) | 2)


def blocks(pid: int, seconds: float) -> list[float]:
    """Return the share of a core that a process uses, block by block, sorted."""
    found = []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        before, begin = cpu_seconds(pid), time.monotonic()
        time.sleep(BLOCK_SECONDS)
        found.append((cpu_seconds(pid) - before) / (time.monotonic() - begin))
    return sorted(found)


def kept(name: str) -> dict[str, float]:
    """Return a series of the agent by source."""
    with urllib.request.urlopen(f"http://127.0.0.1:{PORT}/metrics", timeout=30) as answer:
        lines = answer.read().decode().splitlines()
    rows = [line.rsplit(" ", 1) for line in lines if line.startswith(f"{name}{{")]
    return {labels.split('source="')[1].split('"')[0]: float(value) for labels, value in rows}


def stretch(what: str, pid: int, seconds: float) -> None:
    """Measure for a while and print one row of costs, and how well each source's rate was kept."""
    begin, rows, missed = time.monotonic(), kept("eroica_hardware_samples_total"), kept("eroica_hardware_missed_total")
    shares = blocks(pid, seconds)
    passed = time.monotonic() - begin
    now, late = kept("eroica_hardware_samples_total"), kept("eroica_hardware_missed_total")
    jitter, most = (kept(f"eroica_hardware_{name}") for name in ("jitter_seconds", "jitter_most_seconds"))
    lowest = shares[len(shares) // 10]
    print(f"| {what} | {lowest:.2%} | {statistics.median(shares):.2%} |", flush=True)
    for source, count in now.items():
        hertz = (count - rows.get(source, 0)) / passed
        print(
            f"    {source}: {hertz:.0f} Hz, {late[source] - missed.get(source, 0):.0f} missed; in the last second late"
            f" by {jitter[source] * 1e3:.2f} ms (most {most[source] * 1e3:.1f})"
        )


def one_agent(arguments: argparse.Namespace, tree: Path, name: str) -> None:
    """Measure an agent at the steady rate and in a window."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        library = stand_in(Path(folder))
        shared = Path(folder) / "shared"
        with agent(shared, library, arguments, tree) as pid:
            stretch(f"{name}, 100 Hz", pid, arguments.seconds)
            said = Announcement(0, os.getpid(), 1, min(60.0, arguments.seconds + 3))
            if refused := announce(shared, said):
                raise SystemExit(f"hardware.py: the window was refused: {refused}")
            time.sleep(1)
            stretch(f"{name}, in a window", pid, arguments.seconds)


def cost(arguments: argparse.Namespace) -> None:
    """Print the agent's cost, in turn with that of another checkout where one is given."""
    burners = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in os.sched_getaffinity(0)]
    if not arguments.busy:
        stop(burners)
    try:
        print("| what | share of a core, lowest tenth | median |\n|---|---|---|")
        for _ in range(arguments.rounds):
            if arguments.against:
                one_agent(arguments, arguments.against, "before")
            one_agent(arguments, ROOT, "now")
    finally:
        stop(burners)


def stop(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    for process in processes:
        process.kill()
        process.wait()


def read(arguments: argparse.Namespace) -> None:
    """Print what reads of 20 s cost."""
    print("| ring | columns | Hz | a worker's columns, ms | all, ms |\n|---|---|---|---|---|")
    for name, columns, hertz, wanted in (*RINGS, LARGE):
        with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
            few, every = reads(Path(folder), columns, hertz, wanted)
        print(f"| {name} | {columns} | {hertz} | {few} | {every} |", flush=True)


def reads(path: Path, columns: int, hertz: int, wanted: Sequence[int]) -> tuple[str, str]:
    """Return what a read of these columns costs and of all, of 20 s that end at the newest sample."""
    folder = open_folder(path)
    form = Layout("x", tuple(Resource("r", "", "1", 1.0, False) for _ in range(columns)), slots_for(columns))
    file = create(folder, "x.ring", form, 1)
    writer = Writer(form, FileStore(file))
    period = SECOND // hertz
    total = min(form.slots + 2 * hertz, 25 * hertz)
    for number in range(1, total + 1):
        writer.append(number * period, [1.0] * columns)
    ring = open_ring(folder, "x.ring")
    end = total * period
    few: list[float] = []
    every: list[float] = []
    for _ in range(READS):
        for found, chosen in ((few, wanted), (every, None)):
            begin = time.process_time()
            samples = ring.read(end - 20 * SECOND + 1, end, chosen)
            found.append(time.process_time() - begin)
            if abs(len(samples.times) - 20 * hertz) > 1:
                raise SystemExit(f"hardware.py: {len(samples.times)} samples were read of {20 * hertz}")
    ring.close()
    for opened in (file, folder):
        os.close(opened)
    few_ms, every_ms = (f"{statistics.median(one) * 1e3:.2f} (least {min(one) * 1e3:.2f})" for one in (few, every))
    return few_ms, every_ms


def race(seed: int) -> tuple[int, int, int, int, float]:
    """Return (samples accepted, lost to the writer, answers refused, torn, CPU seconds) of one batch of reads."""
    begin = time.process_time()
    drawn = random.Random(seed)
    accepted = lost = refused = torn = 0
    for slots, batch in RACED:
        one, pick = at_random(slots, drawn.getrandbits(32), batch)
        for _ in range(BATCH // len(RACED)):
            samples = raced(one, pick, most=pick.choice((2, 3, 5, 10)))
            if samples is None:
                refused += 1
                continue
            accepted, lost, torn = accepted + len(samples.times), lost + samples.lost, torn + is_torn(samples)
    return accepted, lost, refused, torn, time.process_time() - begin


def races(arguments: argparse.Namespace) -> int:
    """Print what came of so many reads; return 1 where something torn was accepted."""
    begin = time.monotonic()
    batches = -(-arguments.count // BATCH)
    sums: list[float] = [0, 0, 0, 0, 0.0]
    with ProcessPoolExecutor(arguments.processes) as pool:
        for done, found in enumerate(pool.map(race, range(arguments.seed, arguments.seed + batches)), 1):
            sums = [total + one for total, one in zip(sums, found, strict=True)]
            if done % 50 == 0 or done == batches:
                accepted, lost, refused, torn, used = sums
                print(
                    f"{done * BATCH:,} reads in {time.monotonic() - begin:.0f} s, {used:.0f} s of CPU:"
                    f" {accepted:,} samples accepted,"
                    f" {lost:,} lost to the writer, {refused} answers refused, {torn} TORN",
                    flush=True,
                )
    return int(sums[3] > 0)


def write(path: Path) -> None:
    """Write 200 times its number for ever."""
    form = Layout("x", tuple(Resource("r", "", "1", 1.0, False) for _ in range(200)), 64)
    writer = Writer(form, FileStore(create(open_folder(path), "x.ring", form, 1)))
    while True:
        writer.append(time.monotonic_ns(), [float(writer.batches + 1)] * 200)


def two_processes(arguments: argparse.Namespace) -> int:
    """Print how many samples were judged while another process wrote; return 1 where one was torn."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        other = Process(target=write, args=(Path(folder),), daemon=True)
        other.start()
        while not (Path(folder) / "x.ring").exists():
            time.sleep(0.01)
        ring = open_ring(open_folder(Path(folder)), "x.ring")
        reads = accepted = lost = torn = 0
        until = time.monotonic() + arguments.seconds
        while time.monotonic() < until:
            samples = ring.read(0, 1 << 62)
            found = samples.values
            torn += not ((found == found[:, :1]).all() and (found[1:] - found[:-1] == 1).all())
            reads, accepted, lost = reads + 1, accepted + len(found), lost + samples.lost
        other.kill()
        print(f"{reads:,} reads: {accepted:,} samples accepted, {lost:,} lost to the writer, {torn} reads TORN")
    return int(torn > 0)


def main() -> int:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("cost")
    one.add_argument("--seconds", type=float, default=10.0, help="of each of the two stretches")
    one.add_argument("--rounds", type=int, default=1)
    one.add_argument("--sources", default=FAMILIES, help="those that are read")
    one.add_argument("--latency-us", type=float, default=0.0, help="time on the core that each NVML call takes besides")
    one.add_argument("--busy", action="store_true", help="with an endless loop for each core")
    one.add_argument("--against", type=Path, help="another checkout, measured in turn")
    one.set_defaults(run=cost)
    commands.add_parser("read").set_defaults(run=read)
    one = commands.add_parser("races")
    one.add_argument("--count", type=int, default=10_000_000)
    one.add_argument("--processes", type=int, default=2)
    one.add_argument("--seed", type=int, default=1)
    one.set_defaults(run=races)
    one = commands.add_parser("race")
    one.add_argument("--seconds", type=float, default=20.0)
    one.set_defaults(run=two_processes)
    arguments = parser.parse_args()
    return arguments.run(arguments) or 0


if __name__ == "__main__":
    raise SystemExit(main())
