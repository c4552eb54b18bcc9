"""A training of the board with everything that watches it: node agents, real Prometheus with the shipped rules, the
localizer."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path

from bench.faults.board import JOB, Board
from bench.faults.case import Case, Drawn
from eroica_otel import names
from eroica_otel.demo.monitoring import Alert, Monitoring, free_ports
from eroica_otel.demo.nodes import workers_of
from eroica_otel.errors import ConfigError
from eroica_otel.status import Status

PULL_PORT = 9464
FINDINGS = (
    "EroicaWorkerSlowsJob",
    "EroicaRoleSlowsJob",
    "EroicaWorkerHangsJob",
    "EroicaJobHangs",
    "EroicaLinkSlowsJob",
    "EroicaJobSlowedEverywhere",
)


class WatchedBoard(Board):
    """The same with the plugin, and how its verdicts are read.

    Attributes:
        monitoring: Prometheus and Alertmanager.
    """

    def __init__(self, case: Case, drawn: Drawn, folder: Path) -> None:
        environment = {
            "EROICA_WINDOW_SECONDS": str(case.window_seconds),
            "OTEL_METRICS_EXPORTER": "prometheus",
            "OTEL_EXPORTER_PROMETHEUS_HOST": "0.0.0.0",
            "OTEL_EXPORTER_PROMETHEUS_PORT": str(PULL_PORT),
        }
        super().__init__(case, drawn, folder, environment)

    def start_watching(self) -> None:
        """Start Prometheus, Alertmanager, the localizer and an agent on each node."""
        self.monitoring = Monitoring(self.folder / "monitoring")
        self._undo.callback(self.monitoring.close)
        self._metrics = free_ports(1)[0]
        trainers = [f"{self.node(rank).address}:{PULL_PORT + rank % self.case.ranks}" for rank in range(self.world)]
        self.monitoring.configure({"training": trainers, "localizer": [f"127.0.0.1:{self._metrics}"]})
        for name, command in self.monitoring.commands().items():
            self.start(command, name)
        where = ["--state", str(self.folder / "state"), "--report", str(self.folder)]
        command = [sys.executable, "-m", "eroica_otel.commands.main", "localize", "--prometheus", self.monitoring.url]
        self.start([*command, "--metrics", f"127.0.0.1:{self._metrics}", *where], "localizer")
        for node in self.nodes:
            agent = ["-m", "eroica_hardware", "--dir", self._shared(node.host), "--sources", "net,disk,pressure"]
            node.start([sys.executable, *agent, "--listen", "none"], {}, self.folder / f"agent-{node.host}.log")

    def _shared(self, host: str) -> str:
        return str(self.folder / f"shared-{host}")

    def _environment(self, number: int) -> dict[str, str]:
        return super()._environment(number) | {"EROICA_HARDWARE_DIR": self._shared(self.nodes[number].host)}

    def workers(self) -> list[Status]:
        """Return what the ranks say of themselves, by rank."""
        return workers_of(self.nodes)

    def baselines_are_known(self) -> bool:
        """Whether every rank can tell whether it is slower than before."""
        seen = self.workers()
        return len(seen) == self.world and all(worker.ratio is not None for worker in seen)

    def ask_for_window(self) -> None:
        """Ask for a manual window; nothing where no rank can take one now."""
        with suppress(ConfigError):
            super().ask_for_window()

    def judged(self) -> dict[str, int]:
        """Return the latest judged window by reason, as the localizer shows it in Prometheus."""
        rows = self.monitoring.query(f'{names.LOCALIZER_WINDOW.name}{{training_job="{JOB}"}}')
        return {row["metric"].get("reason", ""): int(float(row["value"][1])) for row in rows}

    def firing(self) -> list[Alert]:
        """Return the alerts of findings that fire now."""
        return [alert for alert in self.monitoring.firing() if alert.name in FINDINGS]

    def findings(self) -> list[dict[str, str]]:
        """Return the labels of every impact above info that Prometheus holds now."""
        rows = self.monitoring.query(f'{names.IMPACT.name}{{training_job="{JOB}",severity!="info"}}')
        return [row["metric"] for row in rows]

    def blocked_seconds(self) -> float | None:
        """Return the longest time for which a rank stood still for the latest window."""
        rows = self.monitoring.query(f'max({names.WINDOW_BLOCKED.name}{{training_job="{JOB}"}})')
        return float(rows[0]["value"][1]) if rows else None
