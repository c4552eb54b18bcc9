"""What a dashboard consists of, as plain data; panels.py and render.py make Grafana's JSON of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

GREEN, BLUE, YELLOW, ORANGE, RED, PURPLE, GREY = "green", "blue", "yellow", "orange", "red", "purple", "text"
JOBS, JOB, FUNCTION, WORKER, ITSELF = (
    "eroica-jobs", "eroica-job", "eroica-function", "eroica-worker", "eroica-itself",
)  # fmt: skip
"""Uids. Links and bookmarks go by them: they never change."""


@dataclass(frozen=True, slots=True)
class Query:
    """One PromQL query and how its series are called."""

    expr: str
    legend: str = ""


@dataclass(frozen=True, slots=True)
class Link:
    """A way to another board that keeps the time range.

    Attributes:
        board: Uid of the board.
        keep: Variables that go along as they are.
        values: Variables and what they become, in Grafana's words for the row or the series that was clicked.
    """

    title: str
    board: str
    keep: Sequence[str] = ()
    values: Mapping[str, str] = field(default_factory=dict)

    def url(self) -> str:
        """Return the address as Grafana fills it in."""
        kept = [f"${{{name}:queryparam}}" for name in ("datasource", *self.keep)]
        given = [f"var-{name}={value}" for name, value in self.values.items()]
        return f"/d/{self.board}?" + "&".join([*kept, *given, "${__url_time_range}"])


@dataclass(frozen=True, slots=True)
class Spot:
    """One panel.

    Attributes:
        kind: stat, table, timeseries, heatmap or timeline.
        size: Width on 24 columns, height.
        unit: Of its values; in a table, of the columns that ``units`` does not name.
        missing: Why there may be nothing, shown in its place.
        steps: (from value, colour).
        columns: Of a table, title by label, values by the letter of their query.
        hidden: Labels of a table that links need and nobody reads.
        units: Of a table's columns.
        links: By column; of other panels under "".
        states: Word and colour by value.
        colours: Colour by the name of a series, where that means something.
        axis: What the y axis of a heat map is.
        named: True where a stat shows the name of its series, not the value.
    """

    kind: str
    title: str
    description: str
    size: tuple[int, int]
    unit: str
    queries: Sequence[Query]
    missing: str
    steps: Sequence[tuple[float, str]] = ()
    stacked: bool = False
    columns: Mapping[str, str] = field(default_factory=dict)
    hidden: Sequence[str] = ()
    units: Mapping[str, str] = field(default_factory=dict)
    links: Mapping[str, Link] = field(default_factory=dict)
    states: Mapping[float, tuple[str, str]] = field(default_factory=dict)
    colours: Mapping[str, str] = field(default_factory=dict)
    axis: str = ""
    named: bool = False

    def value_column(self, letter: str) -> str:
        """Return what Grafana calls the values of a query in a table."""
        return f"Value #{letter}" if len(self.queries) > 1 else "Value"


@dataclass(frozen=True, slots=True)
class Section:
    """Panels under one heading; the first section of a board has none."""

    title: str
    spots: Sequence[Spot]


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable that asks for the values of a label.

    Attributes:
        series: Selector of the series that are asked.
        everything: Regular expression of all values, where several may be chosen; "" where it is one.
        shown: False for what only joins.
    """

    name: str
    title: str
    series: str
    label: str
    everything: str = ""
    numeric: bool = False
    shown: bool = True


@dataclass(frozen=True, slots=True)
class Board:
    """One dashboard."""

    uid: str
    title: str
    description: str
    variables: Sequence[Variable]
    sections: Sequence[Section]
    jobs: str
    """Matchers of the jobs that are shown; annotations use them."""
    since: str = "now-1h"
