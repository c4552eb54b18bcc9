"""The house rules that tools check: that they hold, and that the tools would say so if they did not."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent

WATCHED = """
import json, sys, threading
seen = []
WATCH = ("socket.", "subprocess.Popen", "os.fork", "os.posix_spawn", "os.exec")
ALLOWED = ("socket.gethostname",)
sys.addaudithook(lambda event, args: seen.append(event) if event.startswith(WATCH) and event not in ALLOWED else None)
{statement}
seen += [thread.name for thread in threading.enumerate() if thread is not threading.main_thread()]
heavy = {{"torch", "grpc", "grafana_client", "opentelemetry.sdk", "eroica_hardware"}}
print(json.dumps([seen, sorted(heavy & set(sys.modules))]))
"""


def watched(statement: str, **variables: str) -> tuple[list[str], list[str]]:
    """Run ``statement`` in a Python of its own; return what it opened or started, and the heavy modules it imported."""
    keep = {name: value for name, value in os.environ.items() if not name.startswith(("EROICA_", "OTEL_", "RANK"))}
    done = subprocess.run(
        [sys.executable, "-c", WATCHED.format(statement=statement)],
        env=keep | variables,
        capture_output=True,
        text=True,
        check=True,
    )
    events, modules = json.loads(done.stdout)
    return events, modules


@pytest.mark.parametrize("statement", ["import eroica_otel", "import eroica_otel.auto"])
@pytest.mark.parametrize("variables", [{}, {"RANK": "0", "WORLD_SIZE": "2"}], ids=["alone", "as rank 0"])
def test_attaching_imports_nothing_heavy_and_opens_and_starts_nothing(
    statement: str, variables: dict[str, str]
) -> None:
    assert watched(statement, **variables) == ([], [])


def test_the_watch_above_sees_what_it_looks_for() -> None:
    events, modules = watched(
        "import socket, threading, subprocess, torch\n"
        "socket.socket().close(); subprocess.run(['true'])\n"
        "threading.Thread(target=threading.Event().wait, name='left', daemon=True).start()"
    )
    assert {"socket.__new__", "subprocess.Popen", "left"} <= set(events)
    assert modules == ["torch"]


@pytest.mark.parametrize("module", ["helper", "job", "commands.main"])
def test_the_helper_and_the_localizer_import_no_torch(module: str) -> None:
    assert "torch" not in watched(f"import eroica_otel.{module}")[1]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a copy of what the linters read."""
    for folder in ("eroica_otel", "exporters"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__", "_assets"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def contracts(folder: Path) -> subprocess.CompletedProcess[str]:
    """Run import-linter on a copy, which must come before the installed package on the path."""
    path = f"{folder}{os.pathsep}{folder / 'exporters'}"
    return subprocess.run(
        [BIN / "lint-imports", "--no-cache"],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_import_contracts_hold(checkout: Path) -> None:
    done = contracts(checkout)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("file", "line", "complaint"),
    [
        ("summarize/pattern.py", "import eroica_otel.localize", "eroica_otel.summarize is not allowed to import"),
        ("names.py", "import eroica_otel.detect", "eroica_otel.names is not allowed to import"),
        ("plugin.py", "import eroica_otel.helper", "eroica_otel.plugin is not allowed to import eroica_otel.helper"),
        ("job.py", "import eroica_hardware", "eroica_otel.job -> eroica_hardware"),
        ("helper.py", "import torch", "eroica_otel.helper -> torch"),
        ("unplaced.py", "", "eroica_otel.unplaced"),
    ],
)
def test_a_planted_import_breaks_the_contracts(file: str, line: str, complaint: str, checkout: Path) -> None:
    path = checkout / "eroica_otel" / file
    with path.open("a") as text:
        text.write(f"\n{line}\n")
    done = contracts(checkout)
    assert done.returncode == 1, done.stdout
    assert complaint in done.stdout


COMPLEX = (
    "def f(x: int) -> int:\n" + "".join(f"    if x == {n}:\n        x += 1\n" for n in range(10)) + "    return x\n"
)


@pytest.mark.parametrize(
    ("file", "code", "rule"),
    [
        ("job.py", "try:\n    print()\nexcept Exception:\n    pass\n", "BLE001"),
        ("job.py", COMPLEX, "C901"),
        ("job.py", "import exporters.eroica_hardware\n", "TID251"),
        ("job.py", "import tests\n", "TID251"),
        ("job.py", "print()\n", "T201"),
    ],
)
def test_ruff_refuses_what_the_house_rules_forbid(file: str, code: str, rule: str, checkout: Path) -> None:
    path = checkout / "eroica_otel" / file
    path.write_text(f"from __future__ import annotations\n\n{code}")
    done = subprocess.run(
        [BIN / "ruff", "check", "--no-cache", "--output-format", "concise", path],
        cwd=checkout,
        capture_output=True,
        text=True,
        check=False,
    )
    assert rule in done.stdout


def test_the_plugin_alone_may_catch_everything() -> None:
    allowed = [
        path.relative_to(ROOT).as_posix()
        for path in sorted(ROOT.glob("eroica_otel/**/*.py"))
        if "noqa: BLE001" in path.read_text(encoding="utf-8")
    ]
    assert allowed == []


def sources() -> list[Path]:
    return [path for folder in ("eroica_otel", "exporters") for path in sorted(ROOT.glob(f"{folder}/**/*.py"))]


def test_no_file_is_longer_than_a_reader_can_hold() -> None:
    lengths = {path.relative_to(ROOT).as_posix(): len(path.read_text("utf-8").splitlines()) for path in sources()}
    assert {path: lines for path, lines in lengths.items() if lines > 350} == {}


def test_no_function_is_longer_than_40_lines() -> None:
    long = {
        f"{path.relative_to(ROOT)}:{node.name}": node.end_lineno - node.lineno + 1
        for path in sources()
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.FunctionDef) and node.end_lineno and node.end_lineno - node.lineno >= 40
    }
    assert long == {}


def test_the_index_of_the_documentation_names_every_page() -> None:
    pages = {path.name for path in (ROOT / "docs").glob("*.md")} - {"README.md"}
    linked = re.findall(r"\]\(([\w-]+\.md)\)", (ROOT / "docs" / "README.md").read_text("utf-8"))
    assert sorted(linked) == sorted(pages)


def test_no_test_takes_sleep_from_the_other_threads_of_its_process() -> None:
    """A loop of theirs that sleeps between two looks would take a core, and memory where calls are kept."""
    patched = re.compile(r"""setattr\([^,"']*\btime, ["']sleep["']|["']time\.sleep["']""")
    found = [path.name for path in (ROOT / "tests").rglob("*.py") if patched.search(path.read_text("utf-8"))]
    assert found == []
