from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

import pytest

from eroica_otel.commands import report as command
from eroica_otel.errors import ConfigError, EroicaError
from eroica_otel.publish.report import html
from eroica_otel.publish.report.json import parse, render
from factories_report import finding, quiet, report


def call(*words: str | Path) -> int:
    parser = argparse.ArgumentParser()
    command.configure(parser)
    return command.run(parser.parse_args([str(word) for word in words]))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "report.json"
    path.write_text(render(report()), encoding="utf-8")
    return path


def test_a_finding_is_printed_and_is_exit_code_1(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(file) == 1
    printed = capsys.readouterr().out
    assert "CULPRIT   rank 2 on node-c" in printed
    assert f"eroica-otel report {file} --prompt" in " ".join(printed.split())
    assert "\x1b" not in printed


@pytest.mark.parametrize("verdict", [quiet(), quiet(findings=(finding(severity="info"),))])
def test_nothing_above_info_is_exit_code_0(verdict: object, tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    path.write_text(render(verdict), encoding="utf-8")  # type: ignore[arg-type]
    assert call(path) == 0


def test_the_other_forms_are_written(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page, copy, question = tmp_path / "new" / "r.html", tmp_path / "copy.json", tmp_path / "question.json"
    assert call(file, "--html", page, "--json", copy, "--prompt-json", question) == 1
    original = parse(file.read_text(encoding="utf-8"))
    assert page.read_text(encoding="utf-8") == html.render(original)
    assert copy.read_text(encoding="utf-8") == file.read_text(encoding="utf-8")
    assert json.loads(question.read_text(encoding="utf-8"))["schema"] == 1
    assert f"report: {page}" in " ".join(capsys.readouterr().out.split())  # a long path has a line of its own
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy.json", "new", "question.json", "report.json"]


def test_the_prompt_takes_the_place_of_the_table(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "train.py").write_text("\n" * 40 + "def augment():\n    return 'seen'\n")
    assert call(file, "--prompt", "--source", tmp_path) == 1
    printed = capsys.readouterr().out
    assert "CULPRIT" not in printed
    assert "   42      return 'seen'" in printed


def test_a_form_whose_file_is_a_dash_is_printed_and_nothing_else(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    before = set(tmp_path.iterdir())
    assert call(file, "--json", "-", "--html", "page.html", "--prompt") == 1
    assert capsys.readouterr().out == file.read_text(encoding="utf-8")
    assert set(tmp_path.iterdir()) - before == {tmp_path / "page.html"}


def test_without_a_standard_output_the_files_are_written(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout", None)  # as by >&- in a shell
    assert call(file, "--json", tmp_path / "again.json") == 1
    assert (tmp_path / "again.json").read_text(encoding="utf-8") == file.read_text(encoding="utf-8")


def test_the_default_is_the_report_of_the_demo(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match="give the path"):
        call()


@pytest.mark.parametrize("content", [b"", b"{}", b"\xff", b'{"schema": 7}'])
def test_a_malformed_file_is_wrong_usage_in_one_line(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    path.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        call(path)
    assert caught.value.exit_code == 2
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "give" in str(caught.value)


def test_a_folder_is_no_report(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        call(tmp_path)


def test_a_source_folder_must_exist(file: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is no folder"):
        call(file, "--prompt", "--source", tmp_path / "absent")


def test_a_place_that_cannot_be_written_is_a_failure_that_leaves_nothing(file: Path, tmp_path: Path) -> None:
    target = tmp_path / "taken"
    target.mkdir()
    (target / "inside").touch()
    with pytest.raises(EroicaError, match="cannot be written") as caught:
        call(file, "--html", target)
    assert caught.value.exit_code == 3
    assert sorted(os.listdir(tmp_path)) == ["report.json", "taken"]


def test_colour_needs_a_terminal(
    file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    call(file)
    assert "\x1b[" in capsys.readouterr().out
    monkeypatch.setenv("NO_COLOR", "1")
    call(file)
    assert "\x1b" not in capsys.readouterr().out
