"""From a capture to what a worker reports."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eroica_otel.errors import TraceError
from eroica_otel.model import Capture, Pattern, WorkerWindow
from eroica_otel.summarize.pattern import summarize
from factories_summarize import BACKWARD, FETCH, MAIN, NEXT, Row, capture, identity, write_kineto

REAL = Path(__file__).parents[1] / "golden" / "kineto_gloo.json"
MS = 1_000_000
EPOCH = 1_790_857_026_000_000_000


def _job(tmp_path: Path, *, iterations: int = 20, input_ms: int = 20, step: int = 0, **more: Any) -> Capture:
    """Return a window of iterations of 100 ms: input (off CPU), 30 ms of mm (on CPU), a wait for the all-reduce.

    The all-reduce runs from 40 ms on, beside mm; samples come every 5 ms.
    """
    rows: list[Row] = []
    samples: list[tuple[int, int]] = []
    cpu: list[int] = []
    used = 0
    for begin in range(EPOCH, EPOCH + iterations * 100 * MS, 100 * MS):
        computed = begin + (input_ms + 30) * MS
        rows.append(Row("aten::mm", begin + input_ms * MS, computed))
        rows.append(Row("gloo:all_reduce", begin + 40 * MS, begin + 100 * MS, "user_annotation", 8))
        for place in range(5, 105, 5):
            stack = 0 if place <= input_ms else 1
            busy = begin + place * MS > begin + input_ms * MS and begin + place * MS <= computed
            used += 5 * MS if busy else 0
            samples.append((begin - EPOCH + place * MS, stack))
            cpu.append(used)
    end = iterations * 100 * MS
    return capture(
        end=end,
        iterations=range(0, end + 1, 100 * MS),
        frames=(MAIN, NEXT, FETCH, BACKWARD),
        stacks=((0, 1, 2), (0, 3)),
        samples=samples,
        cpu=cpu,
        trace=write_kineto(tmp_path / "t.json", rows),
        realtime_offset_ns=(EPOCH, EPOCH + step),
        **more,
    )


def _by_name(window: WorkerWindow) -> dict[str, Pattern]:
    return {pattern.function: pattern for pattern in window.patterns}


def _calls(pattern: Pattern) -> list[tuple[str, int, int | None]]:
    return [(one.group, one.calls, one.bytes) for one in pattern.collectives]


def test_a_window_of_a_cpu_job(tmp_path: Path) -> None:
    window = summarize(_job(tmp_path))
    assert window.kinds == pytest.approx(
        {"compute": 0.3, "memory": 0.0, "communication": 0.5, "host": 0.0, "python": 0.2, "idle": 0.0}
    )
    assert sum(window.kinds.values()) == pytest.approx(1.0)
    reduce, compute, read = window.patterns
    assert [p.beta for p in window.patterns] == pytest.approx([0.5, 0.3, 0.2])
    assert (reduce.function, reduce.kind, reduce.family, reduce.resource) == (
        "gloo:all_reduce", "communication", "collective", "",
    )  # fmt: skip
    assert (reduce.mu, reduce.sigma) == (None, None)
    assert _calls(reduce) == [("", 20, None)]
    assert reduce.collectives[0].fastest_seconds == pytest.approx(0.06)
    assert (compute.function, compute.kind, compute.family, compute.resource) == ("aten::mm", "compute", "gemm", "cpu")
    assert (compute.mu, compute.sigma) == pytest.approx((1.0, 0.0))
    assert (read.function, read.kind, read.family, read.resource) == (
        "fetch_remote (train.py:60)", "python", "input", "cpu",
    )  # fmt: skip
    assert (read.mu, read.sigma) == pytest.approx((0.0, 0.0))
    assert read.stack[-1] == "__main__:fetch_remote:60"
    assert compute.stack == ()
    assert (window.iterations, window.seconds, window.events, window.dropped) == (20, 2.0, 40, 0)
    assert window.floor == pytest.approx(0.2)
    # the first sample comes 5 ms after the start, and before it nothing of the CPU clock is known
    assert window.cpu_seconds == pytest.approx(20 * 0.03)
    assert window.sampler_gap_seconds == pytest.approx(0.005)


def test_cpu_seconds_of_the_functions_add_up_to_those_of_the_thread(tmp_path: Path) -> None:
    window = summarize(_job(tmp_path, input_ms=5))
    total = sum(p.beta * window.seconds * p.mu for p in window.patterns if p.mu is not None)
    assert total == pytest.approx(window.cpu_seconds)


def test_facts_of_the_capture_are_passed_on(tmp_path: Path) -> None:
    facts: dict[str, Any] = {
        "blocked_seconds": 0.25,
        "throttled_ratio": 0.1,
        "run_delay_ratio": None,
        "stopped_seconds": 3.0,
        "signature": "abc",
    }
    window = summarize(_job(tmp_path, end_realtime_seconds=1_790_857_046.5, **facts))
    assert {name: getattr(window, name) for name in facts} == facts
    assert window.end_timestamp_seconds == 1_790_857_046.5
    assert (window.window_id, window.reason, window.start_iteration) == (1_700_000_000, "degraded", 10)
    assert window.identity == identity()


def test_the_largest_are_kept_and_the_rest_is_bounded_and_counted(tmp_path: Path) -> None:
    window = summarize(_job(tmp_path), top=2)
    assert [p.function for p in window.patterns] == ["gloo:all_reduce", "aten::mm"]
    assert window.floor == pytest.approx(0.3)
    assert window.dropped == 1
    assert window.kinds["python"] == pytest.approx(0.2)


def test_only_a_reference_window_carries_noise(tmp_path: Path) -> None:
    assert {p.noise_seconds for p in summarize(_job(tmp_path)).patterns} == {None}
    reference = summarize(_job(tmp_path, reason="reference"))
    assert [p.noise_seconds for p in reference.patterns] == [pytest.approx(0.0, abs=1e-9)] * 3
    short = summarize(_job(tmp_path, reason="reference", iterations=15))
    assert {p.noise_seconds for p in short.patterns} == {None}


def test_a_step_of_the_clock_leaves_mu_and_sigma_missing_and_beta_standing(tmp_path: Path) -> None:
    window = summarize(_job(tmp_path, step=1_000_001))
    assert {(p.resource, p.mu, p.sigma) for p in window.patterns} == {("", None, None)}
    assert window.patterns[0].beta > 0
    assert _by_name(summarize(_job(tmp_path, step=999_999)))["aten::mm"].mu is not None


def test_a_link_with_a_known_speed_gives_mu_of_its_busier_direction_and_peaks(tmp_path: Path) -> None:
    # 1 MB/s; in the second half of each iteration 500 bytes a ms leave and 100 arrive
    rows: list[tuple[int, int, int]] = []
    for place in range(401):
        full, rest = divmod(place * 5, 100)
        busy = 50 * full + max(rest - 50, 0)
        rows.append((place * 5 * MS, 500 * busy, 100 * busy))
    window = summarize(_job(tmp_path, nic=rows, nic_peak_bytes=1e6))
    reduce = _by_name(window)["gloo:all_reduce"]
    assert reduce.resource == "nic"
    assert (reduce.mu, reduce.sigma) == pytest.approx((0.5, 0.0), abs=1e-6)
    assert reduce.peaks == pytest.approx({"nic_tx": 0.5, "nic_rx": 0.1})
    assert _by_name(window)["aten::mm"].peaks == {}


def test_a_blocked_window_has_only_stacks(tmp_path: Path) -> None:
    window = summarize(
        capture(end=100, reason="blocked", iterations=[], samples=[(25, 1), (100, 3)], cpu=[0, 0]),
    )
    assert (window.iterations, window.events) == (0, 0)
    assert {p.function: p.beta for p in window.patterns} == {
        "fetch_remote (train.py:60)": 0.75,
        "augment (train.py:40)": 0.25,
    }


def test_without_samples_nothing_is_invented() -> None:
    window = summarize(capture())
    assert (window.patterns, window.floor, window.dropped) == ((), 0.0, 0)
    assert (window.cpu_seconds, window.sampler_gap_seconds) == (None, None)
    assert window.kinds["idle"] == 1.0


def test_a_stopped_process_shows_as_the_longest_gap() -> None:
    assert summarize(capture(end=100, samples=[(10, 0), (20, 0), (90, 0)])).sampler_gap_seconds == pytest.approx(70e-9)
    assert summarize(capture(end=100, samples=[(10, 0), (20, 0)])).sampler_gap_seconds == pytest.approx(80e-9)


def test_a_trace_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(TraceError):
        summarize(capture(trace=str(tmp_path / "gone.json")))


def test_a_real_trace_is_charged_to_operators_and_the_all_reduce() -> None:
    # All events of the golden trace: 6.6 ms, of which the all-reduce waits for 6.2.
    start = 5_113_234_101_500_000
    window = summarize(capture(start=start, end=start + 7_000_000, trace=str(REAL), realtime_offset_ns=(EPOCH, EPOCH)))
    found = _by_name(window)
    # 138 entries of the file, less 9 metadata, flow, instant and whole-trace entries
    assert window.events == 129
    assert _calls(found["gloo:all_reduce"]) == [("0", 1, None)]
    assert found["gloo:all_reduce"].collectives[0].fastest_seconds == pytest.approx(6177.244e-6)
    assert {p.kind for p in window.patterns} == {"compute", "communication"}
    assert not {name for name in found if name.startswith(("autograd", "torch", "c10d")) or "Backward0" in name}
    # Self time of the three products: 15.919 + 9.498 + 12.142 us, less the seven resolve_conj inside them.
    products = (15_919 + 9_498 + 12_142) - (271 + 50 + 50 + 80 + 80 + 160 + 81)
    assert found["aten::mm"].beta * 7_000_000 == pytest.approx(products)
    assert sum(window.kinds.values()) == pytest.approx(1.0)
    assert np.isclose(window.kinds["communication"] * 7e6, 6_177_244, atol=20_000)
