"""What the accuracy bench counts, on jobs small enough to be judged in a moment."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from statistics import NormalDist
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def bench() -> Iterator[SimpleNamespace]:
    """Everything that the bench and the rules beside it define."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT))
        names: dict[str, Any] = {}
        for module in ("simulate.mixed", "simulate.rivals", "delta", "optimum", "accuracy"):
            names |= vars(importlib.import_module(f"bench.{module}"))
        yield SimpleNamespace(**names)


def test_noise_differs_by_as_much_as_was_asked_for(bench: SimpleNamespace) -> None:
    given = bench.sample(bench.Mix("", 256, sd=0.05), 1)
    gemm = given.table.beta[:256]
    assert np.std(gemm) / np.mean(gemm) == pytest.approx(0.05, rel=0.2)  # 4.4 standard errors of 256


def test_a_fault_is_as_large_as_was_asked_for(bench: SimpleNamespace) -> None:
    mix = bench.Mix("", 32, sd=0.0)
    given, calm = bench.sample(mix, 3, 8.0), bench.sample(mix, 3)
    (culprit,) = given.culprits
    workers = (given.table.workers, calm.table.workers)
    now, before = (each.seconds[culprit] / each.iterations[culprit] for each in workers)
    assert (now - before) / now == pytest.approx(0.05)


def test_missing_ranks_roles_and_splits_are_in_the_windows(bench: SimpleNamespace) -> None:
    assert len(bench.sample(bench.Mix("", 40, missing=0.1), 1).table.workers) == 36
    roles = bench.sample(bench.Mix("", 16, 4), 1).table.workers.role
    assert list(roles)[::4] == ["stage-0", "stage-1", "stage-2", "stage-3"]
    gemm = bench.sample(bench.Mix("", 8, split=0.5, sd=0.0), 1).table.beta[:8]
    assert gemm[0] == pytest.approx(1.5 * gemm[7])


def test_healthy_workers_are_not_named_and_clear_faults_are(bench: SimpleNamespace) -> None:
    mine, theirs = bench.Score(), bench.Score()
    for seed in range(6):
        given = bench.sample(bench.Mix("", 64, sd=0.03), seed, (0.0, 12.0)[seed % 2])
        bench.by_localizer(given, mine)
        bench.by_rule(bench.plain_mad, given, theirs)
    assert (mine.false_patterns, mine.job, mine.found, mine.culprits) == (0, 0, 3, 3), mine.examples
    assert mine.patterns == 6 * 64 * 12 - 3 * 12
    assert theirs.false_patterns > 0  # 5 MAD are 3.4 standard deviations: one in 3,000 is beyond


def test_who_names_everybody_finds_all_and_is_always_wrong(bench: SimpleNamespace) -> None:
    given = bench.sample(bench.Mix("", 8), 1, 8.0)
    score = bench.Score()
    bench.by_rule(lambda patterns: np.ones(patterns.shape[:2], bool), given, score)
    assert (score.recall, score.false_patterns, score.false_workers) == (1.0, 7 * 12, 7)


@pytest.mark.parametrize(("level", "false"), [(2.0, 0.01), (4.0, 0.001), (5.0, 1e-6)])
def test_the_best_for_normal_noise_is_that_of_the_difference_from_what_was_expected(
    bench: SimpleNamespace, level: float, false: float
) -> None:
    """Half of the variance lasts, so what was before leaves 3/4 of it: the fault is level / sqrt(0.75) of the rest."""
    usual = NormalDist()
    expected = usual.cdf(level / 0.75**0.5 + usual.inv_cdf(false))
    assert bench.Best("normal").found([level], false) == [pytest.approx(expected, abs=0.02)]


def test_the_best_is_worse_the_heavier_the_tail(bench: SimpleNamespace) -> None:
    found = [bench.Best(law).found([8.0], 1e-6)[0] for law in ("normal", "laplace", "student")]
    assert found == sorted(found, reverse=True)
    assert found[2] < 0.5 < 0.999 < found[0]
    assert bench.Best("normal").found([8.0, 30.0], 1e-6)[1] == 1.0


def test_the_best_of_few_ranks(bench: SimpleNamespace) -> None:
    """Of four, one differs from the mean of three by sqrt(4 / 3) of the noise."""
    known = bench.of_few(4, 8.0, before=False)
    assert known == pytest.approx(NormalDist().cdf(8 / (4 / 3) ** 0.5 - 4.753), abs=1e-4)
    estimated = [bench.of_few(4, 8.0, before=True, freedom=freedom) for freedom in (2.0, 24.0)]
    assert estimated[0] < 0.01 < estimated[1] < bench.of_few(4, 8.0, before=True)


def test_single_iterations_of_a_heavy_law_add_up_to_less_heavy_windows(bench: SimpleNamespace) -> None:
    def largest(single: bool) -> float:
        given = bench.sample(bench.Mix("", 1024, sd=0.05, law="student", single=single), 1)
        beta = given.table.beta[: 12 * 1024].reshape(12, -1)
        apart = np.abs(beta - np.median(beta, axis=1, keepdims=True)) / np.std(beta, axis=1, keepdims=True)
        return float(np.median(apart.max(axis=1)))

    assert largest(single=True) < 5 < largest(single=False)


def test_delta_finds_one_of_eight_and_half_of_them_is_no_outlier(bench: SimpleNamespace) -> None:
    patterns = bench.healthy(np.random.default_rng(1), 8, 0.01)
    patterns[0, 0] *= 2
    assert bench.ours(patterns).tolist() == [True] + [False] * 7
    patterns[:4, 0] = patterns[0, 0]
    assert not bench.ours(patterns).any()


def test_the_cost_of_each_step_is_told_for_each_size(bench: SimpleNamespace) -> None:
    head, *rows = bench.timing_table((600, 1200))
    assert head.startswith("| step | 600 | 1,200 |")
    assert [row.split("|")[1].strip() for row in rows] == list(bench.STEPS)
    assert all(float(cell) >= 0 for row in rows for cell in row.split("|")[2:4])
