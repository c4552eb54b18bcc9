"""That nothing of a board stays that was killed: processes, namespaces, cgroups."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from faultboard import ROOT, board
from jobs import wait_until

LEFTOVERS, CGROUPS = board("leftovers"), board("cgroups")

KILLED = """
import os, pathlib, subprocess, sys, time
from bench.faults import cgroups, leftovers
from eroica_otel.demo.nodes import nodes
folder = pathlib.Path(sys.argv[1])
watcher = leftovers.watch()
os.environ[leftovers.VARIABLE] = leftovers.mark()
with nodes(2, folder) as places:
    hidden = subprocess.Popen(["setsid", "sleep", "1000"])  # in a session of its own, with another parent in the end
    inside = places[1].start(["sleep", "1001"], {}, folder / "log")
    group = cgroups.RankGroup("killed-0", folder)
    group.add(hidden.pid)
    said = [watcher.pid, hidden.pid, places[0].namespace, group.path("cpu")]
    (folder / "part").write_text(" ".join(map(str, said)))
    os.replace(folder / "part", folder / "ready")
    time.sleep(1000)
"""


def has(command: list[str], name: str) -> bool:
    return name in subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_a_board_that_is_killed_leaves_nothing(tmp_path: Path) -> None:
    killed = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(tmp_path)], cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)}
    )
    wait_until(lambda: (tmp_path / "ready").exists() or killed.poll() is not None, "the board to stand")
    watcher, hidden, namespace, group = (tmp_path / "ready").read_text().split()
    assert {int(hidden)} < {pid for pid, _ in LEFTOVERS.marked()}
    assert has(["ip", "netns", "list"], namespace)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    wait_until(lambda: not Path(f"/proc/{watcher}").exists(), "the watcher to have removed it")
    assert not has(["ip", "netns", "list"], namespace)
    assert not has(["ip", "-o", "link", "show"], namespace.split("-")[0])
    assert not Path(group).exists()
    assert not [mark for _, mark in LEFTOVERS.marked() if mark.startswith(f"{killed.pid}-")]


def test_what_a_live_board_has_is_left_alone() -> None:
    mark = LEFTOVERS.mark()
    assert not LEFTOVERS.is_gone(mark)
    assert LEFTOVERS.is_gone(f"{os.getpid()}-1")  # the number of another process, that had it before
    alive = subprocess.Popen(["sleep", "1000"], env=os.environ | {LEFTOVERS.VARIABLE: mark})
    try:
        LEFTOVERS.sweep()
        assert alive.poll() is None
        assert (alive.pid, mark) in list(LEFTOVERS.marked())
    finally:
        alive.kill()
        alive.wait()
