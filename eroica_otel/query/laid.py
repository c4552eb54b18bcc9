"""Windows in layout ``vec`` (vectors.py): series of vectors in, points as those of the layout of labels out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from eroica_otel import names
from eroica_otel.model import Point
from eroica_otel.query import promql
from eroica_otel.query.otlp import cut
from eroica_otel.query.promql import Series
from eroica_otel.query.scraped import Stream, own_labels, stream_of
from eroica_otel.vectors import SLOTS_MOST, STEP_MILLIS, Slot, hash_of, points, slot_of

TOLD_SECONDS = 30 * 86400.0
"""How far back a dictionary is looked for: workers tell it again each hour in which they have a window."""
DICTIONARIES_KEPT = 4096

Ask = Callable[[str], Iterable[Series]]


class Dictionaries:
    """The dictionaries of a backend, asked for once each."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Slot, ...]] = {}

    def slots(self, wanted: Iterable[str], ask: Ask) -> Mapping[str, tuple[Slot, ...]]:
        """Return the slots of these dictionaries; one that is not whole, or not what its hash says, is absent.

        Raises:
            QueryFailed: the question has no usable answer.
        """
        unknown = sorted(set(wanted) - self._known.keys())
        if unknown:
            selected = promql.selector([names.VECTOR_INFO.name], promql.matcher("dict", unknown))
            found: dict[str, dict[int, Slot]] = {}
            for series in ask(f"last_over_time({promql.raw(selected, TOLD_SECONDS)})"):
                _take(series.labels, found)
            if len(self._known) > DICTIONARIES_KEPT:
                self._known = {}
            self._known |= {name: tuple(slots[at] for at in sorted(slots)) for name, slots in found.items()
                            if hash_of(slots[at] for at in sorted(slots)) == name}  # fmt: skip
        return self._known

    def points(
        self, laid: Sequence[Series], spans: Mapping[Stream, tuple[float, float]], ask: Ask
    ) -> dict[Stream, list[Point]]:
        """Return for each stream what its vectors say that begin in its span; a vector without a dictionary is absent.

        Raises:
            QueryFailed: a dictionary cannot be asked for.
        """
        found: dict[Stream, list[Point]] = {}
        known = self.slots((series.labels.get("dict", "") for series in laid), ask)
        for series in laid:
            own, added = own_labels(series.labels, names.VECTOR)
            stream = stream_of(own, added)
            slots = known.get(own["dict"])
            if stream is None or stream not in spans or slots is None:
                continue
            values = values_in(series, spans[stream][0], len(slots))
            if values is not None:
                identity = {name: own[name] for name in names.IDENTITY}
                found.setdefault(stream, []).extend(points(slots, values, identity))
        return found


def values_in(series: Series, begin: float, slots: int) -> tuple[float, ...] | None:
    """Return the values of the vector that begins at ``begin``; None unless each slot is there, a step after the other.

    What a backend thinned out must not be taken for values of other slots.
    """
    first = round(begin * 1000)
    inside = {round(when * 1000) - first: value for when, value in series.samples}
    try:
        return tuple(inside[at * STEP_MILLIS] for at in range(slots))
    except KeyError:
        return None


def _take(labels: Mapping[str, str], found: dict[str, dict[int, Slot]]) -> None:
    """Take a series of a dictionary in; what another program wrote there is left out."""
    at, name = labels.get("slot", ""), labels.get("series", "")
    if at.isascii() and at.isdigit() and int(at) < SLOTS_MOST and name in names.BY_NAME:
        short = {key: cut(key, value) for key, value in labels.items()}
        found.setdefault(labels.get("dict", ""), {})[int(at)] = slot_of(name, short)
