"""The demo through a real Prometheus and Alertmanager: alert, notification, dashboard, and a clean end."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest

from dashboards import Asked, all_queries, filled_in, foreign
from eroica_otel.demo.monitoring import Monitoring
from eroica_otel.demo.stage import JOB
from jobs import wait_until
from remote_write import WriteServer

PATIENCE_SECONDS = 200.0
PASSING = ("Windows", "Findings", "Deliveries of the workers")
"""What shows that something has just happened: windows, the annotations, and the deliveries' rate."""
NOT_IN_A_DEMO = {
    ("Windows", "C"): "none fails", ("Windows that failed", "A"): "none fails",
    ("Judged again", "B"): "the localizer does not fail",
    ("Peak of the link", "A"): "the function is no collective",
    ("Peak of the link", "B"): "the function is no collective",
    ("Reference", "A"): "augment() took no time worth keeping before", ("Reference against now", "C"): "the same",
    ("Beta over the ranks", "G"): "the same", ("Mu over the ranks", "G"): "the same",
    ("Sigma over the ranks", "G"): "the same",
    ("Fastest calls of the collective", "A"): "torch does not name its only group",
    ("Fastest calls of the collective", "B"): "torch does not name its only group",
    ("Iterations after a window", "A"): "the alert fires before it is known",
    ("Use of the host in the window", "B"): "without a quota nothing is throttled",
    ("What the localizer is asked, asks and sends", "A"): "it receives nothing, it asks Prometheus",
    ("What the localizer is asked, asks and sends", "C"): "it sends nothing, it is scraped",
    ("What workers could not measure", "A"): "everything could be measured",
}  # fmt: skip
"""Queries by panel and letter that may find nothing there, and why; those of other exporters apart."""


def _as_on_a_terminal() -> None:
    """A shell lets what it starts in the background ignore Ctrl-C, and these tests may be in the background."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@contextmanager
def demo(out: Path, fault: str = "python", **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run the demo with Prometheus; what it says goes to OUT.txt."""
    options = ["--backend", "prometheus", "--fault", fault, "--rank", "1", "--window", "5", "--out", str(out)]
    with out.with_suffix(".txt").open("wb") as said:
        process = subprocess.Popen(
            [sys.executable, "-m", "eroica_otel.commands.main", "demo", *options],
            stdout=said, stderr=said, env=os.environ | {"PYTHONUNBUFFERED": "1"} | environment,
            preexec_fn=_as_on_a_terminal,
        )  # fmt: skip
        try:
            yield process
        finally:
            process.kill()
            process.wait()


def text(out: Path) -> str:
    return out.with_suffix(".txt").read_text("utf-8")


def ours(out: Path) -> list[int]:
    """Return the processes whose command line names the demo's folder."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                line = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if str(out).encode() in line:
                found.append(int(entry.name))
    return found


@contextmanager
def asking(url: str) -> Iterator[Monitoring]:
    """Ask the demo's own Prometheus."""
    monitoring = Monitoring(Path("unused"))
    monitoring.url = url
    try:
        yield monitoring
    finally:
        monitoring.close()


def _empty_queries(monitoring: Monitoring, among: Iterable[Asked], **chosen: str) -> list[Asked]:
    """Return those queries of panels that find nothing, or find no label that their legend names.

    Of what passes it must have been more than nothing at some time.
    """
    empty = []
    for asked in among:
        if foreign(asked) or (asked.panel, asked.letter) in NOT_IN_A_DEMO:
            continue
        query = filled_in(asked.expr, **chosen)
        passing = asked.panel in PASSING and not asked.instant
        rows = monitoring.query(f"max_over_time(({query})[5m:5s]) > 0" if passing else query)
        if not rows or (asked.letter and not all(asked.legend <= set(row["metric"]) for row in rows)):
            empty.append(asked)
    return empty


