"""Layout ``vec`` of remote write: which series of a page go as vectors (vectors.py), and which were told already.

A backend that deduplicates (-dedup.minScrapeInterval, Thanos, Mimir's HA tracker, downsampling) would keep one slot of
a vector: before the first one a probe is written and read back, and where a sample is missing, or nobody may read,
the layout is that of labels.
"""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterable, Mapping, Sequence

from eroica_otel import names
from eroica_otel.export import remotewire
from eroica_otel.export.remotewire import STALE_BITS, Labels, value_bits
from eroica_otel.model import Point
from eroica_otel.vectors import IN_A_VECTOR, SLOTS_MOST, Vector, vectors

FRAGMENT = "vec"
"""At the end of the address of remote write, http://HOST/api/v1/write#vec: asks for this layout."""
PROBE_SLOTS = 8
PROBE_TRIES = 8
TOLD_SECONDS = 3600.0
"""After this time a dictionary is told again: a backend that was replaced would have none."""
_KEPT = {names.WINDOW_ID.name, names.WORLD_SIZE.name, names.WORKER_INFO.name}
"""What stays a series of its own as well: by it a worker and its windows are found."""
_TIMEOUT_SECONDS = 10.0
_ANSWER_BYTES = 2**20

Row = tuple[Labels, Sequence[int]]
"""Labels of a series and the bits of its samples, STEP_MILLIS apart."""


class VecLayout:
    """What is sent of the pages of one worker."""

    def __init__(self, added: Sequence[tuple[str, str]]) -> None:
        """Take the labels that stand on every series beside the worker's own."""
        self._added = tuple(added)
        self._sent: float | None = None
        self._told: dict[str, float] = {}

    def split(self, page: Sequence[Point]) -> tuple[list[Point], list[Vector], dict[str, str]]:
        """Return what goes as labels, the vectors of a window that was not sent yet, and the worker's labels."""
        plain, inside = [], []
        for point in page:
            if point.name in IN_A_VECTOR:
                inside.append(point)
            if point.name not in IN_A_VECTOR or point.name in _KEPT:
                plain.append(point)
        ids = [point for point in inside if point.name == names.WINDOW_ID.name]
        shown = any(point.name == names.KIND_BETA.name for point in inside)
        if not ids or not shown or ids[-1].value == self._sent:
            return plain, [], {}
        own = {name: ids[-1].labels.get(name, "") for name in names.IDENTITY}
        found = vectors(inside)
        if max(len(vector.slots) for vector in found) > SLOTS_MOST:
            return [*page], [], {}
        return plain, found, own

    def rows(self, found: Iterable[Vector], own: Mapping[str, str]) -> list[Row]:
        """Return the series of vectors; each is ended after its last slot, so that nothing stays behind it."""
        return [
            (
                self._labels(names.VECTOR, {**own, "part": vector.part, "dict": vector.dict}),
                [*(value_bits(value) for value in vector.values), STALE_BITS],
            )
            for vector in found
        ]

    def dictionary(self, found: Iterable[Vector], own: Mapping[str, str], now: float) -> list[Row]:
        """Return the series of the dictionaries that were not told lately."""
        job = {name: own[name] for name in names.JOB}
        return [
            (
                remotewire.labels(
                    names.VECTOR_INFO.name,
                    {**job, **slot.all_labels(), "dict": vector.dict, "slot": str(at), "series": slot.name}.items(),
                ),
                [value_bits(1.0)],
            )
            for vector in found
            if now - self._told.get(vector.dict, -TOLD_SECONDS) >= TOLD_SECONDS
            for at, slot in enumerate(vector.slots)
        ]

    def told(self, found: Iterable[Vector], now: float) -> None:
        """Note that these dictionaries arrived."""
        fresh = {name: when for name, when in self._told.items() if now - when < TOLD_SECONDS}
        self._told = fresh | {vector.dict: now for vector in found}

    def sent(self, found: Iterable[Vector]) -> None:
        """Note that these vectors arrived: their window is not sent again."""
        for vector in found:
            for slot, value in zip(vector.slots, vector.values, strict=True):
                if slot.name == names.WINDOW_ID.name:
                    self._sent = value

    def probe(self, own: Mapping[str, str]) -> Row:
        """Return the series of the probe; slot i has the value i."""
        return self._labels(names.VECTOR_PROBE, own), [value_bits(float(at)) for at in range(PROBE_SLOTS)]

    def _labels(self, metric: names.Metric, own: Mapping[str, str]) -> Labels:
        return remotewire.labels(metric.name, (*own.items(), *self._added))


def is_refused_as_old(why: str) -> bool:
    """Return whether a sample was refused because another worker's came after it: its series is there then."""
    return any(words in why for words in ("out of order", "duplicate sample", "too old sample", "out of bounds"))


def query_address(write_url: str) -> str:
    """Return where a backend is asked, by the address that it is written to; "" where that does not tell."""
    parts = urllib.parse.urlsplit(write_url)
    for ending in ("/api/v1/write", "/api/v1/push"):
        if parts.path.endswith(ending):
            root = parts.path.removesuffix(ending)
            # Mimir is written to at /api/v1/push and asked below /prometheus.
            root += "/prometheus" if ending.endswith("push") else ""
            # VictoriaMetrics' cluster is written to below /insert and asked below /select, at another server.
            return "" if "/insert/" in parts.path else parts._replace(path=f"{root}/api/v1/query", fragment="").geturl()
    return ""


def kept_slots(address: str, labels: Labels, headers: Mapping[str, str], attempt: int) -> int:
    """Return how many slots of the probe the backend shows; it is asked once.

    VictoriaMetrics remembers for a while that it found nothing, so that each ``attempt`` asks something else.

    Raises:
        OSError: nobody answers, or they refuse.
        ValueError: the answer is none.
    """
    inside = ",".join(f"{name}={json.dumps(value)}" for name, value in labels)
    inside += f',attempt{attempt}=""'
    body = urllib.parse.urlencode({"query": f"{{{inside}}}[300s]", "nocache": "1"}).encode()
    own = {"Content-Type": "application/x-www-form-urlencoded"}
    kept = {name: value for name, value in headers.items() if name not in ("Content-Type", "Content-Encoding")}
    asked = urllib.request.Request(address, body, kept | own, method="POST")
    try:
        with urllib.request.urlopen(asked, timeout=_TIMEOUT_SECONDS) as answer:
            found = json.loads(answer.read(_ANSWER_BYTES))
        return max((len(one["values"]) for one in found["data"]["result"]), default=0)
    except (http.client.HTTPException, KeyError, TypeError) as error:
        raise ValueError(f"the answer is none of a PromQL API ({type(error).__name__})") from error


def why_not(url: str, labels: Labels, headers: Mapping[str, str], pause: Callable[[float], bool]) -> str:
    """Return why vectors cannot be used after the probe was written; "" where all its slots are there.

    VictoriaMetrics shows what was written after a second or two, so it is asked some times.
    """
    address = query_address(url)
    if not address:
        return "this address does not tell where the backend could be asked"
    seen = 0
    for attempt in range(PROBE_TRIES):
        try:
            seen = kept_slots(address, labels, headers, attempt)
        except (OSError, ValueError) as error:
            return f"{address} cannot be asked ({error})"
        if seen >= PROBE_SLOTS:
            return ""
        if pause(1.0):
            break
    return f"the backend shows {seen} of {PROBE_SLOTS} samples that are 1 ms apart; does it deduplicate?"
