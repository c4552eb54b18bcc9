"""What a fault needs and a machine lacks is said before anything starts: tools, rights, namespaces."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from eroica_otel.commands.main import main
from eroica_otel.demo import nodes


@pytest.fixture
def as_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)


def tools(folder: Path, **scripts: str) -> str:
    """Make programs of these names, which do what their scripts say; return the PATH that has them alone."""
    for name, script in scripts.items():
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)
    return str(folder)


def test_an_ordinary_user_is_told_of_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert nodes.missing() == "root, to make network namespaces"


@pytest.mark.usefixtures("as_root")
def test_without_any_tool_all_are_named_with_their_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert nodes.missing() == "ip and tc and unshare (Debian: apt-get install iproute2 util-linux)"
    monkeypatch.setenv("PATH", tools(tmp_path, ip="exit 0", unshare="exit 0"))
    assert nodes.missing() == "tc (Debian: apt-get install iproute2 util-linux)"


@pytest.mark.usefixtures("as_root")
def test_a_container_that_may_not_make_namespaces_is_told_the_kernels_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusing = "echo 'mount --make-shared /run/netns failed: Operation not permitted' >&2; exit 1"
    monkeypatch.setenv("PATH", tools(tmp_path, ip=refusing, tc="exit 0", unshare="exit 0"))
    assert nodes.missing() == "network namespaces (mount --make-shared /run/netns failed: Operation not permitted)"


@pytest.mark.usefixtures("as_root")
def test_where_nothing_is_missing_nothing_is_said_and_the_trial_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", tools(tmp_path, ip=f'echo "$*" >> {tmp_path}/asked', tc="exit 0", unshare="exit 0"))
    assert nodes.missing() == ""
    added, removed = (tmp_path / "asked").read_text().splitlines()
    assert added.startswith("netns add er")
    assert removed == added.replace(" add ", " del ")


def test_the_demo_refuses_in_one_sentence_and_leaves_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert main(["demo", "--fault", "network", "--out", str(tmp_path / "out")]) == 2
    said = capsys.readouterr().err
    assert "--fault network needs root, to make network namespaces; --fault python works everywhere" in said
    assert not (tmp_path / "out").exists()


def test_without_iproute2_the_command_itself_says_so(tmp_path: Path) -> None:
    """A real process: as root it lacks the tools, as anybody else root."""
    command = [sys.executable, "-m", "eroica_otel.commands.main", "demo", "--fault", "network"]
    done = subprocess.run(
        [*command, "--out", str(tmp_path / "out")],
        env={"PATH": str(tmp_path)}, check=False, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 2
    assert "--fault network needs " in done.stderr
    assert "unshare (Debian: apt-get install iproute2 util-linux)" in done.stderr or "root, to make" in done.stderr
