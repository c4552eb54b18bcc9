"""Real Prometheus, Alertmanager and VictoriaMetrics for tests: free loopback ports, own folders, ended by pid."""

from __future__ import annotations

import ctypes
import json
import shutil
import signal
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from eroica_otel.demo.stage import free_port

READY_SECONDS = 60.0
_PR_SET_PDEATHSIG = 1


class Server:
    """One server process with its data in a folder; it can be killed and started again on the same port.

    Attributes:
        url: Address without a path.
        port: Its port, kept over restarts.
        folder: Configuration, data and log.
        process: The present process.
    """

    def __init__(self, program: str, arguments: Sequence[str], ready: str, folder: Path) -> None:
        """Start ``program``; ``{port}`` in an argument is replaced by its port, and ``ready`` is polled."""
        path = shutil.which(program) or shutil.which(program.removeprefix("prometheus-"))  # as it is released
        assert path is not None, (
            f"{program} is not on PATH; on Debian: apt-get install --no-install-recommends "
            "prometheus prometheus-alertmanager victoria-metrics"
        )
        self.program, self.folder, self._arguments, self._ready = path, folder, arguments, ready
        folder.mkdir(parents=True, exist_ok=True)
        for attempt in range(3):
            self.port = free_port()
            self.url = f"http://127.0.0.1:{self.port}"
            try:
                self.start()
            except ChildProcessError:  # somebody else took the port in between
                if attempt == 2:
                    raise
            else:
                return

    def start(self) -> None:
        """Start the process and wait until it is ready.

        Raises:
            ChildProcessError: it ended instead; the log says why.
        """
        arguments = [argument.replace("{port}", str(self.port)) for argument in self._arguments]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [self.program, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=_die_with_parent,
            )
        end = time.monotonic() + READY_SECONDS
        while not self._is_ready():
            if self.process.poll() is not None:
                raise ChildProcessError(f"{self.program} ended with {self.process.returncode}: {self.log()[-2000:]}")
            if time.monotonic() > end:
                self.stop()
                raise AssertionError(f"{self.program} was not ready in {READY_SECONDS:.0f} s: {self.log()[-2000:]}")
            time.sleep(0.05)

    def _is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(self.url + self._ready, timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def log(self) -> str:
        """Return everything that it wrote."""
        return (self.folder / "log").read_text(errors="replace")

    def kill(self) -> None:
        """End it at once (SIGKILL); its data stays."""
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        """End it in good order."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                self.kill()

    def reload(self) -> None:
        """Make Prometheus or Alertmanager read its configuration again."""
        asked = urllib.request.Request(f"{self.url}/-/reload", method="POST")
        with urllib.request.urlopen(asked, timeout=20):
            pass

    def get(self, path: str) -> Any:
        """Return the JSON answer of a GET, for example "/api/v1/alerts"."""
        with urllib.request.urlopen(self.url + path, timeout=20) as answer:
            return json.load(answer)

    def query(self, expression: str) -> list[Any]:
        """Return the result of an instant PromQL query."""
        found = self.get("/api/v1/query?" + urllib.parse.urlencode({"query": expression}))["data"]["result"]
        return list(found)


@contextmanager
def prometheus(
    folder: Path,
    targets: Mapping[str, Sequence[str]] | None = None,
    *,
    interval: str = "1s",
    more: str = "",
    config: str | None = None,
    options: Sequence[str] = (),
) -> Iterator[Server]:
    """Run Prometheus with scrape jobs (name -> "HOST:PORT"s); remote write is accepted, also out of order.

    Args:
        folder: For configuration (prometheus.yml), data and log.
        targets: Scrape jobs.
        interval: Of scrapes and of rules.
        more: Further top-level configuration as YAML (rule_files, alerting).
        config: The whole configuration instead.
        options: Further arguments of the program.
    """
    folder.mkdir(parents=True, exist_ok=True)
    text = prometheus_config(targets or {}, interval=interval, more=more) if config is None else config
    (folder / "prometheus.yml").write_text(text)
    arguments = [
        f"--config.file={folder / 'prometheus.yml'}", f"--storage.tsdb.path={folder / 'data'}",
        "--web.listen-address=127.0.0.1:{port}", "--web.enable-remote-write-receiver", "--web.enable-lifecycle",
        "--rules.alert.resend-delay=5s", *options,
    ]  # fmt: skip
    with _running(Server("prometheus", arguments, "/-/ready", folder)) as server:
        yield server


def prometheus_config(targets: Mapping[str, Sequence[str]], *, interval: str = "1s", more: str = "") -> str:
    """Return a configuration that scrapes ``targets``."""
    lines = [
        f"global: {{scrape_interval: {interval}, scrape_timeout: {interval}, evaluation_interval: {interval}}}",
        "storage: {tsdb: {out_of_order_time_window: 30m}}",
        f"scrape_configs: {'[]' if not targets else ''}",
    ]
    for name, addresses in targets.items():
        lines.append(f"  - job_name: {json.dumps(name)}")
        lines.append(f"    static_configs: [{{targets: {json.dumps(list(addresses))}}}]")
    return "\n".join([*lines, more, ""])


@contextmanager
def victoria_metrics(
    folder: Path,
    targets: Mapping[str, Sequence[str]] | None = None,
    *,
    interval: str = "1s",
    options: Sequence[str] = (),
) -> Iterator[Server]:
    """Run VictoriaMetrics that shows the newest samples at once; it accepts remote write and scrapes ``targets``."""
    folder.mkdir(parents=True, exist_ok=True)
    text = prometheus_config(targets or {}, interval=interval)
    scrape = "\n".join(line for line in text.splitlines() if not line.startswith("storage"))
    (folder / "scrape.yml").write_text(scrape.replace(f", evaluation_interval: {interval}", ""))
    arguments = [
        "-httpListenAddr=127.0.0.1:{port}", f"-storageDataPath={folder / 'data'}", "-retentionPeriod=1d",
        "-search.latencyOffset=0s", f"-promscrape.config={folder / 'scrape.yml'}", *options,
    ]  # fmt: skip
    with _running(Server("victoria-metrics", arguments, "/health", folder)) as server:
        yield server


@contextmanager
def alertmanager(folder: Path, config: str) -> Iterator[Server]:
    """Run Alertmanager with the configuration given as YAML."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "alertmanager.yml").write_text(config)
    arguments = [
        f"--config.file={folder / 'alertmanager.yml'}", f"--storage.path={folder / 'data'}",
        "--web.listen-address=127.0.0.1:{port}", "--cluster.listen-address=",
    ]  # fmt: skip
    with _running(Server("prometheus-alertmanager", arguments, "/-/ready", folder)) as server:
        yield server


@contextmanager
def _running(server: Server) -> Iterator[Server]:
    try:
        yield server
    finally:
        server.stop()


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
