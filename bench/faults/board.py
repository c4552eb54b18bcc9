"""One training of the board with everything around it: nodes, real Prometheus with the shipped rules, the localizer."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

from bench.faults.cases import Case
from bench.faults.samples import Samples
from bench.repeat_demo import Machine
from eroica_otel import names
from eroica_otel.commands.window import request
from eroica_otel.demo.monitoring import Monitoring, free_ports
from eroica_otel.demo.nodes import MEGABITS, Node, nodes, workers_of
from eroica_otel.errors import EroicaError
from eroica_otel.status import Status

JOB = "board"
PULL_PORT = 9464
END_SECONDS = 20.0


class Board:
    """A context in which the case's training runs and is watched through Prometheus.

    Attributes:
        nodes: The nodes.
        monitoring: Prometheus and Alertmanager.
        folder: Logs, state and reports.
        machine: What others used of the machine meanwhile.
    """

    def __init__(self, case: Case, folder: Path, window_seconds: float) -> None:
        self.case, self.folder = case, folder
        self._window_seconds = window_seconds
        self.machine = Machine(str(folder), os.getpid())
        self._control = folder / "control"
        self._undo = ExitStack()

    def __enter__(self) -> Board:
        self._control.mkdir(parents=True)
        try:
            self.nodes: list[Node] = self._undo.enter_context(nodes(self.case.nodes, self.folder))
            self._start_monitoring()
            self._start_localizer()
            samples = Samples(self.nodes[0].gateway, self._control)
            self._undo.callback(samples.close)
            for number, node in enumerate(self.nodes):
                node.start(self._training(samples.address), self._environment(), self.folder / f"node-{number}.log")
        except BaseException:
            self._undo.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._undo.close()

    def _start_monitoring(self) -> None:
        self.monitoring = Monitoring(self.folder / "monitoring")
        self._undo.callback(self.monitoring.close)
        self._metrics = free_ports(1)[0]
        trainers = [f"{node.address}:{PULL_PORT + rank}" for node in self.nodes for rank in range(self.case.ranks)]
        self.monitoring.configure({"training": trainers, "localizer": [f"127.0.0.1:{self._metrics}"]})
        for name, command in self.monitoring.commands().items():
            self._here(name, command)

    def _start_localizer(self) -> None:
        command = [sys.executable, "-m", "eroica_otel.commands.main", "localize", "--prometheus", self.monitoring.url]
        where = ["--state", str(self.folder / "state"), "--report", str(self.folder)]
        self._here("localizer", [*command, "--metrics", f"127.0.0.1:{self._metrics}", *where])

    def _here(self, name: str, command: list[str]) -> None:
        with (self.folder / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self._undo.callback(_end, process)

    def _training(self, samples: str) -> list[str]:
        case, first = self.case, self.nodes[0].address
        launcher = ["-m", "torch.distributed.run", "--nnodes", str(case.nodes), "--nproc-per-node", str(case.ranks)]
        meeting = ["--rdzv-backend", "c10d", "--rdzv-endpoint", f"{first}:29500", "--rdzv-id", JOB]
        script = [str(Path(__file__).with_name("training.py")), "--samples", samples, "--control", str(self._control)]
        return [sys.executable, *launcher, *meeting, *script, *case.arguments]

    def _environment(self) -> dict[str, str]:
        return {
            "EROICA_TRAINING_JOB": JOB,
            "EROICA_WINDOW_SECONDS": str(self._window_seconds),
            "EROICA_NIC": "eth0",
            "EROICA_NIC_MBIT": str(MEGABITS),  # a virtual cable does not tell its speed
            "OTEL_METRICS_EXPORTER": "prometheus",
            "OTEL_EXPORTER_PROMETHEUS_HOST": "0.0.0.0",
            "OTEL_EXPORTER_PROMETHEUS_PORT": str(PULL_PORT),
            "OMP_NUM_THREADS": "1",
        }

    def workers(self) -> list[Status]:
        """Return what the ranks say of themselves, by rank."""
        return workers_of(self.nodes)

    def pid(self, rank: int) -> int:
        """Return the process id of a rank's trainer."""
        return self._worker(rank).pid

    def host(self, rank: int) -> str:
        """Return where a rank runs; launchers meet in any order, so that its number does not tell."""
        return self._worker(rank).identity.host

    def node(self, rank: int) -> Node:
        """Return the node of a rank."""
        return next(node for node in self.nodes if node.host == self.host(rank))

    def _worker(self, rank: int) -> Status:
        return next(worker for worker in self.workers() if worker.identity.rank == rank)

    def order(self, switch: str, rank: int, value: float) -> None:
        """Switch a fault of the training on."""
        part = self._control / "fault.part"
        part.write_text(json.dumps({"switch": switch, "rank": rank, "value": value}))
        os.replace(part, self._control / "fault.json")

    def ask_for_window(self) -> None:
        """Ask for a manual window on the first node."""
        request(self.nodes[0].folder, JOB)

    def judged(self) -> dict[str, int]:
        """Return the latest judged window by reason, as the localizer shows it in Prometheus."""
        rows = self.monitoring.query(f'{names.LOCALIZER_WINDOW.name}{{training_job="{JOB}"}}')
        return {row["metric"].get("reason", ""): int(float(row["value"][1])) for row in rows}

    def wait(self, reached: Callable[[], bool], what: str, seconds: float) -> None:
        """Wait until ``reached``.

        Raises:
            EroicaError: it was not, or a process of the training ended.
        """
        end = time.monotonic() + seconds
        while not reached():
            if any(process.poll() for node in self.nodes for process in node.processes):
                raise EroicaError(f"the training ended early; see {self.folder}")
            if time.monotonic() > end:
                raise EroicaError(f"waited {seconds:.0f} s in vain for {what}; see {self.folder}")
            self.machine.look()
            time.sleep(0.5)

    def findings(self) -> list[dict[str, str]]:
        """Return the labels of every impact above info that Prometheus holds now."""
        rows = self.monitoring.query(f'eroica_anomaly_impact_ratio{{training_job="{JOB}",severity!="info"}}')
        return [row["metric"] for row in rows]


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(timeout=END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
