"""Tables of vectors -> the table that is judged: takes what bulk.py read of a window, gives eroica_otel.table.Table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from eroica_otel import names
from eroica_otel.model import HOST_RATES, HOST_RATIOS, REASONS
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


class _Block(NamedTuple):
    """A function on the workers of one table, [n] each."""

    function: Function
    rows: Codes
    beta: Floats
    mu: Floats
    sigma: Floats
    noise: Floats


class _Joined:
    """The tables with the rows of each in one numbering of all workers: those that have both parts."""

    def __init__(self, tables: Sequence[bulk.Table]) -> None:
        whole, share = (_glued([one.ranks for one in tables if one.part == part], np.int64) for part in (WHOLE, SHARE))
        self.ranks: Ints = np.intersect1d(whole, share)
        self.tables = [(one, *self._rows(one)) for one in tables]

    def _rows(self, table: bulk.Table) -> tuple[Codes, Ints]:
        """Return the number of each worker of a table, and in which of its rows it stands, by number."""
        order = np.argsort(table.ranks, kind="stable")
        order = order[np.isin(table.ranks[order], self.ranks)]
        return np.searchsorted(self.ranks, table.ranks[order]).astype(np.int32), order

    def slots(self, metric: names.Metric) -> Iterator[tuple[Slot, Codes, Any]]:
        """Yield the slots of a series with numbers of workers and their values."""
        for table, rows, order in self.tables:
            for slot, values in bulk.columns_of(table, metric.name):
                yield slot, rows, values[order]

    def column(self, metric: names.Metric, fits: Callable[[Slot], bool] = lambda slot: True) -> Doubles:
        """Return a number of every worker, NaN where it is not told; of several slots the largest."""
        out = np.full(self.ranks.size, np.nan)
        for slot, rows, values in self.slots(metric):
            if fits(slot):
                out[rows] = np.fmax(out[rows], values)
        return out

    def words(self, of: Callable[[bulk.Table], Sequence[str]]) -> Words:
        """Return a text of every worker, one that its tables have for each row."""
        found = np.full(self.ranks.size, "", object)
        for table, rows, order in self.tables:
            if table.part == WHOLE:
                texts = of(table)
                found[rows] = np.array(texts, object)[order] if len(texts) != 1 else texts[0]
        return Words.of(found.tolist())

    def blocks(self) -> Iterator[_Block]:
        """Yield every function of every table."""
        for table, rows, order in self.tables:
            by_id = {
                metric.name: {dict(slot.labels).get("function_id"): at for slot, at in _places(table, metric)}
                for metric in (names.PATTERN_MU, names.PATTERN_SIGMA, names.PATTERN_NOISE)
            }
            for slot, at in _places(table, names.PATTERN_BETA):
                function = _function(slot)
                more = (by_id[name].get(function.id) for name in by_id)
                columns = [not_measured(rows.size) if one is None else table.values[order, one] for one in more]
                yield _Block(function, rows, table.values[order, at].astype(np.float32), *columns)


def table_of(training_job: str, tables: Sequence[bulk.Table]) -> Table:
    """Return the table of one window of one job; workers of which one part is missing are left out."""
    joined = _Joined(tables)
    blocks: dict[Function, list[_Block]] = {}
    for block in joined.blocks():
        blocks.setdefault(block.function, []).append(block)
    functions = tuple(blocks)
    parts = [_merged(found) for found in blocks.values()]
    counts = [part.rows.size for part in parts]
    return Table(
        _workers(training_job, joined), functions,
        worker=_glued([part.rows for part in parts], np.int32),
        function=np.repeat(np.arange(len(parts), dtype=np.int32), counts),
        beta=_glued([part.beta for part in parts]), mu=_glued([part.mu for part in parts]),
        sigma=_glued([part.sigma for part in parts]), noise=_glued([part.noise for part in parts]),
        calls=_calls(joined, functions), unknown=_unknown(joined),
    )  # fmt: skip


def _workers(training_job: str, joined: _Joined) -> Workers:
    count = joined.ranks.size
    known: dict[str, Any] = {name: joined.column(metric) for name, metric in _NUMBERS.items()}
    known |= {name: np.nan_to_num(joined.column(metric)) for name, metric in _OR_ZERO.items()}
    known |= {name: np.nan_to_num(joined.column(metric)).astype(np.int64) for name, metric in _COUNTS.items()}
    return Workers.of(
        joined.ranks,
        training_job=Words.same(training_job, count),
        host=joined.words(lambda table: table.hosts),
        role=joined.words(lambda table: table.roles),
        reason=joined.words(lambda table: [_label(table, names.WINDOW_ID, "reason", REASONS)]),
        signature=joined.words(lambda table: [_label(table, names.WORKER_INFO, "signature")]),
        kinds=_by_label(joined, names.KIND_BETA, "kind"),
        host_use=_by_label(joined, names.WINDOW_HOST_RATIO, "resource", HOST_RATIOS)
        | _by_label(joined, names.WINDOW_HOST_RATE, "resource", HOST_RATES),
        peaks=_by_label(joined, names.PATTERN_PEAK, "resource"),
        **known,
    )


def _by_label(joined: _Joined, metric: names.Metric, label: str, known: Sequence[str] = ()) -> dict[str, Doubles]:
    texts = {dict(slot.labels).get(label, ""): None for slot, _, _ in joined.slots(metric)}
    kept = [text for text in texts if not known or text in known]
    return {text: joined.column(metric, lambda slot, text=text: dict(slot.labels).get(label) == text) for text in kept}  # type: ignore[misc]


def _calls(joined: _Joined, functions: Sequence[Function]) -> Calls:
    index = {function.id: at for at, function in enumerate(functions)}
    pairs = {(slot.labels): None for slot, _, _ in joined.slots(names.COLLECTIVE_CALLS)}
    worker, function, group, amounts = [], [], [], []
    for labels in pairs:
        at = index.get(dict(labels).get("function_id", ""))
        columns = [joined.column(metric, lambda slot, labels=labels: slot.labels == labels) for metric in  # type: ignore[misc]
                   (names.COLLECTIVE_CALLS, names.COLLECTIVE_BYTES, names.COLLECTIVE_FASTEST)]  # fmt: skip
        rows = np.flatnonzero(np.isfinite(columns[0]))
        if at is not None:
            worker.append(rows.astype(np.int32))
            function.append(np.full(rows.size, at, np.int32))
            group += [dict(labels).get("group", "")] * rows.size
            count = columns[0][rows]
            each = np.divide(columns[1][rows], count, out=np.full(rows.size, np.nan), where=count > 0)
            amounts.append((count, each, columns[2][rows]))
    if not worker:
        return Calls.none()
    told = (np.concatenate(column) for column in zip(*amounts, strict=True))
    return Calls(np.concatenate(worker), np.concatenate(function), Words.of(group), *told)


def _unknown(joined: _Joined) -> Unknown:
    found = [(dict(slot.labels).get("category", ""), rows[values >= 0], values[values >= 0])
             for slot, rows, values in joined.slots(names.WINDOW_UNKNOWN)]  # fmt: skip
    rows = _glued([rows for _, rows, _ in found], np.int32)
    texts = Words.of(text for text, rows, _ in found for _ in range(rows.size))
    seconds = _glued([values for _, _, values in found], np.float64)
    return Unknown(rows, texts, np.full(rows.size, np.nan), seconds)


def _places(table: bulk.Table, metric: names.Metric) -> Iterator[tuple[Slot, int]]:
    return ((slot, at) for at, slot in enumerate(table.slots) if slot.name == metric.name)


def _function(slot: Slot) -> Function:
    labels: Mapping[str, str] = slot.all_labels()
    stack = tuple(labels["stack"].split(" > ")) if labels.get("stack") else ()
    return Function(
        labels.get("function_id", ""), labels.get("function", ""), labels.get("kind", ""), labels.get("family", ""),
        stack, labels.get("resource", ""),
    )  # fmt: skip


def _label(table: bulk.Table, metric: names.Metric, label: str, known: Sequence[str] = ()) -> str:
    texts = [dict(slot.labels).get(label, "") for slot, _ in _places(table, metric)]
    return next((text for text in texts if not known or text in known), "")


def _merged(blocks: Sequence[_Block]) -> _Block:
    """Return a function on all workers, by worker."""
    if len(blocks) == 1:
        return blocks[0]
    rows = np.concatenate([block.rows for block in blocks])
    order = np.argsort(rows, kind="stable")
    columns = [np.concatenate(column)[order] for column in zip(*(block[2:] for block in blocks), strict=True)]
    return _Block(blocks[0].function, rows[order], *columns)


def _glued(parts: Sequence[Any], kind: Any = np.float32) -> Any:
    return np.concatenate(parts) if parts else np.zeros(0, kind)
