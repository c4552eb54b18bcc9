"""What one window of one worker weighs, on real traces with call stacks; series are counted in test_series.py."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from eroica_otel.export.budget import fit
from eroica_otel.export.points import FUNCTIONS_WITH_STACK, window_points
from eroica_otel.model import Identity
from eroica_otel.summarize.offline import summarize_trace
from eroica_otel.summarize.readers.any import read_trace

GOLDEN = Path(__file__).parents[1] / "golden" / "tracelens"
MOST_BYTES = 30_000


@pytest.mark.parametrize("name", ["h100_bert", "mi300_bert", "graph_replay"])
def test_the_patterns_of_a_trace_with_stacks_take_30_kb_at_most_and_lose_nothing_that_is_exported(name: str) -> None:
    whole = summarize_trace(read_trace(str(GOLDEN / f"{name}.json.gz")), Identity("job", 0, "host-a", world_size=8))
    fitted = fit(whole)
    assert len(msgspec.msgpack.encode(fitted.patterns)) <= MOST_BYTES
    assert sum(1 for pattern in fitted.patterns if pattern.stack) <= FUNCTIONS_WITH_STACK
    assert window_points(fitted) == window_points(whole)
