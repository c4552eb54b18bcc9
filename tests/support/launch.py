"""Runs cases of the table side by side: real processes, one receiver for all; gives back what was delivered and done.

Everything that is said of a case comes from what its workers delivered by OTLP, and from the trainings' own counts.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from eroica_otel import names
from eroica_otel.commands.window import request
from eroica_otel.demo.stage import free_port
from eroica_otel.errors import ConfigError
from eroica_otel.model import Point, WorkerWindow
from eroica_otel.query.otlp import Delivery
from eroica_otel.query.receiver import Receiver
from eroica_otel.query.store import Store
from eroica_otel.status import live_workers
from eroica_otel.webserver import Address
from support.measure import Truth, truths
from support.registry import Case

TESTS = Path(__file__).parents[1]
PATIENCE_SECONDS = 240.0
DELIVERY_SECONDS = 60.0
DROPPED = (
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
    "MASTER_",
    "SLURM_",
    "OMPI_",
    "PMI_",
    "EROICA_",
    "OTEL_",
    "TORCHELASTIC_",
)
"""Variables of the caller's that would decide what is tested, by how they begin."""


@dataclass
class Heard:
    """What one rank delivered: its latest points, and every state it ever said."""

    points: tuple[Point, ...] = ()
    states: set[str] = field(default_factory=set)


@dataclass(frozen=True)
class Outcome:
    """One case as it went.

    Attributes:
        code: Exit code; None when it had to be ended.
        log: Output of all its processes.
        truth: By rank, what the training did.
        heard: By rank, what arrived.
        windows: By window id and rank.
    """

    code: int | None
    log: str
    truth: Mapping[int, Truth]
    heard: Mapping[int, Heard]
    windows: Mapping[int, Mapping[int, WorkerWindow]]


