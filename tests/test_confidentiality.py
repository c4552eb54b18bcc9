"""Everything that leaves a worker, by every delivery, searched for marked names of the training's code."""

from __future__ import annotations

import json
import os
import time
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from urllib.request import urlopen

import numpy as np
import pytest

from eroica_otel import names
from eroica_otel.config import WorkerConfig
from eroica_otel.demo.stage import free_port
from eroica_otel.export.outlet import Outlet
from eroica_otel.export.redact import TOKEN
from eroica_otel.export.secret import NAMES_FILE, read_names
from eroica_otel.helper import Helper
from eroica_otel.model import Window
from eroica_otel.profile import samples
from eroica_otel.spawn import CONFIG_FILE
from eroica_otel.status import STATUS_FILE, StatusWriter
from factories_summarize import Row, write_kineto
from factories_worker import Endpoint, capture, status
from remote_write import WriteServer, decompressed

WINDOW = 1_764_430_000
SOURCE = """\
def mark_inner():
    mark_secret = 'mark_constant'
    return mark_secret


class MarkModel:
    def mark_forward(self):
        return mark_inner()
"""
MARK_PATHS = ("mark_project", "mark_train", "mark_pkg")
MARK_NAMES = ("mark_inner", "MarkModel", "mark_forward", "mark_op", "mark_kernel", "mark_group", "mark_category")
MARK_SOURCE = ("mark_constant", "mark_secret")


