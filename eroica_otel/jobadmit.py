"""Which deliveries the localizer lets in: takes the points of one worker, refuses those it would misread."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from eroica_otel import names
from eroica_otel.errors import QueryError, one_line
from eroica_otel.model import SCHEMA, Point

FUTURE_SECONDS = 86400.0
"""A worker's clock may be wrong by a day."""
_SAID_MOST = 16


class Admission:
    """Lets deliveries in; what it refuses is said here too, since the sender's log is on another machine."""

    def __init__(self, say: Callable[[str], None], wall: Callable[[], float] = time.time) -> None:
        self._say, self._wall = say, wall
        self._said: set[str] = set()

    def __call__(self, points: Iterable[Point]) -> None:
        """Let the points of one worker in.

        Raises:
            QueryError: as ``admit``.
        """
        try:
            admit(points, self._wall())
        except QueryError as error:
            if len(self._said) < _SAID_MOST and str(error) not in self._said:
                self._said.add(str(error))
                self._say(f"left out: {error}")
            raise


def admit(points: Iterable[Point], now: float, schema: int = SCHEMA) -> None:
    """Let the points of one worker in; ``now`` is unix seconds, ``schema`` that of this version.

    Points that tell no schema are of the version that is known: forwarders and looks at a backend may leave it out.

    Raises:
        QueryError: they are of a schema that is neither this one nor the one before, or of a window of the future.
    """
    for point in points:
        if point.name == names.BUILD_INFO.name and point.labels.get("schema"):
            _admit_schema(point, schema)
        elif point.name == names.WINDOW_ID.name and point.value > now + FUTURE_SECONDS:
            # It would count as newer than every true window of its job.
            raise QueryError(f"window {point.value:.0f} lies in the future; set the clock of the worker")


def _admit_schema(point: Point, schema: int) -> None:
    told, version = (one_line(point.labels.get(name, ""), 40) for name in ("schema", "version"))
    theirs = int(told) if told.isascii() and told.isdigit() else None
    if theirs in (schema, schema - 1):
        return
    who = one_line(f"rank {point.labels.get('rank', '')} of {point.labels.get('training_job', '')}", 80)
    newer = theirs is None or theirs > schema
    remedy = "install that version for the localizer too" if newer else "install this version for the workers too"
    raise QueryError(
        f"{who} sends schema {told} (eroica_otel {version or 'of an unknown version'}), this localizer reads "
        f"{schema - 1} and {schema}; {remedy}"
    )
