"""The same workers through every source: OTLP to the receiver, scraped or remote-written into real servers and read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from eroica_otel.job import Localizer
from eroica_otel.joboptions import JobOptions
from eroica_otel.localize.verdict import judge
from eroica_otel.model import Report, WorkerWindow
from eroica_otel.publish.report import json as report_json
from eroica_otel.query.client import Backend
from exporting import ExportingWorker, exporting
from factories_central import LOOPBACK, WINDOW, windows
from jobs import wait_until
from servers import prometheus, victoria_metrics


class Judging:
    """A localizer that makes its rounds while the test waits."""

    def __init__(self, stack: ExitStack, folder: Path, backend: str = "") -> None:
        self.verdicts: list[Report] = []
        self.lines: list[str] = []
        read = Backend(backend, interval_seconds=0.5) if backend else None
        options = JobOptions(None if backend else LOOPBACK, LOOPBACK, str(folder), backend=read)
        self.localizer = Localizer(options, judge, progress=self.lines.append, verdict=self.verdicts.append)
        stack.callback(self.localizer.close)
        self.localizer.start()

    def judged(self, count: int) -> bool:
        self.localizer.round()
        return len(self.verdicts) >= count

    def comparable(self) -> list[Any]:
        """Return the verdicts as JSON, without what depends on when they were given."""
        timeless = [replace(one, detail=one.detail and replace(one.detail, verdict_seconds=0)) for one in self.verdicts]
        return [json.loads(report_json.render(one)) for one in timeless]


def show(workers: Sequence[ExportingWorker], given: Sequence[WorkerWindow]) -> None:
    for worker, window in zip(workers, given, strict=True):
        worker.show(window)


def _all_judged(everyone: Sequence[Judging], count: int) -> bool:
    judged = [one.judged(count) for one in everyone]  # each makes its round
    return all(judged)


def test_all_sources_give_the_same_verdicts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with ExitStack() as stack:
        written = stack.enter_context(prometheus(tmp_path / "written"))
        received = Judging(stack, tmp_path / "received")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", received.localizer.receiver.url)
        workers = stack.enter_context(exporting(4, "otlp,prometheus,remote_write", f"{written.url}/api/v1/write"))
        targets = {"training": [f"127.0.0.1:{worker.port}" for worker in workers]}
        scraped = stack.enter_context(prometheus(tmp_path / "scraped", targets))
        # As it is installed: the newest 30 s are hidden from questions that do not know better.
        usual = ["-search.latencyOffset=30s"]
        victoria = stack.enter_context(victoria_metrics(tmp_path / "victoria", targets, options=usual))
        readers = [Judging(stack, tmp_path / f"state-{one.port}", one.url) for one in (scraped, victoria, written)]
        everyone = [received, *readers]
        for count, (reason, slow) in enumerate([("reference", ()), ("degraded", (2,))], start=1):
            show(workers, windows(slow, window_id=WINDOW + 60 * count, reason=reason))
            wait_until(partial(_all_judged, everyone, count), f"window {count} to be judged")
        assert [(one.reason, one.workers_seen) for one in received.verdicts] == [("reference", 4), ("degraded", 4)]
        assert [one.ranks for one in received.verdicts[1].findings if one.severity != "info"] == [(2,)]
        for reader in readers:
            assert reader.comparable() == received.comparable(), reader.lines
            assert reader.localizer.sources.failures() == 0, reader.lines
