from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from backends import NOW, backend
from eroica_otel import names
from eroica_otel.commands import localize, main
from eroica_otel.query.files import write
from factories_central import WINDOW, collect, export, fetch, identity, send_windows, windows
from remote_write import WriteServer, series

Start = Callable[..., "Service"]


class Service:
    """A real ``eroica-otel localize`` process; its ports are read from what it says."""

    def __init__(self, state: Path, *options: str) -> None:
        command = [sys.executable, "-m", "eroica_otel.commands.main", "localize", "--state", str(state)]
        addresses = ["--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0"]
        self.process = subprocess.Popen(
            [*command, *addresses, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.lines: list[str] = []
        self.otlp, self.metrics = re.findall(r"http://[^ /]+", self.line("waiting for patterns"))

    def line(self, text: str) -> str:
        """Read progress until a line holds ``text``."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line)
            if text in line:
                return line
        raise AssertionError(f"it ended without saying {text!r}: {self.lines}")

    def end(self, number: int | None = None) -> tuple[int, str]:
        """Wait for the end, after a signal where one is given; return exit code and stdout."""
        if number is not None:
            self.process.send_signal(number)
        out, err = self.process.communicate(timeout=60)
        self.lines += err.splitlines()
        return self.process.returncode, out

    def series(self, name: str) -> list[str]:
        _, body = fetch(f"{self.metrics}/metrics")
        return [line for line in body.decode().splitlines() if line.startswith(name)]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    services: list[Service] = []

    def make(*options: str) -> Service:
        services.append(Service(tmp_path / "state", *options))
        return services[-1]

    yield make
    for service in services:
        if service.process.poll() is None:
            service.end(signal.SIGKILL)


def deliver(service: Service, slow: Sequence[int] = (), **changes: Any) -> None:
    """Deliver a window of four workers through the real SDK and its exporter, each worker with its own provider."""
    given = windows(slow, **changes)
    senders = [threading.Thread(target=export, args=(collect(item), service.otlp)) for item in given]
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join()


def test_once_prints_and_writes_the_verdict_and_its_code_is_1(start: Start, tmp_path: Path) -> None:
    service = start("--once", "--report", str(tmp_path / "out"), "--json", str(tmp_path / "verdict.json"))
    deliver(service, reason="reference")
    assert "patterns from" in service.line(f"window {WINDOW} of llm-7b (reference)")
    deliver(service, [2], window_id=WINDOW + 60)
    code, out = service.end()
    assert code == 1
    assert "CULPRIT" in out
    assert "augment" in out
    written = json.loads((tmp_path / "out" / "report.json").read_text())
    assert [item["ranks"] for item in written["findings"] if item["severity"] != "info"] == [[2]]
    assert written == json.loads((tmp_path / "verdict.json").read_text())
    assert "augment" in (tmp_path / "out" / "report.html").read_text()


def test_once_without_a_finding_is_0(start: Start) -> None:
    service = start("--once", "--timeout", "60")
    deliver(service, reason="manual")
    assert service.end()[0] == 0


def test_once_with_a_window_that_cannot_be_judged_is_3(start: Start) -> None:
    service = start("--once", "--timeout", "60")
    send_windows(service.otlp, [replace(windows()[0], reason="manual", identity=identity(world_size=1))])
    code, out = service.end()
    assert code == 3
    assert "\ncannot be judged: 1 worker and no reference\n" in out
    assert "no finding" not in out
    assert service.lines[-1].endswith("cannot be judged: 1 worker and no reference")


def test_once_without_a_verdict_says_where_to_deliver(start: Start) -> None:
    service = start("--once", "--timeout", "0.2")
    assert service.end() == (3, "")
    assert f"OTEL_EXPORTER_OTLP_ENDPOINT={service.otlp}" in service.lines[-1]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_cleanly(start: Start, number: int) -> None:
    assert start().end(number)[0] == 0


def test_kill_9_in_the_middle_and_a_restart(start: Start) -> None:
    service = start()
    send_windows(service.otlp, windows([2]))
    assert service.line("4 of 4") is not None
    wait_for(service, "eroica_job_anomalies", 1)
    send_windows(service.otlp, windows([2], window_id=WINDOW + 60)[:2])
    service.end(signal.SIGKILL)
    second = start()
    assert "restored 2 windows and 1 open findings" in "".join(second.lines)
    assert fetch(f"{second.metrics}/-/ready")[0] == 200
    (impact,) = second.series("eroica_anomaly_impact_ratio{")
    assert 'rank="2"' in impact
    assert fetch(f"{second.metrics}/report/llm-7b.html")[0] == 200
    send_windows(second.otlp, windows([2], window_id=WINDOW + 60)[2:])
    wait_for(second, "eroica_localizer_window_id", WINDOW + 60)
    code, out = second.end(signal.SIGTERM)
    assert code == 1
    assert set(re.findall(r"window (\d+)", out)) == {str(WINDOW + 60)}


STALE = 0x7FF0000000000002
"""Bits of the value by which Prometheus knows that a series has ended."""


def test_sigterm_judges_what_is_complete_sends_it_ends_its_series_and_judges_nothing_twice(start: Start) -> None:
    server = WriteServer()
    service = start("--send-remote-write", server.url)
    send_windows(service.otlp, windows([2]))
    code, out = service.end(signal.SIGTERM)
    server.close()
    assert code == 1
    assert out.count("CULPRIT") == 1
    sent = [bits for body in server.bodies for labels, bits, _ in series(body)
            if labels["__name__"] == names.IMPACT.name and labels["rank"] == "2"]  # fmt: skip
    assert len(sent) >= 2
    assert sent[-1] == STALE
    assert STALE not in sent[:-1]
    second = start()
    assert "restored 1 windows and 1 open findings" in "".join(second.lines)
    assert second.end(signal.SIGTERM) == (1, "")


def cron(url: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    """Run once as cron does; return exit code, verdicts and what was said."""
    options = ["--once", "--timeout", "0", "--metrics", "127.0.0.1:0", "--state", str(folder)]
    code = main.main(["localize", "--prometheus", url, *options])
    return code, *capsys.readouterr()


def test_once_for_cron_judges_what_is_there_of_all_jobs_and_nothing_twice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kinds = {"compute": 0.4, "communication": 0.3, "python": 0.1, "idle": 0.2}
    with backend() as server:
        for job, slow in (("faulty", [2]), ("whole", [])):
            given = [replace(one, identity=identity(one.identity.rank, training_job=job)) for one in windows(slow)]
            given = [one if one.identity.rank in slow else replace(one, kinds=kinds) for one in given]
            server.samples.scrape(NOW - 20, NOW, given)
        code, out, _ = cron(server.url, tmp_path, capsys)
        assert code == 1
        assert sorted(re.findall(r"^job (\w+)", out, re.MULTILINE)) == ["faulty", "whole"]
        code, out, _ = cron(server.url, tmp_path, capsys)
        assert (code, out) == (1, "")
    code, out, error = cron(server.url, tmp_path, capsys)
    assert (code, out) == (3, "")
    assert "cannot be read: Connection refused" in error.splitlines()[-1]


def test_once_on_files_for_cron_judges_what_is_there_and_nothing_twice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a receiver; 100 windows are more than the journal or the list of what was judged holds."""
    folder, report = tmp_path / "in", tmp_path / "report.json"
    folder.mkdir()
    for number in range(100):
        write(folder / f"{number:03}.jsonl", windows(window_id=WINDOW + number, reason="periodic"))
    options = ["localize", "--files", str(folder), "--state", str(tmp_path / "state"), "--metrics", "127.0.0.1:0"]
    once = [*options, "--once", "--timeout", "0", "--json", str(report)]
    assert main.main(once) == 0
    first = capsys.readouterr()
    assert f"waiting for patterns in {folder} (pattern files)" in first.err
    assert json.loads(report.read_text())["window_id"] == WINDOW + 99
    assert main.main(once) == 0
    assert capsys.readouterr().out == ""
    write(folder / "100.jsonl", windows([2], window_id=WINDOW + 100))
    assert main.main([*options, "--once", "--json", str(report)]) == 1
    (finding,) = json.loads(report.read_text())["findings"]
    assert finding["ranks"] == [2]


def test_once_for_cron_with_nothing_to_judge_is_3(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with backend() as server:
        code, out, error = cron(server.url, tmp_path, capsys)
    assert (code, out) == (3, "")
    assert f"no verdict came, 0 workers are in {server.url}" in error.splitlines()[-1]


def wait_for(service: Service, name: str, value: float) -> None:
    """Scrape until a series has a value; the process ends the wait when it dies."""
    while not any(float(line.rpartition(" ")[2]) == value for line in service.series(name + "{")):
        assert service.process.poll() is None


def test_a_taken_port_is_one_line_that_says_what_to_do(
    start: Start, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    service = start()
    taken = service.otlp.removeprefix("http://")
    assert main.main(["localize", "--listen", taken, "--state", str(tmp_path / "other")]) == 3
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert f"(pid {service.process.pid})" in error
    assert "--listen HOST:PORT" in error


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--listen", "nonsense"], "HOST:PORT"),
        (["--metrics", "localhost:99999"], "HOST:PORT"),
        (["--listen", "0.0.0.0:4318"], "--tls-certificate"),
        (["--token-file", "/nowhere"], "--token-file /nowhere: No such file or directory; give a file"),
        (["--report", "/dev/null/x"], "--report"),
        (["--json", "/nowhere/x.json"], "--json"),
        (["--timeout", "0"], "--timeout 0 does not wait, which is for --once"),
        (["--timeout", "-1"], "'-1' is no number of seconds"),
        (["--timeout", "abc"], "'abc' is no number of seconds"),
        (["--timeout", "nan"], "'nan' is no number of seconds"),
        (["--listen", "nohost.invalid:4318"], "--listen nohost.invalid:4318: the host 'nohost.invalid' is not known"),
        (["--metrics", "nohost.invalid:1"], "--metrics nohost.invalid:1: the host 'nohost.invalid' is not known"),
        (["--metrics", "a:b:c:1"], "--metrics a:b:c:1"),
        (["--listen", f"{'x' * 70}.invalid:1"], "is not known"),
        (["--listen", "192.0.2.1:4318"], "--listen 192.0.2.1:4318 is no address of this machine"),
        (["--tls-certificate", "/nowhere"], "--tls-certificate /nowhere cannot be loaded: there is no such file"),
        (["--tls-certificate", __file__], "without a key"),
        (["--tls-key", "/nowhere"], "give --tls-certificate too"),
        (["--tls-certificate", __file__, "--tls-key", "/gone"], "--tls-key /gone cannot be loaded: there is no such"),
        (["--tls-certificate", __file__, "--tls-key", __file__], "the key that belongs to it"),
    ],
)
def test_wrong_usage_is_2_with_the_remedy(
    options: list[str], text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main(["localize", "--state", str(tmp_path), *options]) == 2
    assert text in capsys.readouterr().err


def test_an_empty_token_file_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "token").write_text("\n")
    assert main.main(["localize", "--state", str(tmp_path), "--token-file", str(tmp_path / "token")]) == 2
    assert "is empty" in capsys.readouterr().err


def test_help_says_how_to_start(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["localize", "--help"]) == 0
    out = capsys.readouterr().out
    assert localize.HELP.splitlines()[0] in out
    assert "OTEL_EXPORTER_OTLP_ENDPOINT" in out