class Worker:
    """A helper with all deliveries at once, in this process, and what they delivered."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
        for name in [name for name in os.environ if name.startswith(("OTEL_", "EROICA_"))]:
            monkeypatch.delenv(name)
        self._otlp, self._written, self._port = Endpoint(), WriteServer(), free_port()
        for name, text in {
            "OTEL_METRICS_EXPORTER": "otlp,prometheus,remote_write",
            "OTEL_EXPORTER_OTLP_ENDPOINT": self._otlp.url,
            "OTEL_EXPORTER_PROMETHEUS_HOST": "127.0.0.1",
            "OTEL_EXPORTER_PROMETHEUS_PORT": str(self._port),
        }.items():
            monkeypatch.setenv(name, text)
        self.directory = folder / "workers"
        self.folder = self.directory / "7"
        self.folder.mkdir(parents=True)
        config = WorkerConfig.from_env({}, directory=str(self.directory), redact=mode,
                                       remote_write_url=self._written.url)  # fmt: skip
        (self.folder / CONFIG_FILE).write_text(json.dumps(asdict(config)))
        self._writer = StatusWriter(self.folder / STATUS_FILE)
        self.project = folder / "mark_project" / "mark_train.py"
        self.project.parent.mkdir()
        self.project.write_text(SOURCE)
        self.helper = Helper(self.folder, dict(os.environ))
        self._pages = b""

    def stand(self, state: str = "healthy") -> None:
        given = status(pid=os.getpid(), state=state, thread=1, collectives={"mark_group": 7, "0": 3}, windows={},
                       groups=(("mark_group", 4, "abcd1234"),))  # fmt: skip
        self._writer.write(given, [(0.1, 0.2)])
        self.helper.tick()

    def capture(self, reason: str) -> None:
        """Hand a window over in which every kind of name of the training's code occurs."""
        folder = self.folder / f"window-{WINDOW}"
        folder.mkdir()
        rows = [
            Row("mark_op::fused", 10**18, 10**18 + 10**8),
            Row("aten::mm", 10**18 + 10**8, 10**18 + 2 * 10**8),
            Row("gloo:all_reduce", 10**18 + 2 * 10**8, 10**18 + 5 * 10**8, "user_annotation", 8),
            Row("mark_kernel_symm_mem_all_reduce", 10**18 + 5 * 10**8, 10**18 + 6 * 10**8, "user_annotation", 9),
            Row("range", 10**18, 10**18 + 10**8, "mark_category", 10),
        ]
        trace = write_kineto(folder / "trace.json", rows) if reason != "blocked" else ""
        given = capture(
            window=Window(WINDOW, reason, 10, 12),
            trace=trace,
            frames=(
                ("__main__", "<module>", str(self.project), 1),
                ("mark_pkg.mark_train", "MarkModel.mark_forward", str(self.project), 7),
                ("torch.serialization", "save", "/x/site-packages/torch/serialization.py", 900),
                ("torch.autograd.graph", "_engine_run_backward", "/x/site-packages/torch/autograd/graph.py", 800),
            ),
            stacks=((0, 1), (0, 1, 2), (0, 3)),
            # From 0.2 to 0.7 s the thread waits, so that the collectives are what is charged.
            stack_ids=np.array([2 if 20 <= place < 70 else place % 2 for place in range(100)], np.int32),
            progress={"mark_group": (7, 6)},
        )
        samples.write(folder, given)
        self.helper.tick()
        self.keep()

    def freeze(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Let the heartbeat stand still until the helper makes a blocked window itself."""
        raw = [(str(self.project), "<module>", 6), (str(self.project), "mark_forward", 8),
               (str(self.project), "mark_inner", 3)]  # fmt: skip
        monkeypatch.setattr("eroica_otel.outside.frozen.spy", lambda pid, thread: raw)
        now = time.perf_counter_ns
        with monkeypatch.context() as patch:
            for later in (30, 60, 90):
                patch.setattr(time, "perf_counter_ns", lambda later=later: now() + later * 10**9)
                self.helper.tick()
        self.keep()

    def keep(self) -> None:
        """Fetch the page, and have both that push deliver what there is."""
        with urlopen(f"http://127.0.0.1:{self._port}/metrics", timeout=10) as answer:
            self._pages += answer.read()
        outlet = self.helper._outlet
        assert isinstance(outlet, Outlet)
        for delivery in outlet._deliveries:
            delivery.push()

    def left(self) -> dict[str, bytes]:
        """Return all bytes by delivery."""
        return {
            "otlp": b"".join(self._otlp.bodies),
            "prometheus": self._pages,
            "remote_write": b"".join(map(decompressed, self._written.bodies)),
        }

    def close(self) -> None:
        self.helper.close(at_once=True)
        self._otlp.close()
        self._written.close()


def everything(folder: Path, monkeypatch: pytest.MonkeyPatch, mode: str) -> tuple[dict[str, bytes], dict[str, str]]:
    """Return what leaves a worker in all its states, by delivery, and the names that stayed with it."""
    with closing(Worker(folder, monkeypatch, mode)) as worker:
        worker.stand()
        worker.keep()
        worker.capture("reference")
        worker.stand("blocked")
        worker.capture("blocked")
        worker.freeze(monkeypatch)
        return worker.left(), dict(read_names(worker.directory / NAMES_FILE))


def _marks(data: bytes, words: tuple[str, ...]) -> list[str]:
    return [word for word in words if word.lower().encode() in data.lower()]


def test_in_the_clear_every_delivery_carries_them_so_this_test_looks_where_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left, kept = everything(tmp_path, monkeypatch, "none")
    for delivery, data in left.items():
        assert _marks(data, MARK_NAMES) == list(MARK_NAMES), delivery
        assert _marks(data, ("mark_train", "mark_pkg")) == ["mark_train", "mark_pkg"], delivery
        assert _marks(data, MARK_SOURCE) == [], delivery
    assert kept == {}


def test_names_leaves_none_of_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left, kept = everything(tmp_path, monkeypatch, "names")
    for delivery, data in left.items():
        assert b"mark" not in data.lower(), delivery
        assert TOKEN.search(data.decode(errors="replace")), delivery
        for public in ("aten::mm", "gloo:all_reduce", "torch.serialization:save", "blocked"):
            assert public.encode() in data, (delivery, public)
    shown = {found for data in left.values() for found in TOKEN.findall(data.decode(errors="replace"))}
    assert shown <= kept.keys()
    assert {
        "mark_train", "mark_pkg.mark_train", "MarkModel.mark_forward", "mark_inner", "mark_op::fused", "mark_group",
        "mark_kernel_symm_mem_all_reduce",
    } - set(kept.values()) <= {"mark_train"}  # fmt: skip


def test_paths_leaves_functions_and_no_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left, _ = everything(tmp_path, monkeypatch, "paths")
    for delivery, data in left.items():
        assert _marks(data, (*MARK_PATHS, *MARK_SOURCE, str(tmp_path))) == [], delivery
        assert _marks(data, MARK_NAMES) == list(MARK_NAMES), delivery


def test_failures_of_the_redaction_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(Worker(tmp_path, monkeypatch, "names")) as worker:
        (worker.directory / "redact.key").mkdir()
        worker.stand()
        worker.capture("manual")
        left = worker.left()
        worker.keep()
    assert b"mark" not in left["prometheus"].lower()
    page = left["prometheus"].decode()
    (counted,) = {line for line in page.splitlines() if names.FAILURES.name in line and 'stage="redact"' in line}
    assert counted.endswith(" 1.0")
