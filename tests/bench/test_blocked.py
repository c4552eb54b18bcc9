"""The benchmark of how long training stands still, tiny: that it measures our own window and adds up."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

SCRIPT = str(Path(__file__).parents[2] / "bench" / "blocked.py")


def _printed(*options: str) -> list[str]:
    done = subprocess.run([sys.executable, SCRIPT, *options], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_the_parts_add_up_to_what_training_stood_still() -> None:
    figures: dict[str, Any] = json.loads(_printed("--one", "3000")[-1])
    assert 2000 < figures["events"] < 4500  # whole iterations of some hundred events, by a probe of two
    assert figures["stop"] > 0
    assert figures["save"] > 0
    assert figures["rest"] > 0
    assert abs(figures["stop"] + figures["save"] + figures["rest"] - figures["still"]) < 1e-6
    assert 100 < figures["bytes"] < 1000


def test_torch_alone_records_the_nodes_of_the_backward_pass_that_ours_leaves_out() -> None:
    ours: dict[str, Any] = json.loads(_printed("--one", "3000")[-1])
    alone: dict[str, Any] = json.loads(_printed("--alone", str(ours["iterations"]))[-1])
    assert 1.0 < alone["events"] / ours["events"] < 1.2
    assert 0 < alone["cpu"] <= alone["still"]


def test_a_row_for_busy_cores_has_a_cell_under_each_heading() -> None:
    head, line, busy = _printed("--events", "2000", "--rounds", "1", "--cores", "busy")
    assert busy.startswith("| busy | ")
    assert head.count("|") == line.count("|") == busy.count("|")
