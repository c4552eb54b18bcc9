"""What the fault board makes of iteration times with and without a fault."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from eroica_otel.errors import EroicaError
from faultboard import board, case

EFFECT = board("effect")
WARM = EFFECT.WARM


def starts(*periods: float) -> Any:
    """Return when iterations began whose times [s] are these, ten of each, after the warm ones."""
    return np.concatenate([[0.0], np.cumsum([5.0] * WARM + [each for each in periods for _ in range(10)])])


AFTER_TWO = (WARM + 21, WARM + 20)
"""The onset after two blocks: one more iteration has begun, and is the first that is slow."""
CLEAN = starts(1.0, 1.2, 1.0, 1.2, 1.0, 1.2)


def test_the_effect_is_the_difference_to_the_twin_in_deviations_of_both_clean_parts() -> None:
    found = EFFECT.effect_of(CLEAN, starts(1.0, 1.2, 2.0, 2.2, 2.0, 2.2), AFTER_TWO, False)
    # Of the same four blocks the twin's mean is 1.1, the faulty one's 2.1.
    assert (found.clean_seconds, found.faulty_seconds) == (pytest.approx(1.1), pytest.approx(2.1))
    # Eight blocks, each 0.1 from the mean of its run, whose two means are taken from them.
    assert found.noise_seconds == pytest.approx((8 * 0.01 / 6) ** 0.5)
    assert found.ratio == pytest.approx(1.0 / 1.1)
    assert found.noises == pytest.approx(1.0 / found.noise_seconds)


def test_a_job_slow_from_its_first_iteration_has_no_part_before() -> None:
    found = EFFECT.effect_of(CLEAN, starts(2.0, 2.2, 2.0, 2.2, 2.0, 2.2), (0, WARM), False)
    assert found.faulty_seconds == pytest.approx(2.1)
    assert found.noise_seconds == pytest.approx((6 * 0.01 / 5) ** 0.5)


def test_a_slower_faulty_run_is_compared_with_as_many_iterations_of_the_twin() -> None:
    twin = starts(1.0, 1.0, 1.0, 1.0, 3.0, 3.0)
    found = EFFECT.effect_of(twin, starts(1.0, 1.0, 2.0, 2.0), AFTER_TWO, False)
    assert found.clean_seconds == pytest.approx(1.0)


def test_a_job_that_stood_still_has_no_time_after() -> None:
    found = EFFECT.effect_of(CLEAN, starts(1.0, 1.2), AFTER_TWO, True)
    assert (found.faulty_seconds, found.ratio, found.noises) == (None, None, None)


def test_too_few_iterations_are_an_error_that_says_so() -> None:
    with pytest.raises(EroicaError, match="6 blocks of the clean twin and 0 after the onset"):
        EFFECT.effect_of(CLEAN, starts(1.0, 1.2), AFTER_TWO, False)
    with pytest.raises(EroicaError, match="2 blocks of the clean twin"):
        EFFECT.effect_of(starts(1.0, 1.2), starts(1.0, 1.2, 2.0), AFTER_TWO, False)


@pytest.mark.parametrize(
    ("verdict", "faulty", "stood", "counts"),
    [
        ("worker", 1.3, False, True),  # the bar itself
        ("worker", 1.29, False, False),
        ("worker", 0.5, False, False),  # quicker is no effect
        ("worker", None, True, True),
        ("job", 1.29, False, False),
        ("hang", 9.0, False, False),  # slow is not still
        ("hang", None, True, True),
        ("silence", 1.0, False, True),  # whatever the effect
    ],
)
def test_a_case_counts_from_three_deviations_a_hang_when_it_stands_still(
    verdict: str, faulty: float | None, stood: bool, counts: bool
) -> None:
    found = EFFECT.Effect(1.0, faulty, 0.1 - 1e-12, stood)
    assert found.counts(case(verdict=verdict)) is counts
