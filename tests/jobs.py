"""Starts a training with the plugin for a test, and waits for what it shows; ends it whatever happens."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from prometheus_client.parser import text_string_to_metric_families

from eroica_otel.demo.stage import free_port
from eroica_otel.model import Point

LOOP = Path(__file__).parent / "e2e" / "loop.py"
PATIENCE_SECONDS = 60.0


def wait_until(reached: Callable[[], bool], what: str, patience_seconds: float = PATIENCE_SECONDS) -> None:
    """Poll until ``reached``; fail with ``what`` when that does not happen."""
    end = time.monotonic() + patience_seconds
    while not reached():
        assert time.monotonic() < end, f"waited {patience_seconds:.0f} s in vain for {what}"
        time.sleep(0.2)


def scrape(port: int) -> list[Point]:
    """Return every sample of a /metrics page; nothing while nobody answers."""
    try:
        with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            text = answer.read().decode()
    except (OSError, URLError):
        return []
    return [
        Point(sample.name, sample.labels, sample.value)
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    ]


def value(points: list[Point], name: str, **labels: str) -> float:
    """Return the sum of the samples of ``name`` that carry ``labels``; 0 without one."""
    return sum(p.value for p in points if p.name == name and labels.items() <= dict(p.labels).items())


@dataclass
class Job:
    """A running training."""

    process: subprocess.Popen[str]
    log_path: Path
    folder: Path
    stop: Path
    port: int

    def log(self) -> str:
        return self.log_path.read_text()

    def points(self) -> list[Point]:
        return scrape(self.port)

    def end(self) -> str:
        """Let the training end by itself, assert that it did well, return its output."""
        self.stop.touch()
        code = self.process.wait(timeout=PATIENCE_SECONDS)
        assert code == 0, self.log()
        return self.log()


@contextmanager
def job(tmp_path: Path, *arguments: str, script: Path | str = LOOP, **environment: str) -> Iterator[Job]:
    """Run a training (loop.py) with pull on a free port; variables in ``environment`` win."""
    port = free_port()
    settings = {
        "OTEL_METRICS_EXPORTER": "prometheus",
        "OTEL_EXPORTER_PROMETHEUS_PORT": str(port),
        "OTEL_METRIC_EXPORT_INTERVAL": "500",
        "EROICA_DIR": str(tmp_path / "workers"),
        "EROICA_WINDOW_SECONDS": "1",
        "EROICA_RECENT_ITERATIONS": "20",
    }
    log = tmp_path / "log"
    with log.open("w") as output:
        process = subprocess.Popen(
            [sys.executable, "-u", str(script), "--stop", str(tmp_path / "stop"), *arguments],
            env=os.environ | settings | environment,
            stdout=output,
            stderr=output,
            text=True,
        )
    try:
        yield Job(process, log, tmp_path / "workers", tmp_path / "stop", port)
    finally:
        process.kill()
        process.wait()


def helper_of(pid: int) -> int:
    """Return the process id of the helper that the worker ``pid`` started."""
    for entry in Path("/proc").iterdir():
        try:
            parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
            if parent == pid and b"eroica_otel.helper" in (entry / "cmdline").read_bytes():
                return int(entry.name)
        except (OSError, IndexError, ValueError):
            continue
    raise AssertionError(f"process {pid} has no helper")
