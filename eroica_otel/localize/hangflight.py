"""The verdict on dumps of flight recorders: takes a blocked window and the single calls of each rank, gives the report.

A dump is what a rank left when the job had stood still for its time-out, so it is judged as a blocked window is
(hang.py), with more known of the collectives and less of the ranks: nothing tells where a rank stands now.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice

from eroica_otel.localize import hangwords as words
from eroica_otel.localize.calls import Calls, differences, groups_of, pending
from eroica_otel.localize.columns import ranks_text
from eroica_otel.localize.hang import judge_hang
from eroica_otel.localize.hangscene import NAMED_MOST
from eroica_otel.localize.policy import Policy
from eroica_otel.localize.presence import Presence
from eroica_otel.model import Report, WorkerWindow

_GROUPS = 6
"""Process groups whose numbers stand in the notes."""
_PLACES = 8
"""Collectives in which ranks wait that stand in the notes."""
_NUMBER = re.compile(r" \(\d+\)$")


def judge_flights(
    windows: Sequence[WorkerWindow],
    calls: Calls,
    *,
    expected: int,
    policy: Policy = Policy(),  # noqa: B008 - frozen
) -> Report:
    """Return the verdict on the dumps of one job.

    Args:
        windows: One per rank; of those whose stack is known, the function from which the rank called what it waits in.
        calls: What each rank has called, oldest first.
        expected: Ranks that the job has.
    """
    seen = {window.identity.rank for window in windows}
    base = Report(
        training_job=windows[0].identity.training_job,
        window_id=windows[0].window_id,
        reason="blocked",
        workers_seen=len(seen),
        workers_expected=expected,
        missing_ranks=tuple(islice((rank for rank in range(expected) if rank not in seen), NAMED_MOST)),
    )
    waiting = any(pending(mine) is not None for mine in calls.values())
    if not waiting and not any(True for _ in groups_of({w.identity.rank: w.progress for w in windows})):
        return replace(base, notes=("not enough evidence: every collective in these dumps has ended on every rank",))
    presence = {rank: Presence("blocked") for rank in seen}
    report = judge_hang(base, windows, (), presence, policy, calls)
    split = () if report.findings else tuple(words.split(each) for each in differences(calls))
    return replace(report, notes=(*split, *report.notes, *_places(windows, calls), *_numbers(windows, report)))


def _places(windows: Sequence[WorkerWindow], calls: Calls) -> list[str]:
    """Say in which collective each rank waits, and from where it was called."""
    places: dict[str, list[int]] = {}
    for window in windows:
        rank = window.identity.rank
        call = pending(calls.get(rank, ()))
        where = window.patterns[0].function if window.patterns and window.patterns[0].stack else ""
        text = f"no call that has not ended{f'; the last was made in {where}' if where else ''}"
        if call is not None:
            number = f" {call.number:,}" if call.transfer is None else ""
            # Parallel groups that differ in their number alone are one place to a reader.
            group = _NUMBER.sub("", call.group)
            text = f"{call.name}{number} of {words.group(group)}{f', called in {where}' if where else ''}"
        places.setdefault(text, []).append(rank)
    shown = [f"where it stands: {ranks_text(ranks)} in {text}" for text, ranks in list(places.items())[:_PLACES]]
    return [*shown, *([f"{len(places) - _PLACES} more places"] if len(places) > _PLACES else [])]


def _numbers(windows: Sequence[WorkerWindow], report: Report) -> list[str]:
    """Say how far the ranks are in each process group that waits: those that differ, and of the culprits, first."""
    culprits = {rank for finding in report.findings for rank in finding.ranks}
    found = list(groups_of({window.identity.rank: window.progress for window in windows}))
    found.sort(key=lambda each: (len(set(each[1].values())) == 1, culprits.isdisjoint(each[1]), each[0]))
    texts = [words.standing(*each) for each in found[:_GROUPS]]
    more = len(found) - _GROUPS
    return [*texts, *([f"{more} more process group{'s wait' if more > 1 else ' waits'}"] if more > 0 else [])]
