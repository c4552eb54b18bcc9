"""One window of many workers as columns: what readers may build and the localizer judges. No I/O, nothing judged.

At a million workers no object per worker or pattern is affordable: a text stands once, everything else is an array.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]
Ints = NDArray[np.int64]
Codes = NDArray[np.int32]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Words:
    """A text for each worker, each distinct text once.

    Attributes:
        names: The distinct texts, some of which nobody may have.
        codes: Index into ``names``, [W].
    """

    names: tuple[str, ...]
    codes: Codes

    @classmethod
    def of(cls, texts: Iterable[str]) -> Words:
        """Return these texts as a column."""
        known: dict[str, int] = {}
        codes = np.fromiter((known.setdefault(text, len(known)) for text in texts), np.int32)
        return cls(tuple(known), codes)

    @classmethod
    def same(cls, text: str, count: int) -> Words:
        """Return one text ``count`` times."""
        return cls((text,), np.zeros(count, np.int32))

    def __len__(self) -> int:
        return self.codes.size

    def __getitem__(self, worker: int) -> str:
        return self.names[int(self.codes[worker])]

    def __iter__(self) -> Iterator[str]:
        return (self.names[code] for code in self.codes.tolist())

    def at(self, rows: Ints) -> Words:
        """Return the texts of these rows."""
        return Words(self.names, self.codes[rows])

    def distinct(self, rows: Sequence[int] | Ints) -> tuple[str, ...]:
        """Return the different texts of these rows, in the order in which they come."""
        codes, first = np.unique(self.codes[np.asarray(rows, np.int64)], return_index=True)
        return tuple(self.names[code] for code in codes[np.argsort(first)].tolist())

    def among(self, texts: Collection[str]) -> Bools:
        """Return which workers have one of these texts, [W]."""
        return np.asarray(np.array([name in texts for name in self.names], bool)[self.codes], bool)


@dataclass(frozen=True, slots=True)
class Function:
    """What all workers call by one function_id; ``resource`` is what mu and sigma measure of it, "" nothing."""

    id: str
    name: str
    kind: str
    family: str
    stack: tuple[str, ...] = ()
    resource: str = ""

    @property
    def own(self) -> bool:
        """Whether its time is the worker's own work; the rest is how a victim looks, so it is never an excess."""
        waits = {"communication": True, "python": self.family == "wait", "host": self.family == "sync"}
        return not waits.get(self.kind, False)


@dataclass(frozen=True, slots=True, eq=False)
class Workers:
    """One row for each worker's window, [W]; the columns are the fields of model.Identity and model.WorkerWindow.

    Attributes:
        kinds: Charged share by kind and "idle", NaN where a worker reports none.
        host_use: By HOST_RATIOS and HOST_RATES, NaN where it is not known.
        peaks: Largest 90th percentile of the rate of a link over the communication functions, NaN where none is known.
    """

    rank: Ints
    training_job: Words
    host: Words
    role: Words
    world_size: Ints
    window_id: Ints
    reason: Words
    signature: Words
    seconds: Doubles
    iterations: Ints
    floor: Doubles
    dropped: Ints
    cpu_seconds: Doubles
    sampler_gap_seconds: Doubles
    throttled_ratio: Doubles
    run_delay_ratio: Doubles
    stopped_seconds: Doubles
    end_timestamp_seconds: Doubles
    kinds: Mapping[str, Doubles] = field(default_factory=dict)
    host_use: Mapping[str, Doubles] = field(default_factory=dict)
    peaks: Mapping[str, Doubles] = field(default_factory=dict)

    @classmethod
    def of(cls, rank: Ints, **known: Any) -> Workers:
        """Return the columns that are known, and the others as a worker has them that says nothing of them."""
        count = rank.size
        nothing: tuple[tuple[Any, tuple[str, ...]], ...] = (
            (Words.same("", count), ("training_job", "host", "role", "reason", "signature")),
            (np.zeros(count, np.int64), ("world_size", "window_id", "iterations", "dropped")),
            (np.zeros(count), ("floor", "stopped_seconds", "end_timestamp_seconds")),
            (np.full(count, np.nan), (
                "seconds", "cpu_seconds", "sampler_gap_seconds", "throttled_ratio", "run_delay_ratio",
            )),
        )  # fmt: skip
        empty = {name: column for column, names in nothing for name in names}
        return cls(**{**empty, "rank": rank, **known})

    def __len__(self) -> int:
        return self.rank.size

    def at(self, rows: Ints) -> Workers:
        """Return these rows, in this order."""
        if rows.size == len(self) and np.array_equal(rows, np.arange(rows.size)):
            return self
        return Workers(**{item.name: _at(getattr(self, item.name), rows) for item in fields(self)})


