"""What was read of a window -> the table that is judged: from vectors (bulk.py), or from labels (labelled.py)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from eroica_otel import names
from eroica_otel.model import HOST_RATES, HOST_RATIOS, KINDS, REASONS
from eroica_otel.query import bulk
from eroica_otel.table import (
    Calls,
    Codes,
    Doubles,
    Floats,
    Function,
    Ints,
    Table,
    Unknown,
    Words,
    Workers,
    not_measured,
)
from eroica_otel.vectors import SHARE, WHOLE, Slot

Part = tuple[Slot, Codes, Any]
"""What numbers are, of which workers (rows), and the numbers."""
_NUMBERS = {
    "seconds": names.WINDOW_SECONDS, "cpu_seconds": names.WINDOW_CPU, "sampler_gap_seconds": names.WINDOW_GAP,
    "throttled_ratio": names.WINDOW_THROTTLED, "run_delay_ratio": names.WINDOW_RUN_DELAY,
}  # fmt: skip
_OR_ZERO = {
    "floor": names.PATTERN_FLOOR, "stopped_seconds": names.WINDOW_STOPPED, "end_timestamp_seconds": names.WINDOW_END,
}  # fmt: skip
_COUNTS = {
    "world_size": names.WORLD_SIZE, "window_id": names.WINDOW_ID, "iterations": names.WINDOW_ITERATIONS,
}  # fmt: skip


class Facts(Protocol):
    """What was read of one window; every worker has a row."""

    @property
    def ranks(self) -> Ints:
        """Rank of each row, [W]."""

    @property
    def hosts(self) -> Words:
        """Host of each row, [W]."""

    @property
    def roles(self) -> Words:
        """Role of each row, [W]."""

    def slots(self, metric: names.Metric) -> Iterator[Part]:
        """Yield all of a series; NaN is not measured."""


class _Block(NamedTuple):
    """A function on the workers that have it, by row, [n] each."""

    rows: Codes
    beta: Floats
    mu: Floats
    sigma: Floats
    noise: Floats


class Vectors:
    """Facts of tables of vectors: of workers that have both parts."""

    def __init__(self, tables: Sequence[bulk.Table]) -> None:
        whole, share = (_glued([one.ranks for one in tables if one.part == part], np.int64) for part in (WHOLE, SHARE))
        self.ranks: Ints = np.intersect1d(whole, share)
        self._tables = [(one, *self._rows(one)) for one in tables]
        self.hosts, self.roles = self._words(lambda table: table.hosts), self._words(lambda table: table.roles)

    def _rows(self, table: bulk.Table) -> tuple[Codes, Ints]:
        """Return the row of each worker of a table, and in which of its rows it stands, by row."""
        order = np.argsort(table.ranks, kind="stable")
        order = order[np.isin(table.ranks[order], self.ranks)]
        return np.searchsorted(self.ranks, table.ranks[order]).astype(np.int32), order

    def slots(self, metric: names.Metric) -> Iterator[Part]:
        """Yield all of a series."""
        for table, rows, order in self._tables:
            for slot, values in bulk.columns_of(table, metric.name):
                yield slot, rows, values[order]

    def _words(self, of: Callable[[bulk.Table], Sequence[str]]) -> Words:
        found = np.full(self.ranks.size, "", object)
        for table, rows, order in self._tables:
            if table.part == WHOLE:
                found[rows] = np.array(of(table), object)[order]
        return Words.of(found.tolist())


def table_of(training_job: str, facts: Facts) -> Table:
    """Return the table of one window of one job."""
    blocks = _blocks(facts)
    parts, functions = list(blocks.values()), tuple(blocks)
    counts = [part.rows.size for part in parts]
    return Table(
        _workers(training_job, facts), functions,
        worker=_glued([part.rows for part in parts], np.int32),
        function=np.repeat(np.arange(len(parts), dtype=np.int32), counts),
        beta=_glued([part.beta for part in parts]), mu=_glued([part.mu for part in parts]),
        sigma=_glued([part.sigma for part in parts]), noise=_glued([part.noise for part in parts]),
        calls=_calls(facts, functions), unknown=_unknown(facts),
    )  # fmt: skip


def _blocks(facts: Facts) -> dict[Function, _Block]:
    stacks = {
        dict(slot.labels).get("function_id", ""): dict(slot.labels).get("stack", "")
        for slot, _, _ in facts.slots(names.FUNCTION_INFO)
    }
    found: dict[Function, list[Part]] = {}
    for part in facts.slots(names.PATTERN_BETA):
        found.setdefault(_function(part[0], stacks), []).append(part)
    more = [_by_id(facts, metric) for metric in (names.PATTERN_MU, names.PATTERN_SIGMA, names.PATTERN_NOISE)]
    blocks = {}
    for function, parts in found.items():
        rows, beta = _merged(parts)
        columns = [_aligned(rows, metric.get(function.id, ()), facts.ranks.size) for metric in more]
        blocks[function] = _Block(rows, beta, *columns)
    return blocks


def _by_id(facts: Facts, metric: names.Metric) -> dict[str, list[Part]]:
    found: dict[str, list[Part]] = {}
    for part in facts.slots(metric):
        found.setdefault(dict(part[0].labels).get("function_id", ""), []).append(part)
    return found


def _merged(parts: Sequence[Part]) -> tuple[Codes, Floats]:
    """Return what is measured of a function, by row."""
    rows = parts[0][1] if len(parts) == 1 else np.concatenate([rows for _, rows, _ in parts])
    values = np.concatenate([_single(values) for _, _, values in parts])
    here = ~np.isnan(values)
    if not here.all():
        rows, values = rows[here], values[here]
    if (np.diff(rows) < 0).any():
        order = np.argsort(rows, kind="stable")
        rows, values = rows[order], values[order]
    return rows, values


def _aligned(rows: Codes, parts: Sequence[Part], size: int) -> Floats:
    """Return a number for each of these rows, NaN where it is not told."""
    if not parts:
        return not_measured(rows.size)
    if len(parts) == 1 and parts[0][1] is rows:
        return _single(parts[0][2])
    column = np.full(size, np.nan, np.float32)
    for _, where, values in parts:
        column[where] = _single(values)
    return column[rows]


def _single(values: Any) -> Floats:
    """Return numbers as float32; one that is too large for it, which no share is, becomes infinite."""
    with np.errstate(over="ignore"):
        return np.asarray(values, np.float32)


def _column(facts: Facts, metric: names.Metric, fits: Callable[[Slot], bool] = lambda slot: True) -> Doubles:
    """Return a number of every worker, NaN where it is not told; of several slots the largest."""
    out = np.full(facts.ranks.size, np.nan)
    for slot, rows, values in facts.slots(metric):
        if fits(slot):
            out[rows] = np.fmax(out[rows], values)
    return out


def _texts(facts: Facts, metric: names.Metric, label: str, known: Sequence[str] = ()) -> Words:
    """Return a label of every worker; what is not ``known``, where that is given, is ""."""
    found = np.full(facts.ranks.size, "", object)
    for slot, rows, values in facts.slots(metric):
        text = dict(slot.labels).get(label, "")
        if not known or text in known:
            found[rows[~np.isnan(values)]] = text
    return Words.of(found.tolist())


def _workers(training_job: str, facts: Facts) -> Workers:
    known: dict[str, Any] = {name: _column(facts, metric) for name, metric in _NUMBERS.items()}
    known |= {name: np.nan_to_num(_column(facts, metric)) for name, metric in _OR_ZERO.items()}
    known |= {name: np.nan_to_num(_column(facts, metric)).astype(np.int64) for name, metric in _COUNTS.items()}
    return Workers.of(
        facts.ranks,
        training_job=Words.same(training_job, facts.ranks.size),
        host=facts.hosts,
        role=facts.roles,
        reason=_texts(facts, names.WINDOW_ID, "reason", REASONS),
        signature=_texts(facts, names.WORKER_INFO, "signature"),
        kinds=_by_label(facts, names.KIND_BETA, "kind", (*KINDS, "idle")),
        host_use=_by_label(facts, names.WINDOW_HOST_RATIO, "resource", HOST_RATIOS)
        | _by_label(facts, names.WINDOW_HOST_RATE, "resource", HOST_RATES),
        peaks=_by_label(facts, names.PATTERN_PEAK, "resource"),
        **known,
    )


def _by_label(facts: Facts, metric: names.Metric, label: str, known: Sequence[str] = ()) -> dict[str, Doubles]:
    texts = {dict(slot.labels).get(label, ""): None for slot, _, _ in facts.slots(metric)}
    kept = [text for text in known or texts if text in texts]
    return {text: _column(facts, metric, lambda slot, text=text: dict(slot.labels).get(label) == text) for text in kept}  # type: ignore[misc]


def _calls(facts: Facts, functions: Sequence[Function]) -> Calls:
    """Return the process groups; workers that tell no number of calls are in none."""
    index = {function.id: at for at, function in reversed(list(enumerate(functions)))}
    size, sizes, fastest = (_by_labels(facts, metric) for metric in (
        names.COLLECTIVE_CALLS, names.COLLECTIVE_BYTES, names.COLLECTIVE_FASTEST,
    ))  # fmt: skip
    found: list[tuple[Codes, Codes, list[str], Doubles, Doubles, Doubles]] = []
    for labels, parts in size.items():
        at = index.get(dict(labels).get("function_id", ""))
        rows, _ = _merged(parts)
        if at is not None and rows.size:
            count, moved, quick = (_exact(rows, each.get(labels, ())) for each in (size, sizes, fastest))
            each = np.divide(moved, count, out=np.full(rows.size, np.nan), where=(count > 0) & (moved > 0))
            group = [dict(labels).get("group", "")] * rows.size
            found.append((rows, np.full(rows.size, at, np.int32), group, count, each, quick))
    if not found:
        return Calls.none()
    worker, function, groups, *amounts = zip(*found, strict=True)
    told = (np.concatenate(column) for column in amounts)
    texts = Words.of(text for texts in groups for text in texts)
    return Calls(np.concatenate(worker), np.concatenate(function), texts, *told)


def _by_labels(facts: Facts, metric: names.Metric) -> dict[tuple[tuple[str, str], ...], list[Part]]:
    found: dict[tuple[tuple[str, str], ...], list[Part]] = {}
    for part in facts.slots(metric):
        found.setdefault(part[0].labels, []).append(part)
    return found


def _exact(rows: Codes, parts: Sequence[Part]) -> Doubles:
    """Return a number for each of these rows (sorted), NaN where it is not told; few rows of many workers."""
    out = np.full(rows.size, np.nan)
    for _, where, values in parts:
        place = np.searchsorted(rows, where)
        here = (place < rows.size) & (rows[np.minimum(place, rows.size - 1)] == where)
        out[place[here]] = np.asarray(values, np.float64)[here]
    return out


def _unknown(facts: Facts) -> Unknown:
    found = [(dict(slot.labels).get("category", ""), rows[values >= 0], values[values >= 0])
             for slot, rows, values in facts.slots(names.WINDOW_UNKNOWN)]  # fmt: skip
    rows = _glued([rows for _, rows, _ in found], np.int32)
    texts = Words.of(text for text, rows, _ in found for _ in range(rows.size))
    seconds = _glued([values for _, _, values in found], np.float64)
    return Unknown(rows, texts, np.full(rows.size, np.nan), seconds)


def _function(slot: Slot, stacks: Mapping[str, str]) -> Function:
    labels: Mapping[str, str] = slot.all_labels()
    function_id = labels.get("function_id", "")
    text = labels.get("stack") or stacks.get(function_id, "")
    return Function(
        function_id, labels.get("function", ""), labels.get("kind", ""), labels.get("family", ""),
        tuple(text.split(" > ")) if text else (), labels.get("resource", ""),
    )  # fmt: skip


def _glued(parts: Sequence[Any], kind: Any = np.float32) -> Any:
    return np.concatenate(parts) if parts else np.zeros(0, kind)
