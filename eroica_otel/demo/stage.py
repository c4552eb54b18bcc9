"""The demo's processes: localizer, text server, training, and the servers of ``monitoring``.

They are started and ended together, also when the demo is killed.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from urllib.request import urlopen

from prometheus_client.parser import text_string_to_metric_families

from eroica_otel import names
from eroica_otel.demo.ending import die_with_parent
from eroica_otel.demo.monitoring import Monitoring, free_ports
from eroica_otel.demo.nodes import Node
from eroica_otel.demo.quota import limited
from eroica_otel.demo.spread import carry, launch
from eroica_otel.errors import EroicaError
from eroica_otel.model import Point
from eroica_otel.status import Status, live_workers

JOB = "demo"
RANKS = 4
END_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Fault:
    """What goes wrong.

    Attributes:
        name: "python" burns CPU in a function, "input" blocks a read, "cpu" limits the worker's CPU time, "network"
            its node's link, "none" is a clean run.
        rank: Where.
        seconds: What "python" and "input" add to each iteration.
        megabits: Speed that "network" leaves, per second.
        cores: Cores that "cpu" leaves.
    """

    name: str
    rank: int
    seconds: float = 0.0
    megabits: int = 0
    cores: float = 1.0


def free_port() -> int:
    """Return a TCP port that nobody listens on at this moment."""
    return free_ports(1)[0]


class Stage:
    """A context in which the demo's processes run; leaving it ends them all.

    Attributes:
        log: File with everything that the processes wrote.
        monitoring: Prometheus and Alertmanager, where the demo has them.
    """

    def __init__(
        self,
        out: Path,
        window_seconds: float,
        environment: dict[str, str] | None = None,
        monitoring: Monitoring | None = None,
        places: Sequence[Node] = (),
    ) -> None:
        """Prepare; ``places`` are nodes for one rank each, without them all ranks run on this machine."""
        self.out = out
        self._places = places
        self.monitoring = monitoring
        self.log = out / "demo.log"
        self.workers_folder = out / "workers"
        self._control = out / "control"
        self._window_seconds = window_seconds
        self._environment = environment if environment is not None else dict(os.environ)
        self._metrics_port = free_port()
        self._otlp_port = free_port()
        self._scraped: list[int] = []
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._more: list[subprocess.Popen[bytes]] = []
        self._stack = ExitStack()

    def __enter__(self) -> Stage:
        self._control.mkdir(parents=True, exist_ok=True)
        self._output = self._stack.enter_context(self.log.open("wb"))
        try:
            if self.monitoring is not None:
                self._start_monitoring(self.monitoring)
            self.restart_localizer()
            self._start_training(self._start_text())
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.finish()
        for process in reversed([*self._processes.values(), *self._more]):
            _end(process)
        self._stack.close()

    def finish(self) -> None:
        """Let all ranks end at one iteration some seconds ahead, as a training does; a kill leaves tracebacks."""
        training, workers = self._processes["training"], self.workers()
        if training.poll() is None and workers:
            seconds = max(worker.recent_seconds or 1.0 for worker in workers)
            last = max(worker.iterations for worker in workers) + math.ceil(END_SECONDS / seconds)
            _write(self._control / "stop", last)
            with contextlib.suppress(subprocess.TimeoutExpired):
                training.wait(timeout=END_SECONDS + 10)

    def _python(self, name: str, arguments: Iterable[str], extra: dict[str, str], stdout: int | None = None) -> None:
        self._spawn(name, [sys.executable, *arguments], extra, stdout)

    def _spawn(self, name: str, command: list[str], extra: dict[str, str], stdout: int | None = None) -> None:
        self._processes[name] = subprocess.Popen(
            command,
            env=self._environment | extra,
            stdin=subprocess.DEVNULL,
            stdout=self._output if stdout is None else stdout,
            stderr=self._output,
            start_new_session=True,
            preexec_fn=die_with_parent,
        )

    def _start_monitoring(self, monitoring: Monitoring) -> None:
        self._scraped = free_ports(RANKS)
        # Each node has all ports to itself, and one rank.
        training = [f"{node.address}:{self._scraped[0]}" for node in self._places] or [
            f"127.0.0.1:{port}" for port in self._scraped
        ]
        monitoring.configure({"training": training, "localizer": [f"127.0.0.1:{self._metrics_port}"]})
        for name, command in monitoring.commands().items():
            self._spawn(name, command, {})

    def restart_localizer(self) -> None:
        """Start the localizer, also after somebody killed it; it finds its state again."""
        source = ["--listen", f"127.0.0.1:{self._otlp_port}"]
        if self.monitoring is not None:
            source = ["--prometheus", self.monitoring.url, "--prometheus-interval", "2"]
        where = ["--metrics", f"127.0.0.1:{self._metrics_port}", "--state", str(self.out / "state")]
        command = ["-m", "eroica_otel.commands.main", "localize", *source, *where, "--report", str(self.out)]
        self._python("localizer", command, {})

    def restart(self, name: str) -> None:
        """Start "localizer", "prometheus" or "alertmanager" again after somebody killed it."""
        if name == "localizer":
            self.restart_localizer()
        elif self.monitoring is not None:
            self._spawn(name, self.monitoring.commands()[name], {})

    def _start_text(self) -> str:
        self._python("text", ["-m", "eroica_otel.demo.text", "--control", str(self._control)], {}, subprocess.PIPE)
        stream = self._processes["text"].stdout
        assert stream is not None
        return stream.readline().decode().strip()

    def _start_training(self, text: str) -> None:
        script = ["-m", "eroica_otel.demo.train", "--text", text, "--control", str(self._control)]
        environment = self._environment | self._variables() | self._overrides()
        if self._places:
            addresses = [text, f"127.0.0.1:{self._otlp_port}"]
            self._more.append(carry(self._places, addresses, self._control, self.log))
            launchers = launch(self._places, script, environment, self.log)
            self._processes |= {f"training on {n.host}": p for n, p in zip(self._places, launchers, strict=True)}
            self._processes["training"] = launchers[0]
            return
        launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(RANKS)]
        self._python("training", [*launcher, *script], environment)

    def _variables(self) -> dict[str, str]:
        """What the demo wants of the training."""
        wanted = {
            "EROICA_TRAINING_JOB": JOB,
            "EROICA_WINDOW_SECONDS": str(self._window_seconds),
            "EROICA_COOLDOWN_SECONDS": "10",
            "EROICA_NIC_MBIT": "10000",  # loopback does not tell a speed
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{self._otlp_port}",
            "OTEL_METRIC_EXPORT_INTERVAL": "2000",
            "OMP_NUM_THREADS": "1",
        }
        if not self._places:
            wanted["EROICA_DIR"] = str(self.workers_folder)
        if self._scraped:
            wanted |= {
                "OTEL_METRICS_EXPORTER": "prometheus",
                "OTEL_EXPORTER_PROMETHEUS_HOST": "0.0.0.0" if self._places else "127.0.0.1",
                "OTEL_EXPORTER_PROMETHEUS_PORT": str(self._scraped[0]),
            }
        return wanted

    def _overrides(self) -> dict[str, str]:
        """What the caller's own environment says of the training wins over the demo's choices."""
        return {
            name: value
            for name, value in self._environment.items()
            if name in ("OTEL_METRICS_EXPORTER", "OTEL_METRIC_EXPORT_INTERVAL")
        }

    def pid(self, name: str) -> int:
        """Return the process id of "localizer", "text" or "training"."""
        return self._processes[name].pid

    def check(self) -> None:
        """Raise EroicaError when one of the processes has ended by itself."""
        for name, process in self._processes.items():
            if process.poll() is not None:
                raise EroicaError(f"the {name} ended early with code {process.returncode}; see {self.log}")

    def workers(self) -> list[Status]:
        """Return what the ranks say of themselves, by rank."""
        folders = [node.folder for node in self._places] or [self.workers_folder]
        found = [status for folder in folders for _, status in live_workers(folder)]
        return sorted(found, key=lambda status: status.identity.rank)

    def series(self) -> list[Point]:
        """Return what the localizer shows on /metrics; empty while it starts."""
        try:
            with urlopen(f"http://127.0.0.1:{self._metrics_port}/metrics", timeout=5) as answer:
                text = answer.read().decode()
        except OSError:
            return []
        families = text_string_to_metric_families(text)
        return [Point(sample.name, sample.labels, sample.value) for family in families for sample in family.samples]

    def judged(self, *reasons: str) -> int | None:
        """Return the id of the window that was judged last, if its reason is one of ``reasons``."""
        for point in self.series():
            if point.name == names.LOCALIZER_WINDOW.name and point.labels.get("reason") in reasons:
                return int(point.value)
        return None

    def inject(self, fault: Fault) -> None:
        """Start the fault; what was done is left in injected.json, for people and for tests only."""
        if fault.name in ("network", "cpu"):
            worker = next(worker for worker in self.workers() if worker.identity.rank == fault.rank)
            if fault.name == "network":  # launchers meet in any order, so that the rank does not say which node it is
                next(node for node in self._places if node.host == worker.identity.host).limit(fault.megabits)
            else:
                self._stack.enter_context(limited(worker.pid, fault.cores))
        else:
            order = {"fault": fault.name, "rank": fault.rank, "seconds": fault.seconds}
            _write(self._control / "fault.json", order)
        _write(self.out / "injected.json", {"fault": fault.name, "rank": fault.rank, "at": time.time()})


def _write(path: Path, value: object) -> None:
    part = path.with_suffix(".part")
    part.write_text(json.dumps(value))
    os.replace(part, path)


def _end(process: subprocess.Popen[bytes]) -> None:
    for number, patience in ((signal.SIGTERM, 10.0), (signal.SIGKILL, 5.0)):
        if process.poll() is not None:
            break
        os.killpg(process.pid, number)
        try:
            process.wait(timeout=patience)
        except subprocess.TimeoutExpired:
            continue
    if process.stdout is not None:
        process.stdout.close()
