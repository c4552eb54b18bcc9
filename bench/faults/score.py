"""What the lines of a ledger add up to: only what has run is counted, and of a case and seed the latest run. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from bench.faults.case import HANG, PUBLISHED, SILENCE, Case
from bench.faults.choose import Turn
from bench.faults.ledger import Line, of_kind, row_digest


@dataclass(frozen=True)
class Share:
    """How many of how many.

    Attributes:
        good, all: Counts.
    """

    good: int
    all: int

    def __str__(self) -> str:
        return f"{self.good} of {self.all} ({self.good / self.all:.1%})" if self.all else "none has run"


@dataclass(frozen=True)
class Run:
    """A case, the seed it ran with and the line of its latest run that is not void."""

    case: Case
    seed: int
    line: Line

    @property
    def measurable(self) -> bool:
        return bool(self.line["measurable"])

    @property
    def failed(self) -> bool:
        """Whether there was no verdict to judge."""
        return bool(self.line["error"]) and "named" not in self.line

    @property
    def right(self) -> bool:
        return bool(self.line["right"])


def latest(turns: Iterable[Turn], lines: Sequence[Line]) -> tuple[list[Run], list[Turn]]:
    """Return the runs, and the turns that have none of the row as it is now."""
    by_key = {(line["case"], line["seed"], line["row"]): line for line in of_kind(lines, "run") if not line["void"]}
    runs, absent = [], []
    for turn in turns:
        line = by_key.get((turn.case.name, turn.seed, row_digest(turn.case)))
        if line is None:
            absent.append(turn)
        else:
            runs.append(Run(turn.case, turn.seed, line))
    return runs, absent


def judged(runs: Iterable[Run]) -> list[Run]:
    """Return those in which somebody has to be named, and that count: measurable, and with a verdict."""
    return [run for run in counted(runs) if run.case.verdict != SILENCE]


def silent(runs: Iterable[Run]) -> list[Run]:
    """Return those in which nobody may be named, with a fault or without."""
    return [run for run in counted(runs) if run.case.verdict == SILENCE]


def counted(runs: Iterable[Run]) -> list[Run]:
    """Return those that are measurable and have a verdict."""
    return [run for run in runs if run.measurable and not run.failed]


def share(runs: Sequence[Run], good: Callable[[Run], bool]) -> Share:
    """Return how many of the runs are good."""
    return Share(sum(map(good, runs)), len(runs))


def right_worker(run: Run) -> bool:
    """Whether exactly those were named whom the case allows."""
    return bool(run.line["worker"])


def right(run: Run) -> bool:
    """Whether the cause is right, too."""
    return run.right


def healthy_named(runs: Iterable[Run]) -> list[Run]:
    """Return the runs in which a healthy worker was named as culprit."""
    return [run for run in runs if run.line.get("healthy")]


def seconds(runs: Iterable[Run], moment: str) -> list[float]:
    """Return the seconds from the onset to a moment, of the runs that have it."""
    found = [run.line["seconds"].get(moment) for run in runs if run.line.get("seconds")]
    return [float(one) for one in found if one is not None]


def median(values: Sequence[float]) -> float | None:
    """Return the median, None of nothing."""
    return statistics.median(values) if values else None


def alerting(runs: Iterable[Run], window_seconds: float | None = None) -> list[Run]:
    """Return runs of slow (never hanging) jobs in which an alert is right; of one length of windows, or of any."""
    return [
        run for run in judged(runs) if run.case.verdict != HANG and window_seconds in (None, run.case.window_seconds)
    ]


def hangs(runs: Iterable[Run]) -> list[Run]:
    """Return runs of jobs that stood still."""
    return [run for run in judged(runs) if run.case.verdict == HANG]


def grouped(runs: Iterable[Run], key: Callable[[Run], str]) -> dict[str, list[Run]]:
    """Return runs by a key, in order."""
    found: dict[str, list[Run]] = {}
    for run in runs:
        found.setdefault(key(run), []).append(run)
    return dict(sorted(found.items()))


def published(cases: Iterable[Case], group: str = PUBLISHED) -> list[Turn]:
    """Return the one turn of each case of a group that counts in the table."""
    return [Turn(case, case.seeds()[0]) for case in cases if case.group == group]