def test_the_fault_becomes_one_alert_one_notification_and_a_row_of_the_dashboard(tmp_path: Path) -> None:
    out = tmp_path / "demo"
    # All series are scraped, and pushed to somebody else too: else there were no deliveries to show.
    pushing = {"OTEL_METRICS_EXPORTER": "prometheus,remote_write"}
    with (
        closing(WriteServer()) as elsewhere,
        demo(out, **pushing, EROICA_REMOTE_WRITE_URL=elsewhere.url) as process,
    ):

        def fires() -> bool:
            assert process.poll() is None, text(out)
            return "fires in Prometheus" in text(out)

        wait_until(fires, "the alert to fire", PATIENCE_SECONDS)
        (url,) = re.findall(r"Prometheus is on (http://\S+)", text(out))
        with asking(url) as monitoring:
            # A subquery sees a new series one step later.
            (found,) = monitoring.query('eroica_anomaly_impact_ratio{severity!="info"}')
            shown = {"training_job": JOB, "rank": "1", "function": found["metric"]["function"]}
            empty = list(all_queries())

            def shows_all() -> bool:
                empty[:] = _empty_queries(monitoring, empty, **shown)  # what has shown something is not asked again
                return not empty

            with suppress(AssertionError):  # told below is what shows nothing
                wait_until(shows_all, "every panel and annotation to show something", 45)
            assert [str(asked) for asked in empty] == []
            table = next(asked for asked in all_queries() if asked.panel == "Who slows which job")
            (culprit,) = monitoring.query(filled_in(table.expr, **shown))
            (advice,) = monitoring.query('cause:eroica_advice:info{cause="python_overhead"}')
            up = monitoring.query("up")
        assert culprit["metric"]["rank"] == "1"
        assert culprit["metric"]["function"].startswith("augment (train.py:")
        assert culprit["metric"]["advice"] == advice["metric"]["advice"]
        assert sorted(row["metric"]["job"] for row in up) == ["localizer"] + ["training"] * 4
        assert process.wait(timeout=PATIENCE_SECONDS) == 0, text(out)
    told = json.loads((out / "alert.json").read_text("utf-8"))
    assert (told["alertname"], told["labels"]["rank"]) == ("EroicaWorkerSlowsJob", "1")
    assert told["annotations"]["cause"] == "python_overhead"
    assert told["notifications"] == 1
    assert 0 < told["firing_seconds"] < told["notified_seconds"]
    assert "ALERT     EroicaWorkerSlowsJob" in text(out)
    assert ours(out) == []


@pytest.mark.parametrize(
    "number", [signal.SIGINT, signal.SIGKILL, pytest.param(signal.SIGTERM, marks=pytest.mark.long)]
)
def test_nothing_stays_when_the_demo_is_ended(tmp_path: Path, number: signal.Signals) -> None:
    out = tmp_path / "demo"
    with demo(out) as process:
        wait_until(lambda: "Prometheus is on" in text(out), "the demo to begin")
        wait_until(lambda: any(b"train" in Path(f"/proc/{pid}/cmdline").read_bytes() for pid in ours(out)), "training")
        assert len(ours(out)) >= 5, "Alertmanager, Prometheus, localizer, text server, launcher"
        process.send_signal(number)
        process.wait(timeout=60)
        wait_until(lambda: ours(out) == [], "all of its processes to end")


def _namespaces() -> str:
    return subprocess.run(["ip", "netns", "list"], check=True, capture_output=True, text=True).stdout


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGHUP, marks=pytest.mark.long)])
def test_no_node_stays_when_the_demo_is_ended(tmp_path: Path, number: signal.Signals) -> None:
    out = tmp_path / "demo"
    with demo(out, "network") as process:
        wait_until(lambda: "Prometheus is on" in text(out), "the demo to begin")
        assert _namespaces().count(f"er{process.pid}x") == 4
        process.send_signal(number)
        assert process.wait(timeout=60) == 128 + number
        wait_until(lambda: ours(out) == [], "all of its processes to end")
        assert f"er{process.pid}x" not in _namespaces()


def test_a_server_that_is_not_installed_is_named_with_the_remedy(tmp_path: Path) -> None:
    out = tmp_path / "demo"
    with demo(out, PATH=str(tmp_path)) as process:
        assert process.wait(timeout=60) == 3
    assert "--backend prometheus needs prometheus, which is not on PATH" in text(out)
    assert "apt-get install --no-install-recommends prometheus prometheus-alertmanager" in text(out)
