"""Which workers of a backend are of a version that cannot be read: a moment in, those workers out.

Windows of large jobs come as tables, in which no worker tells its schema; one question, which finds nobody as a rule,
does that for all of them.
"""

from __future__ import annotations

from collections.abc import Iterable

from eroica_otel import names
from eroica_otel.model import SCHEMA, Point
from eroica_otel.query import promql
from eroica_otel.query.look import Asker
from eroica_otel.query.promql import Series
from eroica_otel.query.scraped import Stream, newest

_BACK_SECONDS = 300.0
"""For so long a worker counts as what it was last told to be, as in an instant question."""
_READ = ("", str(SCHEMA - 1), str(SCHEMA))
"""Schemas that are read; what tells none is of the version that is known (jobadmit.py)."""


def strangers(asker: Asker, match: str, at: float) -> dict[Stream, Point]:
    """Return who tells another schema at that time (unix seconds of the backend), with the point that tells it.

    Raises:
        QueryFailed: a question has no usable answer.
    """
    others = f'schema!~"{"|".join(_READ)}"'

    def told(*matchers: str) -> Iterable[Series]:
        selected = promql.selector([names.BUILD_INFO.name], match, *matchers)
        return asker.between(selected, at - _BACK_SECONDS, at)

    if not list(told(others)):
        return {}
    # Also who was updated meanwhile has told another: what each told last counts.
    latest = newest(asker.parts.all(told), names.BUILD_INFO)
    return {stream: point for stream, point in latest.items() if point.labels.get("schema") not in _READ}
