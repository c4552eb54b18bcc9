"""Picture of one function over all ranks: takes a FunctionDetail and who is to be marked, gives inline SVG. Pure.

One dot per rank at its time per iteration; the culprits are diamonds with a name, so that nothing depends on colour.
Two drawings are made, for a wide and for a narrow page, because text in a picture that shrinks cannot be read.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from eroica_otel.model import FunctionDetail
from eroica_otel.publish.report.labels import Box, Label, Labels, text_width
from eroica_otel.publish.report.markup import Markup, element, join
from eroica_otel.publish.report.scale import nice_ticks, rank_ticks, unit_of
from eroica_otel.publish.report.words import duration, percent

HOVER = 256
"""Up to this many ranks each dot tells its rank when the mouse rests on it."""
NAMED = 8
"""Most culprits that are written beside their mark."""
_RADII = ((64, 5.0), (HOVER, 3.2), (1024, 2.2), (math.inf, 1.6))
"""Radius of a dot up to a number of ranks."""
OTHERS_NAMED = 4
"""Most ranks outside the tolerated range that are named although they are no culprits."""


@dataclass(frozen=True, slots=True)
class Sheet:
    """Size of a drawing and the margins around its plot, in user units (CSS pixels at full size)."""

    name: str
    width: float
    height: float
    left: float
    right: float
    top: float
    bottom: float
    ticks: int
    hosts: int


WIDE = Sheet("wide", 840, 310, 54, 8, 30, 60, 16, 8)
NARROW = Sheet("narrow", 320, 260, 40, 6, 30, 58, 8, 4)
SMALL = Sheet("small", 400, 190, 48, 6, 30, 58, 8, 0)


@dataclass(frozen=True, slots=True)
class Story:
    """What the picture shows.

    Attributes:
        function: Its seconds are in the order of ``ranks``.
        ranks: Rank of each column.
        hosts: Host of each column.
        culprits: Ranks to mark.
        named: A rank that is named although it is no culprit, None for none.
        share: What the values are where they are shares in [0, 1] and no seconds, "" for seconds per iteration.
    """

    function: FunctionDetail
    ranks: Sequence[int]
    hosts: Sequence[str]
    culprits: frozenset[int]
    named: int | None = None
    share: str = ""

    def text(self, value: float) -> str:
        """Return a value in words; what one that is missing means."""
        if not math.isfinite(value):
            return "not measured" if self.share else "too small to be reported"
        return percent(value) if self.share else duration(value)

    def band(self) -> tuple[float, float] | None:
        """Return the tolerated range of seconds around the median, None where it is not known."""
        median, tolerance = self.function.median, self.function.tolerance
        if not (math.isfinite(median) and math.isfinite(tolerance)):
            return None
        return max(median - tolerance, 0.0), median + tolerance

    def outside(self) -> list[int]:
        """Return the columns outside the tolerated range that are no culprits, furthest first."""
        band = self.band()
        if band is None:
            return []
        far = [
            (abs(value - self.function.median), index)
            for index, value in enumerate(self.function.seconds)
            if math.isfinite(value) and not band[0] <= value <= band[1] and self.ranks[index] not in self.culprits
        ]
        return [index for _, index in sorted(far, key=lambda item: (-item[0], item[1]))]


class Plot:
    """Positions on one sheet."""

    def __init__(self, story: Story, sheet: Sheet) -> None:
        """Fix the scale of the axis from the values of the story."""
        self.story, self.sheet = story, sheet
        self.blocks = host_blocks(story.hosts, sheet.hosts)
        self.height = sheet.height if self.blocks else sheet.height - 30
        finite = [value for value in story.function.seconds if math.isfinite(value)]
        top = max(finite, default=0.0)
        for extra in (story.function.median + story.function.tolerance, story.function.reference):
            top = max(top, extra) if math.isfinite(extra) and extra <= 2 * top else top
        self.unit, self.scale = ("%", 100.0) if story.share else unit_of(top)
        self.ticks = nice_ticks(top * self.scale * 1.02, 5)
        self.top = self.ticks[-1] / self.scale
        self.base = sheet.height - sheet.bottom  # the same with and without the nodes
        self.count = max(len(story.ranks), 1)
        self.radius = next(radius for most, radius in _RADII if self.count <= most)

    def x(self, index: float) -> float:
        """Return the horizontal position of a column's middle."""
        return self.sheet.left + (index + 0.5) * (self.sheet.width - self.sheet.left - self.sheet.right) / self.count

    def y(self, seconds: float) -> float:
        """Return the vertical position of a time, kept inside the plot."""
        share = min(max(seconds / self.top, 0.0), 1.0)
        return self.base - share * (self.base - self.sheet.top)


