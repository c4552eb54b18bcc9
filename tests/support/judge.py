"""What was delivered of a case against what its training did: -> list of what is wrong, empty when all is right."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from eroica_otel import names
from eroica_otel.model import WorkerWindow
from jobs import value
from support.launch import Outcome, is_complete, span
from support.measure import Truth
from support.registry import FRAMEWORK, Case

LEARN = 10
PROBE = 5
"""Updates whose iterations are not timed because of the profiler's trial: two, and three after it."""
AFTER_WINDOW = 3
UNTIMED = 3
"""Iterations that are not timed around a validation, or around an end of an epoch that does not fit."""
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
        f"rank {rank}: {wrong}" for rank in sorted(ranks) for wrong in _rank(case, rank, outcome)
    ]


def _unmatched(outcome: Outcome) -> Iterable[str]:
    for rank, heard in outcome.heard.items():
        if "unmatched" not in heard.states or {"healthy", "degraded"} & heard.states:
            yield f"rank {rank} said {sorted(heard.states)}, not that it is unmatched"
    if outcome.windows:
        yield "a window was taken"


def _windows(case: Case, outcome: Outcome) -> Iterable[str]:
    """All ranks captured one window, over the same iterations."""
    if complete(case, outcome) is None:
        seen = {number: sorted(span(one) for one in windows.values()) for number, windows in outcome.windows.items()}
        yield f"no window of all {case.ranks} ranks; captured iterations by window: {seen}"


def complete(case: Case, outcome: Outcome) -> Mapping[int, WorkerWindow] | None:
    """Return the first window that all ranks captured."""
    return next((windows for windows in outcome.windows.values() if is_complete(case, windows)), None)


def _rank(case: Case, rank: int, outcome: Outcome) -> Iterable[str]:
    windows = complete(case, outcome)
    assert windows is not None
    yield from _iterations(case, rank, outcome)
    yield from _patterns(case, outcome.truth[rank], windows[rank])


def _iterations(case: Case, rank: int, outcome: Outcome) -> Iterable[str]:
    truth, points = outcome.truth[rank], list(outcome.heard[rank].points)
    counted = value(points, names.ITERATIONS.name)
    if counted != truth.updates + case.before:
        yield f"{counted:.0f} updates seen, {truth.updates} and {case.before} before them done"
    timed = value(points, f"{names.ITERATION_PERIOD.name}_count")
    fewest, most = _expected(case, rank, outcome)
    if not fewest <= timed <= most:
        yield f"{timed:.0f} iterations timed, {fewest} to {most} expected"
        return
    with_inputs = value(points, f"{names.ITERATION_DURATION.name}_count")
    if with_inputs != (timed if case.has_inputs(rank) else 0):
        yield f"{with_inputs:.0f} of {timed:.0f} iterations have a duration"
    mean = value(points, f"{names.ITERATION_PERIOD.name}_sum") / timed
    taken = [span(windows[rank]) for windows in outcome.windows.values() if rank in windows]
    untimed = [(start - case.before, stop - case.before + AFTER_WINDOW) for start, stop in taken]
    least, longest = truth.period(LEARN * case.per_iteration, case.per_iteration, untimed)
    if not least * (1 - PERIOD) <= mean <= longest * (1 + PERIOD):
        yield f"the mean period is {mean:.4f} s, in truth {least:.4f} to {longest:.4f} s"


def _expected(case: Case, rank: int, outcome: Outcome) -> tuple[int, int]:
    """Return the fewest and the most iterations that can be timed.

    Not timed are the ten that teach the loop, the last one (its end is not seen), those of the trial and of each
    window. Where an iteration has several updates, a range of updates may touch one iteration more; a window that this
    rank was late for takes from none to all of its iterations.
    """
    each = case.per_iteration
    closed = outcome.truth[rank].updates // each - 1 - LEARN
    longest = [max(one.iterations for one in windows.values()) for windows in outcome.windows.values()]
    own = [windows[rank].iterations for windows in outcome.windows.values() if rank in windows]
    fewest = closed - sum(-(-length // each) for length in (PROBE, *(one + AFTER_WINDOW for one in longest)))
    most = closed - sum(-(-length // each) for length in (PROBE, *(one + AFTER_WINDOW for one in own)))
    slack = 0 if each == 1 else 1 + len(longest)
    events = -(-outcome.truth[rank].updates // case.untimed_every) if case.untimed_every else 0
    ahead = 1 if case.group == FRAMEWORK else 0  # an input after the last update shows the end of the last iteration
    return fewest - slack - UNTIMED * events, most + slack + ahead


def _patterns(case: Case, truth: Truth, window: WorkerWindow) -> Iterable[str]:
    own = [p for p in window.patterns if p.kind == "compute" or (p.kind == "python" and p.family != "wait")]
    if not own:
        yield "no pattern of python or compute"
        return
    sums: Counter[str] = Counter()
    for pattern in own:  # one function may be called from several places, each a pattern of its own
        sums[pattern.function] += pattern.beta  # type: ignore[assignment]
    (largest, beta), *_ = sums.most_common(1)
    start, stop = (number - case.before for number in span(window))
    share = truth.share(start, stop - 1)
    if not largest.startswith(case.hot):
        yield f"the largest pattern is {largest} ({beta:.2f}), not {case.hot} ({share:.2f})"
    elif abs(beta - share) > SHARE:
        yield f"{case.hot} has a share of {beta:.2f}, in truth {share:.2f}"
