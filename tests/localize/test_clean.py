"""Clean windows of noisy machines: nothing above info, whatever the seed."""

from __future__ import annotations

import pytest

from eroica_otel.localize.verdict import judge
from factories_localize import noisy

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
