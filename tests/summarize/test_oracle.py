"""Whole windows against the loop oracle: every pattern that a worker reports, from events, samples and counters."""

from __future__ import annotations

import random
from collections.abc import Mapping
from fractions import Fraction

import pytest

import naive
from cases import KIND_OF, Case, random_case, stack_of
from eroica_otel.kinds import function_id
from eroica_otel.model import Pattern, WorkerWindow
from eroica_otel.summarize.pattern import summarize
from eroica_otel.summarize.resources import HOLD
from factories_summarize import capture

CASES = 2000
HOLDS: tuple[Mapping[str, float], ...] = (HOLD, HOLD, {"cpu": 0.8, "nic": 1.0}, {"cpu": 0.5, "nic": 0.95})
TOLERANCE = 1e-6
"""Of a deviation: the root of a difference of two sums, each right to 1e-16 of values up to 1."""


def charges(case: Case) -> naive.Charges:
    gc = [(int(start), int(end)) for start, end in case.capture.gc_ns]
    return naive.charge(case.rows, KIND_OF, case.window, case.samples(), stack_of, gc, case.calls)


def test_every_pattern_of_a_window_is_that_of_the_oracle() -> None:
    rng = random.Random(7)
    seen: set[str] = set()
    for number in range(CASES):
        case, hold = random_case(rng), rng.choice(HOLDS)
        found = summarize(case.capture, top=10**6, hold=hold, trace=case.trace())
        expected = charges(case)
        try:
            seen |= _same_window(found, case, expected)
            for pattern in found.patterns:
                seen |= _same_use(pattern, case, expected, hold)
        except AssertionError as error:
            raise AssertionError(f"case {number}: {case}") from error
    assert seen == {
        "compute", "memory", "communication", "host", "python", "idle", "all", "noise", "calls",
        "cpu measured", "cpu unmeasured", "nic_tx measured", "nic_rx measured", "nic unmeasured",
    }  # fmt: skip


def _same_window(found: WorkerWindow, case: Case, expected: naive.Charges) -> set[str]:
    """Compare shares, order, sums, noise and calls; return what was there to compare."""
    length = case.window[1] - case.window[0]
    shares = {function_id(*key): len(instants) / length for key, instants in expected.instants.items()}
    assert {pattern.function_id: pattern.beta for pattern in found.patterns} == pytest.approx(shares)
    betas = [pattern.beta for pattern in found.patterns]
    assert betas == sorted(betas, reverse=True)
    assert (found.floor, found.dropped) == (min(betas, default=0.0), 0)
    sums = {kind: time / length for kind, time in expected.kinds.items()} | {"idle": expected.idle / length}
    assert {kind: share for kind, share in found.kinds.items() if share or kind == "idle"} == pytest.approx(sums)
    assert sum(found.kinds.values()) == pytest.approx(1.0)
    seen = {kind for kind, share in sums.items() if share}
    seen |= _same_noise(found, case, expected) | _same_calls(found, case)
    return seen | ({"all"} if not expected.idle else set())


def _same_noise(found: WorkerWindow, case: Case, expected: naive.Charges) -> set[str]:
    borders = case.capture.iteration_ns.tolist()
    wanted = found.reason == "reference" and len(borders) == 17
    for pattern in found.patterns:
        noise = naive.noise(_instants(pattern, expected), borders) if wanted else None
        if noise is None:
            assert pattern.noise_seconds is None
        else:
            assert pattern.noise_seconds == pytest.approx(noise / 1e9)
    return {"noise"} if wanted and found.patterns else set()


def _same_calls(found: WorkerWindow, case: Case) -> set[str]:
    calls: dict[str, dict[str, list[int]]] = {}
    for place, (group, _) in sorted(case.collectives.items()):
        row = case.rows[place]
        if case.window[0] <= row.start < case.window[1]:
            calls.setdefault(function_id("communication", row.name), {}).setdefault(group, []).append(place)
    for pattern in found.patterns:
        groups = calls.get(pattern.function_id, {})
        assert [one.group for one in pattern.collectives] == sorted(groups)
        for one in pattern.collectives:
            sizes = [case.collectives[place][1] for place in groups[one.group]]
            lengths = [case.rows[place].end - case.rows[place].start for place in groups[one.group]]
            assert one.calls == len(sizes)
            assert one.bytes == (None if None in sizes else sum(size or 0 for size in sizes))
            assert one.fastest_seconds == pytest.approx(naive.quantile(lengths, 0.05) / 1e9)
    return {"calls"} if any(pattern.collectives for pattern in found.patterns) else set()


def _instants(pattern: Pattern, expected: naive.Charges) -> list[int]:
    return next(instants for key, instants in expected.instants.items() if function_id(*key) == pattern.function_id)


def _same_use(pattern: Pattern, case: Case, expected: naive.Charges, hold: Mapping[str, float]) -> set[str]:
    """Compare mu and sigma; return what was there to compare."""
    gpu = any(row.category == "kernel" for row in case.rows)
    given, instants = case.capture, _instants(pattern, expected)
    if pattern.kind == "communication":
        counters = {"nic_tx": given.nic_tx, "nic_rx": given.nic_rx} if given.nic_peak_bytes else {}
        times, resource = given.nic_ns, "nic"
    elif pattern.kind == "python" or pattern.kind == ("host" if gpu else "compute"):
        counters, times, resource = {"cpu": given.cpu_ns}, given.stack_ns, "cpu"
    else:
        assert (pattern.resource, pattern.mu, pattern.sigma) == ("", None, None)
        return set()
    rates = {name: naive.rates(times.tolist(), one.tolist(), case.window) for name, one in counters.items()}
    used = {name: sum(rate.get(now, 0) for now in instants) for name, rate in rates.items()}
    most = [name for name in used if used[name] == max(used.values())]
    share = Fraction(str(hold[resource]))
    possible = {name: naive.moments(instants, rates[name], share) for name in most}
    if all(one is None for one in possible.values()):
        assert (pattern.resource, pattern.mu, pattern.sigma) == ("", None, None)
        return {f"{resource} unmeasured"}
    assert pattern.resource == resource
    assert any(_fits(pattern, one) for one in possible.values() if one is not None), possible
    return {f"{name} measured" for name in most}


def _fits(pattern: Pattern, one: naive.Moments) -> bool:
    deviation = pytest.approx(one.deviation, abs=TOLERANCE)
    return pattern.mu == pytest.approx(one.mean) and (pattern.sigma == deviation or not one.sure)


def test_the_largest_are_kept_and_the_smallest_kept_is_the_floor() -> None:
    rng = random.Random(8)
    cut = 0
    for _ in range(300):
        case, top = random_case(rng), rng.randrange(5)
        shares = sorted((len(times) for times in charges(case).instants.values()), reverse=True)
        length = case.window[1] - case.window[0]
        found = summarize(case.capture, top=top, trace=case.trace())
        assert [pattern.beta * length for pattern in found.patterns] == pytest.approx(shares[:top])
        assert found.dropped == max(len(shares) - top, 0)
        assert found.floor * length == pytest.approx(shares[:top][-1] if shares[:top] else 0)
        cut += found.dropped > 0
    assert cut > 50


def test_a_window_without_anything_is_idle_and_whole() -> None:
    empty = Case([], capture(start=5, end=45), {})
    found = summarize(empty.capture, trace=empty.trace())
    assert found.patterns == ()
    assert found.kinds["idle"] == 1.0
    assert (found.sampler_gap_seconds, found.cpu_seconds, found.floor, found.dropped) == (None, None, 0.0, 0)
