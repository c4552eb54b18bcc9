"""What was delivered of a case against what its training did: -> list of what is wrong, empty when all is right."""

from __future__ import annotations

from collections.abc import Iterable

from eroica_otel import names
from eroica_otel.model import WorkerWindow
from jobs import value
from support.launch import Heard, Outcome
from support.measure import Truth
from support.registry import Case

LEARN = 10
PROBE = 5
"""Updates whose iterations are not timed because of the profiler's trial: two, and three after it."""
AFTER_WINDOW = 3
SHARE = 0.12
"""How far a share may lie from the truth."""
PERIOD = 0.25


def judge(case: Case, outcome: Outcome) -> list[str]:
    """Return what is wrong."""
    if outcome.code != 0:
        return [f"exit code {outcome.code}"]
    ranks = set(range(case.ranks))
    if set(outcome.heard) != ranks or set(outcome.truth) != ranks:
        return [f"ranks {sorted(outcome.heard)} delivered, {sorted(outcome.truth)} trained, expected {case.ranks}"]
    if case.unmatched:
        return list(_unmatched(outcome))
    return list(_windows(case, outcome)) or [
        f"rank {rank}: {wrong}"
        for rank in sorted(ranks)
        for wrong in _rank(case, rank, outcome.truth[rank], outcome.heard[rank], _window(outcome, rank))
    ]


def _unmatched(outcome: Outcome) -> Iterable[str]:
    for rank, heard in outcome.heard.items():
        if "unmatched" not in heard.states or {"healthy", "degraded"} & heard.states:
            yield f"rank {rank} said {sorted(heard.states)}, not that it is unmatched"
    if outcome.windows:
        yield "a window was taken"


def _windows(case: Case, outcome: Outcome) -> Iterable[str]:
    """All ranks captured one window, over the same iterations."""
    if len(outcome.windows) != 1:
        yield f"{len(outcome.windows)} windows arrived, 1 was asked for"
        return
    (windows,) = outcome.windows.values()
    seen = {(one.reason, one.start_iteration, one.iterations) for one in windows.values()}
    if len(windows) != case.ranks or len(seen) != 1:
        yield f"ranks {sorted(windows)} captured (reason, first iteration, iterations) {sorted(seen)}"


def _window(outcome: Outcome, rank: int) -> WorkerWindow:
    (windows,) = outcome.windows.values()
    return windows[rank]


def _rank(case: Case, rank: int, truth: Truth, heard: Heard, window: WorkerWindow) -> Iterable[str]:
    yield from _iterations(case, rank, truth, heard, window)
    yield from _patterns(case, truth, window)


def _iterations(case: Case, rank: int, truth: Truth, heard: Heard, window: WorkerWindow) -> Iterable[str]:
    counted = value(list(heard.points), names.ITERATIONS.name)
    if counted != truth.updates:
        yield f"{counted:.0f} updates seen, {truth.updates} done"
    timed = value(list(heard.points), f"{names.ITERATION_PERIOD.name}_count")
    fewest, most = _expected(case, truth, window)
    if not fewest <= timed <= most:
        yield f"{timed:.0f} iterations timed, {fewest} to {most} expected"
        return
    with_inputs = value(list(heard.points), f"{names.ITERATION_DURATION.name}_count")
    if with_inputs != (timed if case.has_inputs(rank) else 0):
        yield f"{with_inputs:.0f} of {timed:.0f} iterations have a duration"
    mean = value(list(heard.points), f"{names.ITERATION_PERIOD.name}_sum") / timed
    true = truth.period(LEARN * case.per_iteration, case.per_iteration)
    if abs(mean / true - 1) > PERIOD:
        yield f"the mean period is {mean:.4f} s, in truth {true:.4f} s"


def _expected(case: Case, truth: Truth, window: WorkerWindow) -> tuple[int, int]:
    """Return the fewest and the most iterations that can be timed.

    Not timed are the ten that teach the loop, the last one (its end is not seen), those of the trial and of the
    window. Where an iteration has several updates, a range of updates may touch one iteration more.
    """
    each = case.per_iteration
    closed = truth.updates // each - 1 - LEARN
    ranges = (PROBE, window.iterations + AFTER_WINDOW)
    touched = sum(-(-one // each) for one in ranges)
    slack = 0 if each == 1 else len(ranges)
    return closed - touched - slack - case.untimed, closed - touched + slack


def _patterns(case: Case, truth: Truth, window: WorkerWindow) -> Iterable[str]:
    own = [pattern for pattern in window.patterns if pattern.kind in ("python", "compute")]
    if not own:
        yield "no pattern of python or compute"
        return
    largest = max(own, key=lambda pattern: pattern.beta)
    share = truth.share(window.start_iteration, window.start_iteration + window.iterations - 1)
    if not largest.function.startswith(case.hot):
        yield f"the largest pattern is {largest.function} ({largest.beta:.2f}), not {case.hot} ({share:.2f})"
    elif abs(largest.beta - share) > SHARE:
        yield f"{case.hot} has a share of {largest.beta:.2f}, in truth {share:.2f}"
