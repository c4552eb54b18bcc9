"""Clean windows of noisy machines: nothing above info, whatever the seed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from eroica_otel.localize.verdict import judge
from factories_localize import Work, blocked_input, busy, noisy, noisy_gpu

SEEDS = 150


@pytest.mark.parametrize("workers", [2, 3, 4, 8])
@pytest.mark.parametrize("referenced", [False, True], ids=["alone", "referenced"])
def test_no_finding_above_info(workers: int, referenced: bool) -> None:
    false = {}
    for seed in range(SEEDS // 2):
        level = 1 + 0.1 * (seed % 3)  # the neighbours' load moves all ranks alike
        before = noisy(seed + 10_000, workers, 0.9, window_id=1, reason="reference") if referenced else ()
        report = judge(noisy(seed, workers, level), before, expected=workers)
        grave = [finding for finding in report.findings if finding.severity != "info"]
        if grave:
            false[seed] = grave
    assert not false


def test_the_trigger_on_a_clean_window_of_the_same_level_finds_nothing() -> None:
    for seed in range(SEEDS // 3):
        before = noisy(seed + 20_000, 4, window_id=1, reason="reference", transfer_ms=25.0)
        report = judge(noisy(seed, 4, reason="degraded", transfer_ms=25.0), before, expected=4)
        assert [finding for finding in report.findings if finding.severity != "info"] == []


@pytest.mark.parametrize("workers", [2, 4, 8, 32])
@pytest.mark.parametrize("referenced", [False, True], ids=["alone", "referenced"])
def test_no_finding_above_info_on_gpus_whatever_is_read_of_them(workers: int, referenced: bool) -> None:
    false = {}
    for seed in range(SEEDS // 4):
        before = noisy_gpu(seed + 10_000, workers, window_id=1, reason="reference") if referenced else ()
        report = judge(noisy_gpu(seed, workers), before, expected=workers)
        grave = [finding for finding in report.findings if finding.severity != "info"]
        if grave:
            false[seed] = grave
    assert not false


@pytest.mark.parametrize(
    ("work", "cause"),
    [(busy(), "python_overhead"), (replace(busy(), on=1.0), "python_blocked"), (blocked_input(), "slow_input")],
    ids=["busy", "blocked", "input"],
)
def test_readings_that_are_chance_change_no_cause(work: Work, cause: str) -> None:
    """Reads from disks are the one reading of these that an input may be slow by."""
    found = []
    for seed in range(SEEDS // 4):
        windows = noisy_gpu(seed, 8, work, bad=3)
        report = judge(windows, (), expected=8)
        found += [(f.cause, f.ranks) for f in report.findings if f.severity != "info"]
    chance = {"slow_input", "storage_slow"} if cause == "slow_input" else {cause}
    assert {name for name, _ in found} <= chance
    assert {ranks for _, ranks in found} == {(3,)}
    assert len(found) == SEEDS // 4