def draw(story: Story, sheet: Sheet, alternative: str) -> Markup:
    """Return the drawing; ``alternative`` is what a reader who cannot see it is told."""
    plot = Plot(story, sheet)
    parts = [*_grid(plot), *_band(plot), *_dots(plot), *_rank_axis(plot), *_host_axis(plot), *_marks(plot)]
    return element(
        "svg", join(parts), class_=f"plot {sheet.name}", viewBox=f"0 0 {sheet.width:g} {plot.height:g}",
        role="img", aria_label=alternative,
    )  # fmt: skip


def _grid(plot: Plot) -> Iterator[Markup]:
    sheet = plot.sheet
    for tick in plot.ticks:
        y = plot.y(tick / plot.scale)
        kind = "axis" if tick == 0 else "grid"
        yield element("line", class_=kind, x1=sheet.left, x2=sheet.width - sheet.right, y1=y, y2=y)
        yield element("text", f"{tick:g}", class_="tick end", x=sheet.left - 8, y=y + 4)
    what = f"% {plot.story.share}" if plot.story.share else f"{plot.unit} per iteration"
    yield element("text", what, class_="tick", x=0, y=sheet.top - 16)


def _band(plot: Plot) -> Iterator[Markup]:
    sheet, function, band = plot.sheet, plot.story.function, plot.story.band()
    if band is not None:
        high, low = plot.y(band[1]), plot.y(band[0])
        width = sheet.width - sheet.left - sheet.right
        yield element("rect", class_="band", x=sheet.left, y=high, width=width, height=max(low - high, 1.0))
    for name, value in (("reference", function.reference), ("median", function.median)):
        if math.isfinite(value) and value <= plot.top:
            y = plot.y(value)
            yield element("line", class_=name, x1=sheet.left, x2=sheet.width - sheet.right, y1=y, y2=y)


def _dots(plot: Plot) -> Iterator[Markup]:
    story = plot.story
    columns = [index for index, rank in enumerate(story.ranks) if rank not in story.culprits]
    seen = [index for index in columns if math.isfinite(story.function.seconds[index])]
    absent = [index for index in columns if not math.isfinite(story.function.seconds[index])]
    if plot.count <= HOVER:
        yield from (_dot(plot, index) for index in columns)
        return
    if seen:
        path = "".join(f"M{plot.x(i):.1f} {plot.y(story.function.seconds[i]):.1f}h0" for i in seen)
        yield element("path", class_="dots", d=path, stroke_width=2 * plot.radius)
    if absent:
        yield element("path", class_="rug", d="".join(f"M{plot.x(i):.1f} {plot.base:.1f}v-6" for i in absent))


def _dot(plot: Plot, index: int) -> Markup:
    value = plot.story.function.seconds[index]
    title = element("title", _told(plot.story, index, plot.story.text(value)))
    known = math.isfinite(value)
    return element("g", title, _circle(plot, index, _height(plot, index), "dot" if known else "absent"))


def _circle(plot: Plot, index: int, y: float, kind: str) -> Markup:
    return element("circle", class_=kind, cx=plot.x(index), cy=y, r=plot.radius)


def _told(story: Story, index: int, value: str) -> str:
    return ", ".join(part for part in (f"rank {story.ranks[index]}", story.hosts[index], value) if part)


def _rank_axis(plot: Plot) -> Iterator[Markup]:
    for index in rank_ticks(plot.count, plot.sheet.ticks, text_room(plot)):
        if index < len(plot.story.ranks):
            label = f"{plot.story.ranks[index]}"
            yield element("text", label, class_="tick middle", x=plot.x(index), y=plot.base + 18)
    yield element("text", "rank", class_="tick end", x=plot.sheet.left - 8, y=plot.base + 18)


