"""Names beside marks without overlap: takes points and texts, gives positions. Pure arithmetic."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_WIDTH = 0.62
"""Mean width of a character as a share of the font size; on the safe side for common sans-serif fonts."""
_AWAY = 11.0


def text_width(text: str, size: float) -> float:
    """Return about how wide a text is at a font size, in the same unit."""
    return len(text) * size * _WIDTH


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle: left, top, width, height."""

    x: float
    y: float
    width: float
    height: float

    def overlaps(self, other: Box) -> bool:
        """Return whether the two share any area."""
        return (
            self.x < other.x + other.width
            and other.x < self.x + self.width
            and self.y < other.y + other.height
            and other.y < self.y + self.height
        )

    def holds(self, other: Box) -> bool:
        """Return whether the other lies inside."""
        return (
            self.x <= other.x
            and self.y <= other.y
            and other.x + other.width <= self.x + self.width
            and other.y + other.height <= self.y + self.height
        )


@dataclass(frozen=True, slots=True)
class Label:
    """A text that wants to stand beside the point (x, y)."""

    x: float
    y: float
    text: str
    size: float


@dataclass(frozen=True, slots=True)
class Placed:
    """Where a text was put; ``anchor`` is start, middle or end."""

    x: float
    y: float
    anchor: str


class Labels:
    """The texts of one picture: each is placed where it hides least, none over another."""

    def __init__(self, area: Box, points: Sequence[tuple[float, float]]) -> None:
        """Start with an empty ``area`` in which ``points`` are better not covered."""
        self._area, self._points = area, points
        self._taken: list[Box] = []

    def block(self, x: float, y: float, r: float) -> None:
        """Keep texts away from a mark of radius ``r``."""
        self._taken.append(Box(x - r, y - r, 2 * r, 2 * r))

    def place(self, label: Label, must: bool = False) -> Placed | None:
        """Return a free place beside the point that covers the fewest points; None when there is none.

        With ``must`` the text is placed in any case: overlap is better than a culprit without a name.
        """
        options = list(_options(label))
        free = [item for item in options if self._free(item[1])]
        if not free and not must:
            return None
        placed, box = min(free or options, key=lambda item: (not self._area.holds(item[1]), self._covered(item[1])))
        self._taken.append(box)
        return placed

    def _free(self, box: Box) -> bool:
        return self._area.holds(box) and not any(box.overlaps(other) for other in self._taken)

    def _covered(self, box: Box) -> int:
        return sum(box.x <= x <= box.x + box.width and box.y <= y <= box.y + box.height for x, y in self._points)


def _options(label: Label) -> Iterator[tuple[Placed, Box]]:
    """Yield right, left, above, below, and the four corners, in the order in which they please."""
    width, height = text_width(label.text, label.size), label.size * 1.2
    for dx, dy in ((1, 0), (-1, 0), (0, -1), (0, 1), (1, -1), (-1, -1), (1, 1), (-1, 1)):
        x = label.x + dx * (_AWAY if dy == 0 else 7 if dx else 0)
        middle = label.y + dy * (_AWAY + height / 2 - 1)
        anchor = {1: "start", -1: "end", 0: "middle"}[dx]
        left = x - {"start": 0.0, "end": width, "middle": width / 2}[anchor]
        yield Placed(x, middle + label.size * 0.35, anchor), Box(left, middle - height / 2, width, height)
