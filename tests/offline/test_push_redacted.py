"""All bytes that --push sends with EROICA_REDACT, searched for marked names of the training's code."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from eroica_otel.commands.main import main
from eroica_otel.errors import ConfigError
from eroica_otel.export.redact import TOKEN
from eroica_otel.export.secret import NAMES_FILE, read_names
from eroica_otel.offline.push import destination
from eroica_otel.profile import samples
from factories_summarize import capture
from factories_worker import Endpoint
from remote_write import WriteServer, decompressed
from trace_files import START_US, TRAINING, event, kineto, write

SITE = "/opt/venv/lib/python3.11/site-packages"
FRAMES = (
    "/home/me/mark_project/mark_train.py(12): mark_step",
    "mark_pkg/mark_layers.py(4): mark_forward",
    "torch/nn/mark_fork.py(8): mark_fused",
    "torch/nn/modules/module.py(8): mark_patched",
    "torch/nn/modules/module.py(1775): _call_impl",
    f"{SITE}/torch/optim/adamw.py(220): _single_tensor_adamw",
    f"{SITE}/mark_company/mark_ops.py(3): mark_kernel_call",
    "/usr/lib/python3.11/queue.py(154): get",
)
"""One below the other, each for 100 us before it calls the next."""
LIBRARIES = ("torch.nn.modules.module:_call_impl:1775", "torch.optim.adamw:_single_tensor_adamw:220", "queue:get:154")
MARK_PATHS = ("mark_project", "mark_train", "mark_pkg", "mark_layers", "mark_fork", "mark_company", "mark_ops")
MARK_NAMES = ("mark_step", "mark_forward", "mark_fused", "mark_patched", "mark_gemm", "mark_group", "mark_events")


def trace() -> dict[str, Any]:
    """Return a trace in which every kind of name of the training's code occurs."""
    calls = [
        event(name, "python_function", START_US + 100 * at, 2900 - 200 * at, TRAINING,
              args={"Python id": at + 1, "Python parent id": at or None})
        for at, name in enumerate(FRAMES)
    ]  # fmt: skip
    others = [
        event("ncclDevKernel_AllReduce_Sum_f32_RING_LL", "kernel", START_US + 2950, 20,
              args={"Process Group Name": "mark_group"}),
        event("range", "mark_events", START_US + 10, 20),
    ]  # fmt: skip
    return kineto(0, 2, steps=(5,), step_us=3000, work={"mark_gemm_kernel": 50}, extra=[*calls, *others])


def two_ranks(folder: Path) -> None:
    """Write that trace, and one without stacks, which names the class that iterates."""
    write(folder / "mark_traces" / "rank0.json", trace())
    name = "enumerate(DataLoader)#MarkDataLoaderIter.__next__"
    loading = event(name, "user_annotation", START_US + 2000, 500, TRAINING)
    write(folder / "mark_traces" / "rank1.json", kineto(1, 2, steps=(5,), step_us=3000, extra=[loading]))


class Sent:
    """Everything that one call of analyze --push delivered, both ways, and what it said."""

    def __init__(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch, mode: str, *words: str, variables: Mapping[str, str] = {}
    ) -> None:
        for name in [name for name in os.environ if name.startswith(("OTEL_", "EROICA_", "SLURM_"))]:
            monkeypatch.delenv(name)
        for name, text in variables.items():
            monkeypatch.setenv(name, text)
        self.directory = folder / "workers"
        monkeypatch.setenv("EROICA_DIR", str(self.directory))
        monkeypatch.setenv("EROICA_REDACT", mode)
        monkeypatch.setenv("OTEL_EXPERIMENTAL_RESOURCE_DETECTORS", "process")
        otlp, written = Endpoint(), WriteServer()
        try:
            path = str(folder / "mark_traces")
            assert main(["analyze", path, "--otlp", otlp.url, "--remote-write", written.url, *words]) == 0
        finally:
            otlp.close()
            written.close()
        self.data = {"otlp": b"".join(otlp.bodies), "remote_write": b"".join(map(decompressed, written.bodies))}
        self.names = dict(read_names(self.directory / NAMES_FILE))


def marks(data: bytes, words: tuple[str, ...]) -> list[str]:
    return [word for word in words if word.encode() in data]


