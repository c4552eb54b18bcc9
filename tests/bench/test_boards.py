"""What the bench of the dashboards fills Prometheus with, and that it chooses a value for every variable."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from types import ModuleType

import pytest

from dashboards import all_queries, filled_in
from loaded import module_of


@pytest.fixture(scope="module")
def bench() -> ModuleType:
    return module_of(Path(__file__).parents[2] / "bench" / "boards.py")


def test_every_worker_has_twenty_functions_with_three_components(bench: ModuleType) -> None:
    names = Counter(point.name for point, passing in bench.series(8) if passing)
    for component in ("beta", "mu", "sigma"):
        assert names[f"eroica_pattern_{component}_ratio"] == 8 * 20


def test_no_series_is_there_twice(bench: ModuleType) -> None:
    keys = Counter((point.name, frozenset(point.labels.items())) for point, _ in bench.series(8))
    assert max(keys.values()) == 1


def test_no_variable_is_left_in_a_query(bench: ModuleType) -> None:
    assert not [asked for asked in all_queries() if "$" in filled_in(asked.expr, **bench.CHOSEN)]
