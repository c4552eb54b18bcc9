"""``eroica-otel run``: the environment it makes, and what a Python under it does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from eroica_otel.commands.main import main
from eroica_otel.commands.run import STARTUP, environment


def test_our_startup_folder_comes_first_and_the_rest_of_the_path_stays() -> None:
    made = environment({"PYTHONPATH": f"/a{os.pathsep}/b", "X": "1"})
    assert made["PYTHONPATH"] == os.pathsep.join([str(STARTUP), "/a", "/b"])
    assert made["X"] == "1"
    assert environment({})["PYTHONPATH"] == str(STARTUP)
    assert (STARTUP / "sitecustomize.py").is_file()


def test_options_become_variables_and_what_is_not_given_changes_nothing() -> None:
    made = environment({"EROICA_TRAINING_JOB": "old"}, "mine", "http://x:4318")
    assert made["EROICA_TRAINING_JOB"] == "mine"
    assert made["OTEL_EXPORTER_OTLP_ENDPOINT"] == "http://x:4318"
    assert environment({"EROICA_TRAINING_JOB": "old"})["EROICA_TRAINING_JOB"] == "old"
    assert "OTEL_EXPORTER_OTLP_ENDPOINT" not in environment({})


@pytest.mark.parametrize("words", [["run"], ["run", "--"]])
def test_without_a_command_there_is_an_example(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    assert "nothing to run: give the command after --, as in eroica-otel run -- python" in capsys.readouterr().err


def test_a_command_that_is_not_there_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--", "no-such-program", "x"]) == 2
    assert "'no-such-program' cannot be started: it is not on PATH, or not executable" in capsys.readouterr().err


def run(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("EROICA_", "OTEL_"))}
    kept["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    return subprocess.run(
        [sys.executable, "-m", "eroica_otel.commands.main", "run", *words],
        env=kept | variables, capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("code", [0, 1, 7])
def test_output_and_exit_code_are_those_of_the_command(code: int) -> None:
    done = run("--", "sh", "-c", f"echo out; echo err >&2; exit {code}")
    assert (done.returncode, done.stdout, done.stderr) == (code, "out\n", "err\n")


def test_a_signal_reaches_the_command_because_it_takes_the_place_of_the_process() -> None:
    done = run("--", "sh", "-c", "kill -TERM $$")
    assert done.returncode == -15


def test_a_python_under_it_is_attached_and_so_are_the_ones_that_it_starts() -> None:
    look = "import sys; print('eroica_otel.auto' in sys.modules, 'torch' in sys.modules, flush=True)"
    nested = f"{look}; import subprocess; subprocess.run([sys.executable, '-c', {look!r}])"
    done = run("--job", "mine", "--", sys.executable, "-c", nested)
    assert done.stdout == "True False\nTrue False\n", done.stderr


def test_the_kill_switch_works_under_it_too() -> None:
    look = "import eroica_otel.auto as auto; print(auto.HANDLE._hooks)"
    done = run("--", sys.executable, "-c", look, EROICA_DISABLED="1")
    assert done.stdout == "None\n", done.stderr


def test_the_sitecustomize_of_the_environment_still_runs_once(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.theirs = getattr(sys, 'theirs', 0) + 1\n")
    path = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
    look = "import sitecustomize, sys; print(sys.theirs, sitecustomize.__file__, 'eroica_otel.auto' in sys.modules)"
    done = run("--", sys.executable, "-c", look, PYTHONPATH=path)
    assert done.stdout == f"1 {tmp_path}/sitecustomize.py True\n", done.stderr


def test_an_error_in_their_sitecustomize_is_shown_as_ever_and_the_command_runs(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import no_such_module\n")
    path = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
    done = run("--", sys.executable, "-c", "print('runs')", PYTHONPATH=path)
    assert done.stdout == "runs\n"
    assert "no_such_module" in done.stderr


def test_a_python_that_lacks_the_package_says_so_and_runs() -> None:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("EROICA_")}
    kept["PYTHONPATH"] = str(STARTUP)
    done = subprocess.run(
        [sys.executable, "-S", "-c", "import sitecustomize; print('runs')"],
        env=kept, capture_output=True, text=True, check=False, cwd="/",
    )  # fmt: skip
    assert done.stdout == "runs\n"
    assert "eroica_otel: not attached: " in done.stderr
    assert "install it there too" in done.stderr
