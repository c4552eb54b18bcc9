"""The numbers behind the verdict, folded away: takes a Report, gives tables in <details>. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

from eroica_otel.model import KINDS, Detail, FunctionDetail, Report
from eroica_otel.publish.report.bars import KIND_WORDS
from eroica_otel.publish.report.markup import Markup, element, join
from eroica_otel.publish.report.words import UNKNOWN, capital, duration, numbers, percent, place, signed, visible

ROWS = 128
"""Most ranks in the table of ranks; report.json holds all."""


def raw_numbers(report: Report) -> Markup | None:
    """Return the folded tables: distances of the findings, functions, ranks."""
    detail = report.detail
    blocks = [_folded("Distances of each finding", _distances(report))]
    if detail is not None:
        blocks.append(_folded("Functions over all ranks", _functions(detail)))
        blocks.append(_folded("Each rank by kind of work", _ranks(report, detail)))
    return join(blocks) or None


def _folded(title: str, content: Markup | None) -> Markup | None:
    if content is None:
        return None
    return element("details", element("summary", title), element("div", content, class_="scroll"))


def _distances(report: Report) -> Markup | None:
    if not report.findings:
        return None
    rows = [
        (
            capital(place(finding)),
            visible(finding.function) or "-",
            _share(finding.differential_distance),
            _change(finding.drift_distance),
            UNKNOWN if finding.expectation_distance is None else f"{finding.expectation_distance:.3f}",
        )
        for finding in report.findings
    ]
    text = (
        "Differential distance: the share of peers from which the worker differs by more than is tolerated. "
        "Drift distance: the change against the healthy reference, as a share of the iteration. "
        "Expectation distance: how far outside the range expected for this kind of function, 0 when inside."
    )
    heads = ("Who", "Function", "Differential", "Drift", "Expectation")
    return join([element("p", text), _table(heads, rows, text_columns=2)])


def _share(value: float | None) -> str:
    return UNKNOWN if value is None else percent(value)


def _change(value: float | None) -> str:
    return UNKNOWN if value is None else signed(percent(value))


def _functions(detail: Detail) -> Markup | None:
    if not detail.functions:
        return None
    heads = ("Function", "Kind", "Median", "Tolerance", "Reference", "Lowest", "Highest", "CPU time of the highest")
    return _table(heads, [_function(detail, one) for one in detail.functions], text_columns=2)


def _function(detail: Detail, function: FunctionDetail) -> tuple[str, ...]:
    known = [(value, i) for i, value in enumerate(function.seconds) if math.isfinite(value)]
    low, high = (min(known), max(known)) if known else ((math.nan, -1), (math.nan, -1))
    cpu = function.cpu_seconds[high[1]] if known else math.nan
    return (
        visible(function.function),
        function.kind,
        duration(function.median),
        f"± {duration(function.tolerance)}" if math.isfinite(function.tolerance) else UNKNOWN,
        duration(function.reference),
        _at(detail, low),
        _at(detail, high),
        duration(cpu),
    )


def _at(detail: Detail, found: tuple[float, int]) -> str:
    value, index = found
    return UNKNOWN if index < 0 else f"{duration(value)} (rank {detail.ranks[index]})"


def _ranks(report: Report, detail: Detail) -> Markup | None:
    if not detail.ranks:
        return None
    kinds = [kind for kind in (*KINDS, "idle") if kind in detail.kinds]
    main = detail.functions[0] if detail.functions else None
    heads = ["Rank", "Node", *([visible(main.function)] if main else []), *(KIND_WORDS[kind] for kind in kinds)]
    rows = []
    columns = shown_ranks(report, detail)
    for i in columns:
        own = [duration(main.seconds[i]) if math.isfinite(main.seconds[i]) else "too small"] if main else []
        rows.append((f"{detail.ranks[i]}", detail.hosts[i], *own, *(duration(detail.kinds[kind][i]) for kind in kinds)))
    left = set(range(len(detail.ranks))) - set(columns)
    note = None
    if left:
        rest = numbers((detail.ranks[i] for i in left), limit=4)
        note = element("p", f"Not shown: ranks {rest}. The file report.json holds every rank.")
    return join([_table(heads, rows, text_columns=2), note])


def shown_ranks(report: Report, detail: Detail) -> list[int]:
    """Return the columns of the table of ranks, in order: all up to ROWS, else the culprits and the furthest."""
    if len(detail.ranks) <= ROWS:
        return list(range(len(detail.ranks)))
    culprits = {rank for finding in report.findings for rank in finding.ranks}
    main = detail.functions[0] if detail.functions else None

    def order(i: int) -> tuple[bool, float, int]:
        far = abs(main.seconds[i] - main.median) if main is not None else 0.0
        return detail.ranks[i] not in culprits, -far if math.isfinite(far) else 0.0, i

    return sorted(sorted(range(len(detail.ranks)), key=order)[:ROWS])


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]], text_columns: int) -> Markup:
    classes = [None if i < text_columns else "number" for i in range(len(heads))]
    head = element("tr", *(element("th", text, scope="col", class_=c) for text, c in zip(heads, classes, strict=True)))
    body = [
        element("tr", *(element("td", text, class_=c) for text, c in zip(row, classes, strict=True))) for row in rows
    ]
    return element("table", element("thead", head), element("tbody", *body), class_="raw")