class Bench:
    """The receiver, and the cases that run."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._store = Store()
        self._heard: dict[str, dict[int, Heard]] = {}
        self._lock = threading.Lock()
        self._receiver = Receiver(Address("127.0.0.1", 0, "--otlp"), self._accept)
        self._receiver.start("support")

    def close(self) -> None:
        self._receiver.stop()

    def _accept(self, delivery: Delivery) -> None:
        self._store.add(delivery, time.monotonic())
        labels = delivery.points[0].labels
        with self._lock:
            ranks = self._heard.setdefault(labels["training_job"], {})
            heard = ranks.setdefault(int(labels["rank"]), Heard())
        heard.points = delivery.points
        heard.states |= {
            point.labels["state"] for point in delivery.points if point.name == names.WORKER_STATE.name and point.value
        }

    def run(self, case: Case) -> Outcome:
        """Run one case to its end, ask for a window as soon as one can begin, and wait for the last delivery."""
        folder = self._folder / case.name
        folder.mkdir()
        log = folder / "log"
        with log.open("w") as output:
            running = [
                subprocess.Popen(
                    command,
                    env=environment,
                    stdout=output,
                    stderr=output,
                    stdin=subprocess.DEVNULL,
                    start_new_session=True,
                )
                for command, environment in self._commands(case, folder)
            ]
        try:
            code = self._attend(case, folder, running)
        finally:
            for process in running:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        end = time.monotonic() + DELIVERY_SECONDS
        while code == 0 and not self._finished(case) and time.monotonic() < end:
            time.sleep(0.2)
        heard = self._heard.get(case.name, {})
        return Outcome(code, log.read_text(), truths(folder), heard, self._windows(case))

    def _windows(self, case: Case) -> dict[int, Mapping[int, WorkerWindow]]:
        jobs = [job for job in self._store.jobs() if job.key[1] == case.name]
        return {number: one.windows for job in jobs for number, one in job.windows.items()}

    def _attend(self, case: Case, folder: Path, running: list[subprocess.Popen[bytes]]) -> int | None:
        end = time.monotonic() + PATIENCE_SECONDS
        asked = missed = 0
        while any(process.poll() is None for process in running):
            if time.monotonic() > end or any(process.poll() for process in running):
                return next((process.returncode for process in running if process.poll()), None)
            if self._enough(case):
                (folder / "enough").touch()
            elif asked <= (missed := max(missed, _skipped(folder / "workers") + self._uneven(case))):
                asked += _ask(folder / "workers", case.name)
            time.sleep(0.2)
        return max(process.returncode for process in running)

    def _enough(self, case: Case) -> bool:
        """Whether all that is to be seen has happened: all ranks sent one window, or said that they cannot."""
        if case.unmatched:
            return any("unmatched" in one.states for one in self._heard.get(case.name, {}).values())
        return any(is_complete(case, windows) for windows in self._windows(case).values())

    def _uneven(self, case: Case) -> int:
        """Return how many windows all ranks have sent that do not count, because one heard of it late."""
        return sum(
            len(windows) == case.ranks and not is_complete(case, windows) for windows in self._windows(case).values()
        )

    def _finished(self, case: Case) -> bool:
        heard = self._heard.get(case.name, {})
        return len(heard) == case.ranks and all("finished" in one.states for one in heard.values())

    def _commands(self, case: Case, folder: Path) -> list[tuple[list[str], dict[str, str]]]:
        base = {key: value for key, value in os.environ.items() if not key.startswith(DROPPED)} | {
            "PYTHONPATH": str(TESTS),
            "OMP_NUM_THREADS": "1",
            "HF_HUB_OFFLINE": "1",
            "DS_ACCELERATOR": "cpu",
            "RAY_USAGE_STATS_ENABLED": "0",
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{self._receiver.port}",
            "OTEL_METRIC_EXPORT_INTERVAL": "1000",
            "EROICA_TRAINING_JOB": case.name,
            "EROICA_DIR": str(folder / "workers"),
            "EROICA_WINDOW_SECONDS": "3",  # a machine that leaves the sampler without a turn for 0.3 s must not matter
            "EROICA_REFERENCE": "0",
            "EROICA_DEGRADED_RATIO": "10",
        }
        command = [sys.executable, "-u", "-m", "support.run", case.name, str(folder)]
        port = str(free_port())
        if case.launcher == "torchrun":
            torchrun = ["-m", "torch.distributed.run", f"--nproc-per-node={case.ranks}", f"--master-port={port}"]
            return [([sys.executable, *torchrun, *command[2:]], base)]
        if case.launcher in ("python", "spawn", "fork", "ray"):
            return [(command, base | {"SUPPORT_MEET": f"tcp://127.0.0.1:{port}"})]
        return [(command, base | _variables(case, rank, port, folder)) for rank in range(case.ranks)]


def is_complete(case: Case, windows: Mapping[int, WorkerWindow]) -> bool:
    """Return whether all ranks captured a window to the same iteration; one that was late has the others' last half."""
    ranges = [span(one) for one in windows.values()]
    lengths = [stop - start for start, stop in ranges]
    same = set(windows) == set(range(case.ranks)) and len({stop for _, stop in ranges}) == 1
    manual = {one.reason for one in windows.values()} == {"manual"}
    return same and manual and 2 * min(lengths) >= max(lengths)


def span(window: WorkerWindow) -> tuple[int, int]:
    """Return the first iteration of a window and the one after its last."""
    return window.start_iteration, window.start_iteration + window.iterations


def _ask(workers: Path, job: str) -> bool:
    try:
        return bool(request(workers, job))
    except ConfigError:
        return False


def _skipped(workers: Path) -> int:
    """Return how many windows some rank has left out: on a busy machine one may hear of a window after its end."""
    return max((status.windows.get("manual skipped", 0) for _, status in live_workers(workers)), default=0)


def _variables(case: Case, rank: int, port: str, folder: Path) -> dict[str, str]:
    """Return what the launcher of the case tells the process ``rank``."""
    me, world = str(rank), str(case.ranks)
    master = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "SUPPORT_MEET": "env://"}
    by_launcher = {
        "variables": {"RANK": me, "WORLD_SIZE": world, "LOCAL_RANK": me, **master},
        "srun": {"SLURM_PROCID": me, "SLURM_NTASKS": world, "SLURM_LOCALID": me, "SLURM_JOB_ID": "17", **master},
        "mpirun": {
            "OMPI_COMM_WORLD_RANK": me,
            "OMPI_COMM_WORLD_SIZE": world,
            "OMPI_COMM_WORLD_LOCAL_RANK": me,
            "SUPPORT_MEET": f"tcp://127.0.0.1:{port}",
        },
        "pmi": {"PMI_RANK": me, "PMI_SIZE": world, "SUPPORT_MEET": f"file://{folder}/meet"},
        "late": {"SUPPORT_LATE": f"{me} {port}"},
    }
    return by_launcher[case.launcher]
