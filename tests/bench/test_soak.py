"""The rules by which the soak says that something grew, and what it reads of a process; the soak itself takes long."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from loaded import module_of

BENCH = Path(__file__).parents[2] / "bench"
MIB = 1024


@pytest.fixture(scope="module")
def soak() -> ModuleType:
    return module_of(BENCH / "soak.py")


def samples(
    soak: ModuleType,
    private: Sequence[int],
    threads: Sequence[int] | None = None,
    pids: Sequence[int] | None = None,
) -> list[Any]:
    """Return one quiet sample of "helper 0" before the first window and after each, and one in each window."""
    found = []
    for number, kib in enumerate(private):
        reading = soak.Reading(
            pid=pids[number] if pids else 7,
            rss=kib + 1000,
            private=kib,
            threads=threads[number] if threads else 4,
            files=9,
        )
        inside = soak.Reading(pid=reading.pid, rss=10 * kib, private=9 * kib, threads=40, files=90)
        for quiet, one in ((False, inside), (True, reading)):
            found.append(soak.Sample(5.0 * number, number, quiet, {"helper 0": one}, {}))
    return found


def test_slope_is_that_of_the_line_and_one_outlier_does_not_turn_it(soak: ModuleType) -> None:
    assert soak.slope([100.0, 103.0, 106.0, 109.0]) == 3.0
    # Ten pairs: the six without the outlier all rise by 3, so the median is 3 whatever the other four are.
    assert soak.slope([100.0, 103.0, 9000.0, 109.0, 112.0]) == 3.0
    assert math.isnan(soak.slope([100.0]))


@pytest.mark.parametrize(
    ("kib", "flat"),
    [
        ([20 * MIB, 20 * MIB + 200, 20 * MIB + 400], True),  # 200 KiB a window are allowed
        ([20 * MIB, 20 * MIB + 201, 20 * MIB + 402], False),
        ([400 * MIB, 400 * MIB + 201, 400 * MIB + 402], False),  # of a large process too
        ([20 * MIB, 20 * MIB, 29 * MIB, 20 * MIB, 20 * MIB], True),  # one outlier is no growth
        ([20 * MIB, 39 * MIB, 38 * MIB, 37 * MIB, 36 * MIB], True),  # it rose once and falls since
        ([40 * MIB, 30 * MIB], True),
        ([40 * MIB], True),
    ],
)
def test_memory_is_flat_unless_it_grows_by_more_than_a_little_a_window(
    soak: ModuleType, kib: list[float], flat: bool
) -> None:
    assert soak.is_flat(kib) is flat


def test_growth_counts_from_the_third_window_and_only_in_quiet_time(soak: ModuleType) -> None:
    warming_up = [10 * MIB, 60 * MIB, 70 * MIB, 80 * MIB, 80 * MIB + 100, 80 * MIB + 200]
    assert soak.growth(samples(soak, warming_up)) == []
    leaking = [*warming_up, 90 * MIB, 95 * MIB]
    (said,) = soak.growth(samples(soak, leaking))
    assert said.startswith(f"helper 0: private memory grew after window 3 from {80 * MIB} to {95 * MIB} KiB")


def test_more_than_two_threads_more_are_growth(soak: ModuleType) -> None:
    level = [50 * MIB] * 5
    assert soak.growth(samples(soak, level, threads=[4, 5, 5, 6, 6])) == []
    assert soak.growth(samples(soak, level, threads=[4, 5, 6, 7, 7])) == ["helper 0: threads grew from 4 to 7"]


def test_a_process_that_was_started_again_is_no_process_that_kept_its_memory(soak: ModuleType) -> None:
    (said,) = soak.growth(samples(soak, [50 * MIB] * 5, pids=[7, 7, 7, 8, 8]))
    assert said == "helper 0 was not one process all the time (0 = none): [7, 8]"


def test_reading_of_a_process_has_its_threads_files_and_memory(soak: ModuleType) -> None:
    before = soak.read_process(os.getpid())
    held = b"x" * (64 << 20)
    with open(os.devnull), open(os.devnull):
        after = soak.read_process(os.getpid())
    assert after.files - before.files == 2
    assert after.private - before.private > 60 * MIB
    assert after.rss >= after.private
    assert after.threads >= 1
    assert len(held) == 64 << 20
    assert soak.read_process(0) is None  # no process has this number


def test_size_of_a_folder_is_that_of_all_files_below_it(soak: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "one").write_bytes(b"123")
    (tmp_path / "deep" / "two").write_bytes(b"4567")
    assert soak.folder_size(tmp_path) == (2, 7)
    assert soak.folder_size(tmp_path / "none") == (0, 0)
