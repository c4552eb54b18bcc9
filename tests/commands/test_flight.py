"""``eroica-otel analyze --flight-recorder``: dumps in, the same reports and exit codes out."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

from eroica_otel.commands.main import main
from eroica_otel.publish.report import json
from flight_files import GOLDEN, STACK, dump, entry, write

WAITS = dump(entry(4, done=True), entry(5, frames=STACK))
GONE = dump(entry(4, done=True))


def analyze(folder: Path, *words: object) -> int:
    return main(["analyze", "--flight-recorder", str(folder), *map(str, words)])


@pytest.mark.parametrize(("injected", "ranks"), [("lock_gil_1st", (9, 14)), ("gpu_error_1st", (12, 14))])
def test_the_injected_ranks_stand_in_every_form_of_the_report(
    injected: str, ranks: tuple[int, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page, question, report = tmp_path / "r.html", tmp_path / "q.json", tmp_path / "r.json"
    assert analyze(GOLDEN / injected, "--html", page, "--prompt-json", question, "--json", report) == 1
    named = " and ".join(map(str, ranks))
    shown = capsys.readouterr().out
    assert f"CULPRIT   ranks {ranks[0]}, {ranks[1]} " in shown
    assert "hang_missing_rank" in shown
    (finding,) = json.parse(report.read_text()).findings
    assert finding.ranks == ranks
    assert "hang_missing_rank" in page.read_text()
    assert "hang_missing_rank" in question.read_text()
    assert f"ranks {ranks[0]}, {ranks[1]}" in page.read_text() or named in page.read_text()


def test_no_finding_and_a_dump_that_could_not_be_used(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, [GONE, GONE])
    assert analyze(tmp_path, "--job", "llm") == 0
    assert capsys.readouterr().out.startswith("job llm ")
    (tmp_path / "nccl_trace_rank_2").write_bytes(pickle.dumps(GONE, 2)[:-9])
    assert analyze(tmp_path) == 3
    shown = capsys.readouterr()
    assert "nccl_trace_rank_2: cut short after" in shown.err
    assert "left out: " in " ".join(shown.out.split())


@pytest.mark.parametrize(
    ("words", "beside"),
    [(["trace.json"], "trace.json"), (["--compare", "a", "b"], "--compare"), (["--push"], "--push"),
     (["--otlp", "http://h"], "--otlp"), (["--remote-write", "http://h"], "--remote-write")],
)  # fmt: skip
def test_what_is_about_traces_stands_not_beside_dumps(
    words: list[str], beside: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert analyze(tmp_path, *words) == 2
    assert f"{beside} stands beside --flight-recorder" in capsys.readouterr().err


def test_an_empty_folder_is_wrong_usage_and_broken_dumps_are_a_failure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert analyze(tmp_path) == 2
    assert "holds no dump" in capsys.readouterr().err
    (tmp_path / "rank_0").write_bytes(b"")
    assert analyze(tmp_path) == 3
    assert "rank_0 is empty" in capsys.readouterr().err


def test_names_of_the_training_are_redacted_as_a_worker_would(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("EROICA_REDACT", "names")
    monkeypatch.setenv("EROICA_DIR", str(tmp_path / "state"))
    secret: dict[str, Any] = {"process_group": ("7", "secret_moe")}
    config = {"7": {"name": "7", "desc": "secret_moe", "ranks": "[0, 1, 2]"}}
    behind = dump(entry(4, done=True, **secret), pg_config=config)
    waits = dump(entry(4, done=True, **secret), entry(5, frames=STACK, **secret), pg_config=config)
    report = tmp_path / "r.json"
    assert analyze(write(tmp_path / "folder", [waits, behind, waits]), "--json", report) == 1
    (finding,) = json.parse(report.read_text()).findings
    assert finding.ranks == (1,)
    assert "number 5, all_reduce" in report.read_text()
    for told in (report.read_text(), capsys.readouterr().out):
        assert not any(name in told for name in ("secret_moe", "step", "train.py", "folder"))


def test_the_help_names_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["analyze", "--help"]) == 0
    assert "--flight-recorder DIR" in capsys.readouterr().out
