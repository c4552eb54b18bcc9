"""The iteration of one worker as a bar by kind: takes a Detail and ranks, gives bars and their table. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from eroica_otel.model import KINDS, Detail
from eroica_otel.publish.report.markup import Markup, element, join
from eroica_otel.publish.report.words import capital, duration, signed

KIND_WORDS: Mapping[str, str] = MappingProxyType(
    {
        "compute": "Computing",
        "memory": "Copying memory",
        "communication": "Communication and waiting",
        "host": "Runtime calls",
        "python": "Python code",
        "idle": "Nothing recorded",
    }
)
_LABEL_FROM = 0.15
"""Smallest share of the bar's full width that has room for its number on a phone."""


def typical_peer(detail: Detail, culprits: Sequence[int]) -> int | None:
    """Return the rank that is nearest to its peers' medians (least sum of differences over kinds); None without any."""
    columns = [i for i, rank in enumerate(detail.ranks) if rank not in set(culprits)]
    if not columns or not detail.kinds:
        return None
    medians = {kind: _median([seconds[i] for i in columns]) for kind, seconds in detail.kinds.items()}

    def distance(column: int) -> float:
        differences = (abs(_known(detail.kinds[kind][column]) - middle) for kind, middle in medians.items())
        return math.fsum(differences)

    return detail.ranks[min(columns, key=lambda column: (distance(column), column))]


def bars(detail: Detail, rows: Sequence[tuple[int, str]]) -> Markup | None:
    """Return bars and a table for ``rows`` of (rank, what it is); None when the kinds are not known."""
    order = [kind for kind in (*KINDS, "idle") if kind in detail.kinds]
    order += sorted(kind for kind in detail.kinds if kind not in order)
    index = {rank: column for column, rank in enumerate(detail.ranks)}
    rows = [row for row in rows if row[0] in index]
    if not rows or not order:
        return None
    columns = [index[rank] for rank, _ in rows]
    order = [kind for kind in order if any(detail.kinds[kind][column] != 0 for column in columns)]
    values = [[detail.kinds[kind][column] for kind in order] for column in columns]
    longest = max(math.fsum(_known(value) for value in row) for row in values)
    drawn = [_bar(row, order, value, longest) for row, value in zip(rows, values, strict=True)]
    return join([element("div", *drawn, class_="bars"), _table(rows, order, values)])


def _bar(row: tuple[int, str], order: Sequence[str], values: Sequence[float], longest: float) -> Markup:
    total = math.fsum(_known(value) for value in values)
    segments = []
    for kind, value in zip(order, values, strict=True):
        share = _known(value) / longest if longest > 0 else 0.0
        if share > 0:
            text = element("span", duration(value)) if share >= _LABEL_FROM else None
            segments.append(
                element("div", text, class_=f"segment {_class(kind)}", style=f"width:{share * 100:.2f}%",
                        title=f"{_word(kind)}: {duration(value)}")
            )  # fmt: skip
    head = element("div", element("b", f"rank {row[0]}"), f" {row[1]}", class_="bar-name")
    head_total = element("div", duration(total), class_="bar-total")
    bar = element("div", *segments, class_="bar", aria_hidden="true")
    return element("div", element("div", head, head_total, class_="bar-head"), bar, class_="bar-row")


def _table(rows: Sequence[tuple[int, str]], order: Sequence[str], values: Sequence[Sequence[float]]) -> Markup:
    two = len(rows) == 2
    heads = [element("th", "Part", scope="col")]
    heads += [element("th", f"rank {rank}", scope="col", class_="number") for rank, _ in rows]
    heads += [element("th", "vs. peer", scope="col", class_="number")] if two else []
    lines = []
    for i, kind in enumerate(order):
        swatch = element("span", class_=f"swatch {_class(kind)}", aria_hidden="true")
        cells = [element("th", swatch, _word(kind), scope="row")]
        cells += [element("td", duration(row[i]), class_="number") for row in values]
        if two:
            cells.append(element("td", _difference(values[0][i] - values[1][i]), class_="number"))
        lines.append(element("tr", *cells))
    return element("table", element("thead", element("tr", *heads)), element("tbody", *lines), class_="legend-table")


def _difference(seconds: float) -> str:
    return signed(duration(seconds)).replace("-", "\u2212") if abs(seconds) >= 0.00005 or seconds != seconds else "0 ms"


def _word(kind: str) -> str:
    return KIND_WORDS.get(kind, capital(kind))


def _class(kind: str) -> str:
    return f"kind-{kind}" if kind in KIND_WORDS else "kind-other"


def _known(value: float) -> float:
    return value if math.isfinite(value) and value > 0 else 0.0


def _median(values: Sequence[float]) -> float:
    finite = sorted(value for value in values if math.isfinite(value))
    if not finite:
        return 0.0
    middle = len(finite) // 2
    return finite[middle] if len(finite) % 2 else (finite[middle - 1] + finite[middle]) / 2
