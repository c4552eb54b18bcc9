"""A question about all workers -> its answer, asked at once or, where that is too much, in parts of the ranks.

Each part is bounded by the longest answer (client.py), and all of them together by a number of series.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from eroica_otel.query.client import QueryFailed
from eroica_otel.query.promql import Series

SERIES_MOST = 2**21
"""Series of one name that a look holds, unless its owner says how many workers it follows."""
MOST_DIGITS = 3
"""A thousand parts at most."""

Ask = Callable[[str], Iterable[Series]]
"""Takes a matcher of the label ``rank``, "" for all, and gives the series that fit."""


class Parts:
    """Remembers in how many parts a backend has to be asked; what it once refused as a whole it is not asked again."""

    def __init__(self, most: int) -> None:
        """Take how many series an answer may hold."""
        self._most, self._digits = most, 0

    def all(self, ask: Ask) -> list[Series]:
        """Return what all parts of a question give.

        Raises:
            QueryFailed: a part has no usable answer, or there are too many series.
        """
        while True:
            try:
                found = self._asked(ask)
            except QueryFailed as error:
                if error.outcome != "too_large" or self._digits == MOST_DIGITS:
                    raise
                self._digits += 1
                continue
            if found is None:
                raise QueryFailed(
                    "too_large",
                    f"it holds more than {self._most:,} series of one name; let this localizer follow more by "
                    "--workers, or restrict it by --match",
                )
            return found

    def _asked(self, ask: Ask) -> list[Series] | None:
        """Return the series; None where there are too many."""
        found: list[Series] = []
        for ending in endings(self._digits):
            found += ask(ending and f'rank=~"{ending}"')
            if len(found) > self._most:
                return None
        return found


def endings(digits: int) -> Iterator[str]:
    """Yield regular expressions of the last ``digits`` digits, of which each text fits exactly one; "" for no digits.

    What is no rank fits the first: where a scrape configuration adds a label ``rank`` of its own, this is that one.
    """
    if not digits:
        yield ""
        return
    for ending in range(10**digits):
        short = f"|0*{ending}" if ending < 10 ** (digits - 1) else ""
        other = f"|(?:.*[^0-9][0-9]{{0,{digits - 1}}})?" if not ending else ""
        yield f".*{ending:0{digits}}{short}{other}"
