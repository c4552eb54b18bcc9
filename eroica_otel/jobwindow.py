"""What a window is judged from: takes what arrived, gives windows as objects, or a table and what stands for it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from eroica_otel.localize.medians import medians_of
from eroica_otel.localize.policy import Policy
from eroica_otel.localize.presence import Presence
from eroica_otel.localize.verdict import judge_columns
from eroica_otel.model import Identity, Pattern, Report, WorkerWindow
from eroica_otel.query.store import Arrived
from eroica_otel.table import Function, Table
from eroica_otel.tabled import joined, table_of, taken


class Judge(Protocol):
    """localize.judge: the workers' windows of one window id, and their reference, to a verdict."""

    def __call__(
        self,
        windows: Sequence[WorkerWindow],
        reference: Sequence[WorkerWindow] = (),
        *,
        expected: int,
        policy: Policy = ...,
        history: Sequence[Report] = (),
        presence: Mapping[int, Presence] = ...,
    ) -> Report:
        """Return the verdict."""


class JudgeTable(Protocol):
    """localize.judge_columns: the same of a window that is a table, in which something moved."""

    def __call__(
        self,
        table: Table,
        reference: Table | None = None,
        *,
        expected: int,
        policy: Policy = ...,
        history: Sequence[Report] = (),
    ) -> Report:
        """Return the verdict."""


class Judges(NamedTuple):
    """Both judges."""

    windows: Judge
    table: JudgeTable = judge_columns


class Evidence(NamedTuple):
    """What counts of a window.

    Attributes:
        windows: Who reported it, by rank; without patterns where there is a table.
        table: What is judged instead of them; None where they are.
    """

    windows: Sequence[WorkerWindow]
    table: Table | None = None

    def judged(
        self, judges: Judges, reference: Sequence[WorkerWindow], *, expected: int, policy: Policy,
        history: Sequence[Report], presence: Mapping[int, Presence],
    ) -> Report:  # fmt: skip
        """Return the verdict."""
        if self.table is not None:
            before = table_of(reference)
            return judges.table(self.table, before, expected=expected, policy=policy, history=history)
        return judges.windows(
            self.windows, reference, expected=expected, policy=policy, history=history, presence=presence
        )

    def kept(self, policy: Policy) -> tuple[WorkerWindow, ...]:
        """Return what the job remembers as its reference: of a table the medians of each peer role."""
        return tuple(self.windows) if self.table is None else medians_of(self.table, policy)


def evidence_of(team: str, arrived: Arrived, without: Collection[int]) -> Evidence:
    """Return what is judged of a window, but for the reports of some ranks."""
    windows = [window for rank, window in sorted(arrived.windows.items()) if rank not in without]
    if not arrived.tables:
        return Evidence(windows)
    parts = (taken(table, ~np.isin(table.workers.rank, sorted(without))) for table in arrived.tables)
    table = joined([*parts, *([table_of(windows)] if windows else [])])
    return Evidence(sorted(_bare(team, table), key=lambda window: window.identity.rank), table)


def _bare(team: str, table: Table) -> list[WorkerWindow]:
    """Return a window for each row, with who it is; the functions are told by the first."""
    workers = table.workers
    rows = zip(
        workers.training_job, workers.rank.tolist(), workers.host, workers.role, workers.world_size.tolist(),
        workers.window_id.tolist(), workers.reason, workers.seconds.tolist(), workers.iterations.tolist(),
        workers.end_timestamp_seconds.tolist(), workers.signature, strict=True,
    )  # fmt: skip
    functions = tuple(map(_named, table.functions))
    return [
        WorkerWindow(
            Identity(job, rank, host, team, role, world_size), window_id, reason, seconds, iterations,
            () if at else functions, end_timestamp_seconds=end, signature=signature,
        )
        for at, (job, rank, host, role, world_size, window_id, reason, seconds, iterations, end, signature)
        in enumerate(rows)
    ]  # fmt: skip


def _named(function: Function) -> Pattern:
    return Pattern(function.id, function.name, function.kind, function.family, function.resource, 0.0)
