"""What each part of a window was spent on."""

from __future__ import annotations

import numpy as np
import pytest

from eroica_otel.summarize.critical import charge
from eroica_otel.summarize.timeline import timeline
from factories_summarize import Row, capture, events


def test_each_part_says_what_it_was_spent_on_and_sums_to_one() -> None:
    # 1,000 ns on a GPU: a kernel in [0, 500), a copy in [400, 600) of which 100 ns are hidden behind the kernel.
    seen = events([Row("gemm", 0, 500, "kernel"), Row("Memcpy HtoD", 400, 600, "gpu_memcpy")])
    charged = charge(capture(end=1000), seen)
    shares = timeline(charged, 0, 1000, parts=4)
    assert shares["compute"] == pytest.approx((1.0, 1.0, 0.0, 0.0))
    assert shares["memory"] == pytest.approx((0.0, 0.0, 0.4, 0.0))
    assert shares["idle"] == pytest.approx((0.0, 0.0, 0.6, 1.0))
    assert np.sum(list(shares.values()), axis=0) == pytest.approx([1.0] * 4)


def test_a_window_of_fewer_nanoseconds_than_parts_has_no_picture() -> None:
    assert timeline(charge(capture(end=3), events([])), 0, 3, parts=4) == {}


def test_times_since_1970_keep_their_nanoseconds() -> None:
    base = 1_790_857_026_000_000_123
    charged = charge(capture(start=base, end=base + 1000), events([Row("gemm", base, base + 500, "kernel")]))
    assert timeline(charged, base, base + 1000, parts=2) == {"compute": (1.0, 0.0), "idle": (0.0, 1.0)}
