"""A worker's critical path over its window as stacked bars by kind: takes a Timeline, gives markup. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from eroica_otel.model import KINDS, Timeline
from eroica_otel.publish.report.bars import KIND_WORDS
from eroica_otel.publish.report.markup import Markup, element, join
from eroica_otel.publish.report.words import duration, percent

_WIDTH, _HEIGHT = 840, 96


def stacked(rows: Sequence[tuple[Timeline, str]]) -> Markup:
    """Return for each worker, of whom the text says who it is, one bar for each part of its window, and the legend."""
    order = [kind for kind in (*KINDS, "idle") if any(kind in line.shares for line, _ in rows)]
    names = [
        element("li", element("span", class_=f"swatch kind-{kind}", aria_hidden="true"), KIND_WORDS[kind])
        for kind in order
    ]
    return join(
        [element("div", *(_row(line, what) for line, what in rows), class_="bars"),
         element("ul", *names, class_="legend")]
    )  # fmt: skip


def _row(line: Timeline, what: str) -> Markup:
    name = element("div", element("b", f"rank {line.rank}"), f" {what}", class_="bar-name")
    length = element("div", duration(line.seconds), class_="bar-total")
    order = [kind for kind in (*KINDS, "idle") if kind in line.shares]
    drawing = element(
        "svg", *_paths(line, order), class_="window", viewBox=f"0 0 {_WIDTH} {_HEIGHT}", preserveAspectRatio="none",
        role="img", aria_label=_told(line, order),
    )  # fmt: skip
    axis = element("div", element("span", "start"), element("span", "end of the window"), class_="window-axis")
    return element("div", element("div", name, length, class_="bar-head"), drawing, axis, class_="bar-row")


def _paths(line: Timeline, order: Sequence[str]) -> list[Markup]:
    """Return one path for each kind, which holds its piece of every bar."""
    parts = len(line.shares[order[0]]) if order else 0
    step = _WIDTH / max(parts, 1)
    height = [0.0] * parts
    paths = []
    for kind in order:
        drawn = []
        for part, share in enumerate(line.shares[kind]):
            top = _HEIGHT * (1 - height[part] - share)
            if share > 0:
                drawn.append(f"M{part * step:.1f} {top:.1f}h{step - 1:.1f}v{_HEIGHT * share:.1f}h-{step - 1:.1f}z")
            height[part] += share
        paths.append(element("path", class_=f"fill-{kind}", d="".join(drawn)))
    return paths


def _told(line: Timeline, order: Sequence[str]) -> str:
    means = [(sum(line.shares[kind]) / len(line.shares[kind]), kind) for kind in order if line.shares[kind]]
    return f"rank {line.rank}: " + ", ".join(f"{KIND_WORDS[kind]} {percent(mean)}" for mean, kind in means)
