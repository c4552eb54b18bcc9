"""A job of two pipeline stages tells its roles, and is told to take windows at intervals, which are judged."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from eroica_otel import names
from eroica_otel.commands.main import main
from eroica_otel.demo.monitoring import free_ports
from eroica_otel.demo.stage import free_port
from eroica_otel.publish.report import json as report_json
from eroica_otel.status import live_workers
from jobs import job, scrape, value, wait_until

SCRIPT = Path(__file__).parent / "staged.py"
ROLES = {0: "pp0", 1: "pp1"}
RANKS = len(ROLES)


@contextmanager
def localizer(folder: Path, listen: str) -> Iterator[None]:
    where = ["--listen", listen, "--metrics", "127.0.0.1:0"]
    files = ["--state", str(folder / "state"), "--report", str(folder)]
    with (folder / "localizer").open("w") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "eroica_otel.commands.main", "localize", *where, *files],
            stdout=output, stderr=output,
        )  # fmt: skip
    try:
        yield
    finally:
        process.kill()
        process.wait()


def test_stages_have_roles_and_a_window_at_an_interval_is_taken_by_all_and_judged(tmp_path: Path) -> None:
    listen, port = f"127.0.0.1:{free_port()}", free_ports(RANKS)[0]
    settings = {
        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "GLOO_SOCKET_IFNAME": "lo",
        "EROICA_DELIVERIES": "prometheus,otlp", "OTEL_EXPORTER_PROMETHEUS_PORT": str(port),
        "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://{listen}", "EROICA_REFERENCE": "0", "EROICA_CAPTURE": "stacks",
        "EROICA_RECENT_ITERATIONS": "10", "EROICA_DEGRADED_RATIO": "1", "EROICA_TRAINING_JOB": "staged",
        "OTEL_METRIC_EXPORT_INTERVAL": "2000",
    }  # fmt: skip
    report = tmp_path / "report.json"
    with localizer(tmp_path, listen), job(tmp_path, script=SCRIPT, **settings) as training:

        def roles() -> dict[int, str]:
            return {status.identity.rank: status.identity.role for _, status in live_workers(training.folder)}

        def judged() -> bool:
            said = report_json.parse(report.read_text()) if report.exists() else None
            return said is not None and (said.reason, said.workers_seen, said.missing_ranks) == ("periodic", RANKS, ())

        def sent(rank: int) -> bool:
            labels = {"reason": "periodic", "outcome": "sent", "role": ROLES[rank]}
            return value(scrape(port + rank), names.WINDOWS.name, **labels) >= 1

        wait_until(lambda: len(roles()) == RANKS and all(roles().values()), "the roles", 120)
        assert roles() == ROLES
        assert main(["set", "--dir", str(training.folder), "periodic_seconds=5"]) == 0
        wait_until(judged, "a verdict on all", 120)
        wait_until(lambda: all(sent(rank) for rank in range(RANKS)), "the windows' series")
        training.end()
