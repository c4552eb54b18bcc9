"""The benchmark of what reading costs a training, tiny: that its spans hold what went on in them."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

import pytest

from bench.reading_cost import iteration_seconds

BENCH = Path(__file__).parents[2] / "bench"


def test_only_the_iterations_of_a_span_count() -> None:
    assert iteration_seconds([0.0, 10.0, 11.0, 13.0, 50.0], (9.0, 20.0)) == pytest.approx(1.5)  # 10 to 13, two of them
    assert math.isnan(iteration_seconds([0.0, 10.0], (9.0, 20.0)))


def test_a_row_for_each_way_to_read() -> None:
    options = ("--events", "2000", "--rounds", "1", "--trainings", "1", "--seconds", "0.5")
    done = subprocess.run([sys.executable, str(BENCH / "reading_cost.py"), *options], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    rows = [line.split(" | ") for line in done.stdout.splitlines()[-3:]]
    assert [row[0] for row in rows] == ["| nothing", "| one process", "| two processes"]
    assert rows[0][2] == "0.00"
    assert float(rows[1][2]) > 0
