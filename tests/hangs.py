"""A training of four processes that hangs, or pauses, as a test says, and the localizer that it delivers to."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from eroica_otel import names
from eroica_otel.demo.monitoring import free_ports
from eroica_otel.demo.stage import free_port
from eroica_otel.model import Finding, Report, WorkerWindow
from eroica_otel.publish.report import json as report_json
from eroica_otel.query.decode import decode
from eroica_otel.status import Status, live_workers
from jobs import scrape, wait_until

RANKS = 4
JOB = "hanging"
HANG_SECONDS = 90.0
"""Patience with each step."""
VERDICT_SECONDS = 90.0
"""The bar: the most that may pass from the moment at which a rank hangs to the verdict, whatever steps lie between."""
PAUSE_SECONDS = 20
"""How long this training believes a pause; ten minutes would be too long for a test of a hang."""


class Training:
    """A training under torchrun, each rank with a page of its own to scrape, and the localizer that it delivers to."""

    def __init__(self, folder: Path, pause_seconds: float = PAUSE_SECONDS) -> None:
        """Args: pause_seconds: How long this training believes a pause."""
        self.folder, self.control, self.pause_seconds = folder, folder / "control", pause_seconds
        self.control.mkdir()
        self.log, self.faults, self.began, self.onset, self.onset_time = folder / "log", 0, 0, 0.0, 0.0
        self.port = free_ports(RANKS)[0]
        self.listen = f"127.0.0.1:{free_port()}"
        self.localizer, self.process = self._localizer(), self._torchrun()

    def _localizer(self) -> subprocess.Popen[bytes]:
        where = ["--listen", self.listen, "--metrics", f"127.0.0.1:{free_port()}"]
        files = ["--state", str(self.folder / "state"), "--report", str(self.folder)]
        command = [sys.executable, "-m", "eroica_otel.commands.main", "localize", *where, *files]
        with (self.folder / "localizer").open("w") as output:
            return subprocess.Popen(command, stdout=output, stderr=output, start_new_session=True)

    def _torchrun(self) -> subprocess.Popen[bytes]:
        environment = os.environ | {
            "EROICA_DELIVERIES": "prometheus,otlp", "OTEL_EXPORTER_PROMETHEUS_PORT": str(self.port),
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://{self.listen}",
            "OTEL_METRIC_EXPORT_INTERVAL": "1000", "EROICA_DIR": str(self.folder / "workers"),
            "EROICA_WINDOW_SECONDS": "3", "EROICA_COOLDOWN_SECONDS": "15", "EROICA_REFERENCE": "0",
            "EROICA_CAPTURE": "stacks", "OMP_NUM_THREADS": "1", "EROICA_TRAINING_JOB": JOB,
        }  # fmt: skip
        launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(RANKS)]
        launcher += ["--max-restarts", "1"]
        script = [str(Path(__file__).parent / "e2e" / "hanging.py"), "--control", str(self.control)]
        script += ["--pause-seconds", str(self.pause_seconds)]
        with self.log.open("w") as output:
            return subprocess.Popen(
                [sys.executable, "-u", *launcher, *script],
                env=environment, stdout=output, stderr=output, start_new_session=True,
            )  # fmt: skip

    def end(self) -> None:
        """Kill all of it, also the child that a rank leaves behind."""
        (self.control / "stop").write_text("0")
        for worker in self.workers():
            os.kill(worker.pid, signal.SIGKILL)
        for process in (self.process, self.localizer):
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def workers(self) -> list[Status]:
        return [status for _, status in live_workers(self.folder / "workers")]

    def states(self) -> list[str]:
        return [status.state for status in self.workers()]

    def window(self, rank: int) -> WorkerWindow | None:
        """Return the blocked window that a rank shows, unless it is of an earlier hang."""
        window = decode(scrape(self.port + rank))
        if window is None or window.reason != "blocked" or window.window_id < self.began:
            return None
        return window

    def state(self, rank: int) -> str:
        """Return the state that a rank exports."""
        shown = [p for p in scrape(self.port + rank) if p.name == names.WORKER_STATE.name and p.value]
        return shown[0].labels["state"] if shown else ""

    def begin(self) -> None:
        """From here on windows are those of the next hang."""
        self.onset, self.onset_time = time.monotonic(), time.time()
        self.began = int(self.onset_time) + 5

    def hang(self, rank: int, kind: str) -> None:
        self.begin()
        self.faults += 1
        (self.control / f"fault-{self.faults}.part").write_text(f"{rank} {kind}")
        os.replace(self.control / f"fault-{self.faults}.part", self.control / f"fault-{self.faults}")

    def release(self) -> None:
        (self.control / f"release-{self.faults}").touch()

    def finish(self, more: int = 40) -> None:
        """Let all ranks leave their loop after the same iteration, which none of them has reached."""
        (self.control / "stop.part").write_text(str(max(worker.iterations for worker in self.workers()) + more))
        os.replace(self.control / "stop.part", self.control / "stop")

    def until(self, reached: Callable[[], bool], what: str) -> None:
        def checked() -> bool:
            assert self.process.poll() is None, self.log.read_text()
            assert self.localizer.poll() is None, (self.folder / "localizer").read_text()
            return reached()

        wait_until(checked, what, HANG_SECONDS)

    def all_healthy(self) -> None:
        moving = [status.iterations for status in self.workers()]
        self.until(
            lambda: (
                self.states() in (["healthy"] * RANKS, ["degraded"] * RANKS)
                and all(w.iterations > before + 5 for w, before in zip(self.workers(), moving, strict=True))
            ),
            "all ranks to train",
        )

    def windows(self) -> list[WorkerWindow]:
        """Wait for a new blocked window of each rank."""
        found: dict[int, WorkerWindow] = {}

        def complete() -> bool:
            for rank in range(RANKS):
                if rank not in found and (window := self.window(rank)) is not None:
                    found[rank] = window
            return len(found) == RANKS

        self.until(complete, "blocked windows of all ranks")
        ids = [window.window_id for window in found.values()]
        assert max(ids) - min(ids) < 60
        return [found[rank] for rank in range(RANKS)]

    def judged(self) -> Report | None:
        """Return the localizer's newest verdict, unless it is on an earlier hang."""
        path = self.folder / "report.json"
        report = report_json.parse(path.read_text()) if path.exists() else None
        return report if report is not None and report.window_id >= self.began else None

    def saw_no_hang(self) -> bool:
        """Return whether nobody shows a blocked window and nobody reports a hang, from ``begin`` on."""
        report = self.judged()
        shown = [self.window(rank) for rank in range(RANKS)]
        return shown == [None] * RANKS and (report is None or report.reason != "blocked")

    def verdict(self, confidence: str = "high", most_seconds: float = VERDICT_SECONDS) -> Finding:
        """Wait for the first verdict on this hang; return what it found, all others being its victims.

        Its seconds since the onset are a bar of the system and not of a test, so they are looked at.
        """
        self.until(lambda: self.judged() is not None, f"a verdict; see {self.folder / 'localizer'}")
        seconds = (self.folder / "report.json").stat().st_mtime - self.onset_time
        report = self.judged()
        assert report is not None
        assert report.reason == "blocked"
        (finding,) = report.findings
        print(f"{finding.cause}: {seconds:.0f} s from the onset to the verdict")
        (victims,) = report.victims
        assert victims.waits_for == finding.ranks
        assert victims.ranks == tuple(rank for rank in range(RANKS) if rank not in finding.ranks)
        assert (finding.severity, finding.confidence, finding.impact_ratio) == ("critical", confidence, 1.0)
        assert seconds < most_seconds
        return finding
