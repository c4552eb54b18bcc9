"""The benchmark of following many workers, tiny: that all are followed, at once and in parts."""

from __future__ import annotations

import pytest

from bench.following import one


@pytest.mark.parametrize("digits", [0, 1])
def test_all_workers_are_followed(digits: int) -> None:
    took = one(25, digits)
    assert took["right"]
    assert took["peak_mib"] > 0
