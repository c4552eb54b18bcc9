"""The verdict on one window: takes WorkerWindows or a table of many (and those of the reference), gives a Report.

Windows are put into a table, so that there is one way to judge. A window in which nothing moved has a table of rules of
its own (hang.py).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

import numpy as np

from eroica_otel.localize.columns import Columns, columns_of
from eroica_otel.localize.hang import is_hang, judge_hang
from eroica_otel.localize.jobwide import stopped_finding
from eroica_otel.localize.policy import Policy
from eroica_otel.localize.presence import Presence
from eroica_otel.localize.roles import peer_roles
from eroica_otel.localize.ruling import ruled
from eroica_otel.localize.scene import Scene, scene_of
from eroica_otel.localize.selection import Selection, select
from eroica_otel.localize.stopped import lost_seconds
from eroica_otel.model import Finding, Report, WorkerWindow
from eroica_otel.table import Ints, Table, Unknown, Workers
from eroica_otel.tabled import table_of, workers_of
from eroica_otel.uncharged import told

_NOTHING_KNOWN: Mapping[int, Presence] = MappingProxyType({})
MISSING_NAMED = 1000
"""Missing ranks that a report lists."""


def judge(
    windows: Sequence[WorkerWindow],
    reference: Sequence[WorkerWindow] = (),
    *,
    expected: int,
    policy: Policy = Policy(),  # noqa: B008 - frozen
    history: Sequence[Report] = (),
    presence: Mapping[int, Presence] = _NOTHING_KNOWN,
) -> Report:
    """Return the verdict on one window; never raises on what workers report, but says in notes what was left out.

    Args:
        windows: What arrived of one window, in any order.
        reference: What arrived of the job's healthy window; () without one.
        expected: Workers the job should have.
        history: Earlier verdicts of the job, oldest first; they tell rotating and chronic faults from new ones.
        presence: By rank what is known of it beside its window; needed where nothing moves.
    """
    windows, reference = _by_rank(windows), _by_rank(reference)
    table = table_of(windows)
    selection = select(table.workers)
    single = [windows[row] for row in selection.single.tolist()]
    if is_hang(single, policy):
        base = _base(table.workers, selection, selection.single, expected)
        healthy = [reference[row] for row in select(workers_of(reference)).judged.tolist()]
        return judge_hang(base, single, healthy, presence, policy)
    return _judged(table, selection, table_of(reference), expected, policy, history)


def judge_columns(
    table: Table,
    reference: Table | None = None,
    *,
    expected: int,
    policy: Policy = Policy(),  # noqa: B008 - frozen
    history: Sequence[Report] = (),
) -> Report:
    """Return the verdict on one window in which something moved, as ``judge`` does; for jobs whose windows would be too
    many objects.

    Args:
        table: What arrived of one window.
        reference: What arrived of the job's healthy window, or one row for each peer role with the medians of its
            workers, whose rank is negative; None without one.
        expected: As ``judge``.
    """
    return _judged(table, select(table.workers), reference or Table.empty(), expected, policy, history)


def _by_rank(windows: Sequence[WorkerWindow]) -> list[WorkerWindow]:
    return sorted(windows, key=lambda window: window.identity.rank)


def _judged(
    table: Table, selection: Selection, reference: Table, expected: int, policy: Policy, history: Sequence[Report]
) -> Report:
    history = [report for report in history if report.reason != "blocked"]
    columns, notes = columns_of(table, selection.judged)
    before, reference_notes = _reference(reference, columns)
    sound = table.workers.at(selection.sound)
    lost = lost_seconds(sound, policy)
    stopped = stopped_finding(sound, lost, policy, history)
    base = _base(table.workers, selection, np.arange(len(table.workers)), expected)
    base = replace(base, notes=(*base.notes, *notes, *reference_notes, *_uncharged(table.unknown, selection.sound)))
    if not selection.judged.size:
        return _without_iterations(base, stopped)
    out = np.flatnonzero(np.isin(columns.ranks, sound.rank[lost > 0]))
    scene = scene_of(columns, before, peer_roles(columns, policy), policy)
    return ruled(base, scene, stopped, frozenset(out.tolist()), history)


def _base(workers: Workers, selection: Selection, rows: Ints, expected: int) -> Report:
    """Return the report without a verdict; without a sound row the first by rank of ``rows`` tells of what."""
    notes = selection.notes
    missing = np.setdiff1d(np.arange(min(expected, selection.seen.size + MISSING_NAMED + 1)), selection.seen)
    if missing.size > MISSING_NAMED:
        notes = (*notes, f"more than {MISSING_NAMED:,} ranks are missing; missing_ranks holds the first of them")
    rows = selection.sound if selection.sound.size else rows
    first = int(rows[np.argmin(workers.rank[rows])]) if rows.size else -1
    return Report(
        training_job=workers.training_job[first] if first >= 0 else "",
        window_id=int(workers.window_id[first]) if first >= 0 else 0,
        reason=workers.reason[first] if first >= 0 else "manual",
        workers_seen=selection.seen.size,
        workers_expected=expected,
        missing_ranks=tuple(missing[:MISSING_NAMED].tolist()),
        notes=notes,
    )


def _uncharged(unknown: Unknown, rows: Ints) -> tuple[str, ...]:
    here = np.isin(unknown.worker, rows)
    codes = unknown.category.codes[here]
    seconds, events = np.zeros(len(unknown.category.names)), np.zeros(len(unknown.category.names))
    np.add.at(seconds, codes, unknown.seconds[here])
    np.add.at(events, codes, unknown.events[here])
    which = [(unknown.category.names[code], code) for code in np.unique(codes).tolist()]
    counts = {name: None if math.isnan(events[code]) else int(events[code]) for name, code in which}
    return told(counts, {name: float(seconds[code]) for name, code in which})


def _without_iterations(base: Report, stopped: Finding | None) -> Report:
    reason = (
        "no worker reported a usable window"
        if base.workers_seen == 0
        else "no rank finished an iteration in the window"
    )
    note = () if stopped else (f"not enough evidence: {reason}",)
    return replace(base, findings=(stopped,) if stopped else (), notes=(*base.notes, *note))


def _reference(table: Table, columns: Columns) -> tuple[Columns | None, tuple[str, ...]]:
    """Columns of the reference, None where there is none or it is of another loop; a window is never its own
    reference.
    """
    rows = select(table.workers).judged
    if not rows.size or not len(columns.workers) or table.workers.window_id[rows[0]] == columns.workers.window_id[0]:
        return None, ()
    chosen = table.workers.at(rows)
    now, then = (
        {name for name in each.signature.distinct(range(len(each))) if name} for each in (columns.workers, chosen)
    )
    if now and then and not now & then:
        return None, ("the reference belongs to another training loop and is not used",)
    if chosen.world_size.max() != columns.workers.world_size.max():
        return None, ("the reference belongs to another number of workers and is not used",)
    return columns_of(table, rows)[0], ()


def scene_of_windows(
    windows: Sequence[WorkerWindow],
    reference: Sequence[WorkerWindow] = (),
    policy: Policy = Policy(),  # noqa: B008
) -> Scene | None:
    """Return the scene on which ``judge`` decides; None where no window holds an iteration."""
    table = table_of(_by_rank(windows))
    selection = select(table.workers)
    if not selection.judged.size:
        return None
    columns = columns_of(table, selection.judged)[0]
    before = _reference(table_of(_by_rank(reference)), columns)[0]
    return scene_of(columns, before, peer_roles(columns, policy), policy)
