"""The command line: help, dispatch, and how each way to fail ends."""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from types import ModuleType

import pytest

import eroica_otel
from eroica_otel.commands.main import COMMANDS, main
from eroica_otel.errors import ConfigError, DeliveryError


@pytest.fixture
def report_does(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], int]], None]:
    """Give a function that lets the command ``report`` do something else."""

    def replace(action: Callable[[], int]) -> None:
        module = ModuleType("eroica_otel.commands.report")
        module.__dict__.update(HELP="Test.", configure=lambda parser: None, run=lambda arguments: action())
        monkeypatch.setitem(sys.modules, module.__name__, module)

    return replace


def raises(error: BaseException) -> Callable[[], int]:
    def action() -> int:
        raise error

    return action


def test_help_fits_one_screen_and_starts_with_what_a_person_wants(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    shown = re.findall(r"eroica-otel (run|window|set|disable|localize|report|unredact|demo)", "\n".join(lines))
    assert shown == ["run", "window", "set", "disable", "localize", "report", "unredact", "demo"]
    assert next(line for line in lines if "eroica-otel run" in line).startswith("  watch a training")


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"eroica-otel {eroica_otel.__version__}\n"


def test_no_command_is_wrong_usage_and_shows_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert "find the slow worker" in output.err


@pytest.mark.parametrize(
    ("word", "hint"),
    [("localise", "did you mean localize?"), ("xyz", f"there are {', '.join(COMMANDS)}")],
)
def test_an_unknown_command_names_the_right_ones(word: str, hint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([word]) == 2
    assert capsys.readouterr().err.splitlines()[-1] == f"eroica-otel: error: there is no command {word!r}; {hint}"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_keeps_the_contract_and_has_a_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    module = import_module(f"eroica_otel.commands.{name}")
    module.configure(argparse.ArgumentParser())
    assert callable(module.run)
    assert main([name, "--help"]) == 0
    text = capsys.readouterr().out
    assert text.startswith(f"usage: eroica-otel {name}")
    assert module.HELP.strip()
    assert "exit codes: 0" in text or "exit codes: those of the command" in text


@pytest.mark.parametrize("code", [0, 1, 2, 3])
def test_the_command_decides_the_exit_code(code: int, report_does: Callable[[Callable[[], int]], None]) -> None:
    report_does(lambda: code)
    assert main(["report"]) == code


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (ConfigError("the port 'x' is no number; give 1 to 65535"), 2, "the port 'x' is no number; give 1 to 65535"),
        (DeliveryError("port 4318 is taken;\n  use --listen"), 3, "port 4318 is taken; use --listen"),
        (PermissionError(13, "Permission denied", "/x"), 3, "[Errno 13] Permission denied: '/x'"),
    ],
)
def test_an_error_is_one_line_on_stderr(
    error: Exception,
    code: int,
    line: str,
    report_does: Callable[[Callable[[], int]], None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    report_does(raises(error))
    assert main(["report"]) == code
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err == f"eroica-otel: {line}\n"


@pytest.mark.parametrize("argv", [["--debug", "report"], ["report", "--debug"]])
def test_debug_shows_where_an_error_comes_from(
    argv: list[str], report_does: Callable[[Callable[[], int]], None], capsys: pytest.CaptureFixture[str]
) -> None:
    report_does(raises(ConfigError("a; b")))
    assert main(argv) == 2
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert lines[-1] == "eroica-otel: a; b"


def test_a_crash_is_a_failure_and_never_the_code_of_a_finding(
    report_does: Callable[[Callable[[], int]], None], caplog: pytest.LogCaptureFixture
) -> None:
    report_does(raises(ZeroDivisionError("bug")))
    assert main(["report"]) == 3
    assert [record.exc_info is not None for record in caplog.records] == [True]


def test_an_interrupt_ends_with_130(
    report_does: Callable[[Callable[[], int]], None], capsys: pytest.CaptureFixture[str]
) -> None:
    report_does(raises(KeyboardInterrupt()))
    assert main(["report"]) == 130
    assert capsys.readouterr().err == "\neroica-otel: interrupted\n"


@pytest.mark.parametrize("option", ["--help", "--version"])
def test_a_reader_that_went_away_is_not_complained_about(option: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "eroica_otel.commands.main", option],
        stdout=writer,
        stderr=subprocess.PIPE,
        env=os.environ | {"PYTHONUNBUFFERED": ""},  # else argparse itself meets the closed pipe, and says nothing
        check=False,
        text=True,
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, "")