def _at(column: Any, rows: Ints) -> Any:
    if isinstance(column, Words):
        return column.at(rows)
    return {name: values[rows] for name, values in column.items()} if isinstance(column, Mapping) else column[rows]


@dataclass(frozen=True, slots=True, eq=False)
class Calls:
    """Who called which function in which process groups, one row for each of them.

    Attributes:
        worker: Row of the worker.
        function: Index of the function.
        group: Name of the process group, "" where it cannot be known.
        count, call_bytes, fastest_seconds: Calls, bytes of the worker's input in one of them, and the 5th percentile of
            their durations, NaN where one is not told; None where no row tells them.
    """

    worker: Codes
    function: Codes
    group: Words
    count: Doubles | None = None
    call_bytes: Doubles | None = None
    fastest_seconds: Doubles | None = None

    @classmethod
    def none(cls) -> Calls:
        return cls(np.zeros(0, np.int32), np.zeros(0, np.int32), Words.of(()))

    def at(self, rows: Ints) -> Calls:
        """Return these rows."""
        told = (None if column is None else column[rows] for column in self.amounts)
        return Calls(self.worker[rows], self.function[rows], self.group.at(rows), *told)

    @property
    def amounts(self) -> tuple[Doubles | None, Doubles | None, Doubles | None]:
        """The three columns of numbers."""
        return self.count, self.call_bytes, self.fastest_seconds


@dataclass(frozen=True, slots=True, eq=False)
class Unknown:
    """Trace events of a category that nobody knows, one row for each worker and category; events NaN: not told."""

    worker: Codes
    category: Words
    events: Doubles
    seconds: Doubles

    @classmethod
    def none(cls) -> Unknown:
        return cls(np.zeros(0, np.int32), Words.of(()), np.zeros(0), np.zeros(0))


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """Workers and their patterns; no copy of the patterns is made where they come by function, then worker.

    Attributes:
        workers: One row a worker, in any order; the localizer says which it does not judge.
        functions: Every function that a pattern is of; one id may stand several times with other words.
        worker: Row of the worker, [N].
        function: Index of the function, [N].
        beta, mu, sigma: The pattern, NaN where it was not measured, [N].
        noise: Standard deviation of the seconds per iteration over sub-windows, NaN unknown, [N].
        calls: Process groups of collectives.
        unknown: What was charged to nothing.
    """

    workers: Workers
    functions: tuple[Function, ...]
    worker: Codes
    function: Codes
    beta: Floats
    mu: Floats
    sigma: Floats
    noise: Floats
    calls: Calls = field(default_factory=Calls.none)
    unknown: Unknown = field(default_factory=Unknown.none)

    @classmethod
    def empty(cls) -> Table:
        """Return a table without workers."""
        nothing, nobody = np.zeros(0, np.float32), np.zeros(0, np.int32)
        return cls(Workers.of(np.zeros(0, np.int64)), (), nobody, nobody, nothing, nothing, nothing, nothing)


def not_measured(count: int) -> Floats:
    """Return a column of NaN that takes no memory."""
    return np.broadcast_to(np.float32(np.nan), count)