def text_room(plot: Plot) -> int:
    """Return how many rank numbers fit side by side."""
    widest = max((text_width(str(rank), 12) for rank in plot.story.ranks), default=8.0)
    return int((plot.sheet.width - plot.sheet.left - plot.sheet.right) / (widest + 8))


def host_blocks(hosts: Sequence[str], most: int) -> list[tuple[str, int, int]]:
    """Return (host, first column, last column) of neighbours on one node; empty when they are one or too many."""
    blocks: list[tuple[str, int, int]] = []
    for index, host in enumerate(hosts):
        if blocks and blocks[-1][0] == host:
            blocks[-1] = (host, blocks[-1][1], index)
        else:
            blocks.append((host, index, index))
    return blocks if 2 <= len(blocks) <= most and all(host for host, _, _ in blocks) else []


def _host_axis(plot: Plot) -> Iterator[Markup]:
    if not plot.blocks:
        return
    half = (plot.x(1) - plot.x(0)) / 2
    y = plot.base + 30
    yield element("text", "node", class_="tick end", x=plot.sheet.left - 8, y=y + 16)
    for host, first, last in plot.blocks:
        left, right = plot.x(first) - half + 3, plot.x(last) + half - 3
        yield element("path", class_="bracket", d=f"M{left:.1f} {y - 3:.1f}v3H{right:.1f}v-3")
        name = fitted(host, right - left)
        yield element("text", name, class_="tick middle", x=(left + right) / 2, y=y + 16)


def fitted(text: str, room: float, size: float = 12) -> str:
    """Return the text, its middle replaced by "…" where it is wider than ``room``."""
    if text_width(text, size) <= room:
        return text
    keep = int(room / text_width("x", size)) - 1
    return "…" if keep < 2 else f"{text[: (keep + 1) // 2]}…{text[len(text) - keep // 2 :]}"


def _marks(plot: Plot) -> Iterator[Markup]:
    story = plot.story
    seconds = story.function.seconds
    guilty = [index for index, rank in enumerate(story.ranks) if rank in story.culprits]
    guilty.sort(key=lambda index: -seconds[index] if math.isfinite(seconds[index]) else math.inf)
    labels = Labels(Box(2, 2, plot.sheet.width - 4, plot.base - 4), _dot_points(plot))
    size = max(plot.radius * 1.6, 5.5)
    for index in guilty:
        yield _diamond(plot, index, size)
        labels.block(plot.x(index), _height(plot, index), size)
    for position, index in enumerate(guilty[:NAMED]):
        yield from _name(plot, labels, index, "name", position == 0)
    named = [index for index, rank in enumerate(story.ranks) if rank == story.named]
    for index in (*named, *(index for index in story.outside()[:OTHERS_NAMED] if index not in named)):
        yield from _name(plot, labels, index, "other", must=False)


def _height(plot: Plot, index: int) -> float:
    value = plot.story.function.seconds[index]
    return plot.y(value) if math.isfinite(value) else plot.base


def _dot_points(plot: Plot) -> list[tuple[float, float]]:
    return [
        (plot.x(index), _height(plot, index))
        for index, rank in enumerate(plot.story.ranks)
        if rank not in plot.story.culprits
    ]


def _diamond(plot: Plot, index: int, r: float) -> Markup:
    x, y = plot.x(index), _height(plot, index)
    title = element("title", _told(plot.story, index, plot.story.text(plot.story.function.seconds[index])))
    path = f"M{x:.1f} {y - r:.1f}l{r:.1f} {r:.1f}l-{r:.1f} {r:.1f}l-{r:.1f} -{r:.1f}z"
    return element("g", title, element("path", class_="culprit", d=path))


def _name(plot: Plot, labels: Labels, index: int, kind: str, must: bool) -> Iterator[Markup]:
    rank, host = plot.story.ranks[index], plot.story.hosts[index]
    value = plot.story.text(plot.story.function.seconds[index])
    wide = plot.sheet is WIDE and kind == "name"
    text = ", ".join(part for part in (f"rank {rank}", host if wide and len(host) <= 40 else "", value) if part)
    label = labels.place(Label(plot.x(index), _height(plot, index), text, 13 if kind == "name" else 12), must)
    if label is not None:
        yield element("text", text, class_=f"{kind} {label.anchor}", x=label.x, y=label.y)