def written(folder: Path, monkeypatch: pytest.MonkeyPatch, mode: str, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Return everything that analyze writes and prints of these traces and a broken one."""
    monkeypatch.setenv("EROICA_DIR", str(folder / "workers"))
    monkeypatch.setenv("EROICA_REDACT", mode)
    (folder / "mark_traces" / "rank2.json").write_text('{"traceEvents": [')
    files = {flag: folder / f"out{flag}" for flag in ("--json", "--html", "--prompt-json")}
    words = [word for flag, file in files.items() for word in (flag, str(file))]
    assert main(["analyze", str(folder / "mark_traces"), *words]) == 3
    told = capsys.readouterr()
    return [*(file.read_text("utf-8") for file in files.values()), told.out, told.err]


def test_no_report_of_analyze_holds_them_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    two_ranks(tmp_path)
    for text in written(tmp_path, monkeypatch, "names", capsys):
        assert not re.search(r"mark_|markdata", text.lower())
        assert text
    for text in written(tmp_path, monkeypatch, "none", capsys)[:4]:
        assert "mark_" in text, "in the clear they are there, so this test looks where they are"


@pytest.mark.parametrize("mode", ["none", "names"])
def test_nor_does_the_table_of_one_worker(
    mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    two_ranks(tmp_path)
    monkeypatch.setenv("EROICA_DIR", str(tmp_path / "workers"))
    monkeypatch.setenv("EROICA_REDACT", mode)
    assert main(["patterns", str(tmp_path / "mark_traces" / "rank0.json")]) == 0
    shown = capsys.readouterr().out
    assert "ncclDevKernel_AllReduce" in shown
    assert all((name in shown) is (mode == "none") for name in ("mark_step", "mark_gemm", "mark_group", "mark_events"))
    assert ("mark_" in shown) is (mode == "none")


def test_no_folder_of_a_file_is_told_wherever_it_lies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A trace below the folder, files beside and above it that are no traces, and a folder without a trace."""
    monkeypatch.setenv("EROICA_DIR", str(tmp_path / "workers"))
    monkeypatch.setenv("EROICA_REDACT", "names")
    run, other = tmp_path / "mark_run", tmp_path / "mark_other"
    write(run / "mark_data" / "rank0.json", kineto(0, 3))
    for path, text in ((run / "notes.txt", ""), (other / "mark_logs" / "config.json", "{}"), (run / "rank2.json", "{")):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert main(["analyze", str(run), str(other), "--json", str(tmp_path / "out.json")]) == 3
    said = capsys.readouterr()
    for text in ((tmp_path / "out.json").read_text("utf-8"), said.out):
        assert "mark_run" not in text
        assert "mark_other" not in text
        assert str(tmp_path) not in text
        assert "notes.txt" in text
        assert "rank2.json" in text
    assert "mark" not in said.err


def test_in_the_clear_they_are_there_so_this_test_looks_where_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    two_ranks(tmp_path)
    for data in Sent(tmp_path, monkeypatch, "none").data.values():
        assert marks(data, MARK_NAMES) == list(MARK_NAMES)
        assert marks(data, ("mark_traces", "mark_train", "mark_ops")) == ["mark_traces", "mark_train", "mark_ops"]
        assert b"MarkDataLoaderIter" in data


def test_names_leaves_none_of_them_and_keeps_what_is_a_librarys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    two_ranks(tmp_path)
    sent = Sent(tmp_path, monkeypatch, "names")
    for data in sent.data.values():
        assert b"mark" not in data.lower()
        assert str(tmp_path).encode() not in data
        text = data.decode(errors="replace")
        for public in (*LIBRARIES, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", "training"):
            assert public in text, public
        assert set(TOKEN.findall(text)) <= sent.names.keys()
    hidden = {"mark_train", "mark_step", "mark_pkg.mark_layers", "mark_forward", "torch.nn.mark_fork", "mark_patched",
              "mark_gemm_kernel", "mark_group", "mark_events", "MarkDataLoaderIter.__next__"}  # fmt: skip
    assert hidden <= set(sent.names.values())


def test_paths_leaves_functions_and_no_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    two_ranks(tmp_path)
    for data in Sent(tmp_path, monkeypatch, "paths").data.values():
        assert marks(data, (*MARK_PATHS, "mark_traces", str(tmp_path))) == []
        assert marks(data, MARK_NAMES) == list(MARK_NAMES)


def test_a_capture_tells_its_files_as_the_worker_that_made_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same stack leaves as tests/test_confidentiality.py sees it leave a live worker."""
    frames = (
        ("mark_pkg.mark_train", "MarkModel.mark_forward", "/home/me/mark_project/mark_train.py", 7),
        ("torch.optim.adamw", "_single_tensor_adamw", f"{SITE}/torch/optim/adamw.py", 220),
    )
    folder = tmp_path / "mark_traces"
    folder.mkdir()
    samples.write(folder, capture(end=100, frames=frames, stacks=((0,), (0, 1)), samples=[(50, 0), (100, 1)],
                                  cpu=[0, 25]))  # fmt: skip
    for data in Sent(tmp_path, monkeypatch, "names", "--job", "llm-7b").data.values():
        assert b"mark" not in data.lower()
        assert b"torch.optim.adamw:_single_tensor_adamw:220" in data
        assert b"llm-7b" in data


@pytest.mark.parametrize(
    ("more", "job"),
    [({}, b"training"), ({"EROICA_TRAINING_JOB": "llm-7b"}, b"llm-7b"), ({"SLURM_JOB_NAME": "llm-7b"}, b"llm-7b")],
)
def test_a_folders_name_names_no_job(
    more: Mapping[str, str], job: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    two_ranks(tmp_path)
    sent = Sent(tmp_path, monkeypatch, "names", variables=more)
    assert all(job in data for data in sent.data.values())
    assert f"are delivered as job {job.decode()}" in capsys.readouterr().err


def test_a_value_that_is_none_is_told_and_hides_everything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    two_ranks(tmp_path)
    for data in Sent(tmp_path, monkeypatch, "name").data.values():
        assert b"mark" not in data.lower()
    assert "EROICA_REDACT='name' is not usable" in capsys.readouterr().err


def test_without_the_key_nothing_is_pushed(tmp_path: Path) -> None:
    environment = {"EROICA_REDACT": "names", "EROICA_REDACT_KEY_FILE": str(tmp_path / "none")}
    with pytest.raises(ConfigError, match="the key of the redaction cannot be read"):
        destination(environment, otlp="http://127.0.0.1:4318")
