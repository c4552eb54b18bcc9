"""GPU metrics out of an SQLite export of Nsight Systems: shares in per cent of each GPU, as rows for a ring.

Tables and columns: Nsight Systems exporter documentation (GPU_METRICS, TARGET_INFO_GPU_METRICS, TARGET_INFO_GPU,
TARGET_INFO_SESSION_START_TIME), all of them optional there. A metric is named by (typeId, metricId) together, and the
low byte of typeId is the GPU's pwGpuId; names of metrics vary between GPUs and versions.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from eroica_otel.errors import HardwareError
from eroica_otel.hardware.source import Resource

MOST_BYTES = 8 << 30
GPU_MASK = 0xFF
UNASSIGNED = "gpu "
"""Begins the device of a GPU of which the export tells no UUID; its number is that of nsys, not that of NVML."""
# resource -> names of the metrics that are summed into it: reads and writes of memory share one bus
METRICS: Mapping[str, re.Pattern[str]] = MappingProxyType(
    {
        "sm": re.compile(r"SMs? Active", re.IGNORECASE),
        "sm_issue": re.compile(r"SM Issue", re.IGNORECASE),
        "tensor": re.compile(r"Tensor Active", re.IGNORECASE),
        "dram": re.compile(r"DRAM (Read|Write)", re.IGNORECASE),
        "nsys_pcie_tx": re.compile(r"PCIe? TX", re.IGNORECASE),
        "nsys_pcie_rx": re.compile(r"PCIe? RX", re.IGNORECASE),
        "nsys_nvlink_tx": re.compile(r"NVLink TX", re.IGNORECASE),
        "nsys_nvlink_rx": re.compile(r"NVLink RX", re.IGNORECASE),
    }
)
# Parts of one share that is told several times, and what is no share at all.
NO_SHARE = re.compile(r"\[(?!.*%)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Export:
    """What an export holds.

    Attributes:
        resources: The columns, with a peak of 100 %.
        times: Realtime of each row, ns since 1970, ascending; shape [n].
        values: Per cent, NaN where a metric has no sample in a row; shape [n, resources].
    """

    resources: tuple[Resource, ...]
    times: NDArray[np.int64]
    values: NDArray[np.float64]


def read(path: Path, most_rows: Callable[[int], int]) -> Export:
    """Return the metrics of an export as rows of equal length, each the mean of its samples.

    ``most_rows`` tells how many rows there may be of so many resources.

    Raises:
        HardwareError: it is no export, too large, has no metrics of a GPU, or does not tell when it began.
    """
    try:
        if path.stat().st_size > MOST_BYTES:
            raise HardwareError(f"the export is larger than {MOST_BYTES >> 30} GiB; sample less often by --nsys-hertz")
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as database:
            return _Reader(database).export(most_rows)
    except (sqlite3.Error, OSError) as error:
        raise HardwareError(f"the export of nsys cannot be read: {error}") from error


class _Reader:
    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database

    def export(self, most_rows: Callable[[int], int]) -> Export:
        began = self._one("TARGET_INFO_SESSION_START_TIME", "utcEpochNs")
        columns = self._columns()
        if not columns:
            raise HardwareError("the export has no metrics of a GPU that are known")
        if began is None:
            raise HardwareError("the export does not tell when it began")
        resources = tuple(dict.fromkeys(columns.values()))
        places = {resource: place for place, resource in enumerate(resources)}
        by_metric = {metric: places[resource] for metric, resource in columns.items()}
        times, values = self._rows(by_metric, len(resources), most_rows(len(resources)))
        return Export(resources, times + int(began), values)

    def _has(self, table: str, *columns: str) -> bool:
        there = {str(row[1]) for row in self._database.execute(f"PRAGMA table_info({table})")}
        return bool(there) and there.issuperset(columns)

    def _one(self, table: str, column: str) -> int | None:
        if not self._has(table, column):
            return None
        row = self._database.execute(f"SELECT {column} FROM {table} LIMIT 1").fetchone()
        return None if row is None or row[0] is None else int(row[0])

    def _columns(self) -> dict[tuple[int, int], Resource]:
        """Return the resource of each (typeId, metricId) that measures one."""
        if not self._has("TARGET_INFO_GPU_METRICS", "typeId", "metricId", "metricName"):
            return {}
        devices = self._devices()
        found = {}
        query = "SELECT DISTINCT typeId, metricId, metricName FROM TARGET_INFO_GPU_METRICS ORDER BY 1, 2"
        for kind, metric, text in self._database.execute(query):
            name = next((name for name, known in METRICS.items() if known.search(str(text))), None)
            if name is not None and not NO_SHARE.search(str(text)):
                number = int(kind) & GPU_MASK
                device = devices.get(number, f"{UNASSIGNED}{number}")
                found[int(kind), int(metric)] = Resource(name, device, "%", 100.0, counter=False)
        return found

    def _devices(self) -> dict[int, str]:
        """Return pwGpuId -> UUID as NVML writes it."""
        if not self._has("TARGET_INFO_GPU", "pwGpuId", "uuid"):
            return {}
        rows = self._database.execute("SELECT pwGpuId, uuid FROM TARGET_INFO_GPU WHERE uuid IS NOT NULL")
        return {int(number): f"GPU-{str(uuid).removeprefix('GPU-')}" for number, uuid in rows if number is not None}

    def _rows(
        self, by_metric: Mapping[tuple[int, int], int], columns: int, most_rows: int
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        time = next((name for name in ("timestamp", "rawTimestamp") if self._has("GPU_METRICS", name)), None)
        if time is None or not self._has("GPU_METRICS", "typeId", "metricId", "value"):
            raise HardwareError("the export has no samples of a GPU")
        first, last, count = self._database.execute(
            f"SELECT min({time}), max({time}), count(DISTINCT {time}) FROM GPU_METRICS WHERE {time} >= 0"
        ).fetchone()
        if not count:
            raise HardwareError("the export has no samples of a GPU")
        rows = min(int(count), most_rows)
        step = max(1, -(-(int(last) - int(first) + 1) // rows))
        sums, counts = np.zeros((rows, columns)), np.zeros((rows, columns))
        for kind, metric, row, value in self._means(time, int(first), step):
            place = by_metric.get((kind, metric))
            if place is not None and row < rows:
                sums[row, place] += value
                counts[row, place] += 1
        values = np.where(counts > 0, np.minimum(sums, 100.0), np.nan)
        kept = np.flatnonzero(counts.any(axis=1))
        return (int(first) + kept * step + step // 2).astype(np.int64), values[kept]

    def _means(self, time: str, first: int, step: int) -> Iterator[tuple[int, int, int, float]]:
        """Yield (typeId, metricId, row, mean) of every metric: what several metrics of one resource add up to."""
        query = (
            f"SELECT typeId, metricId, ({time} - ?) / ? AS part, avg(value) FROM GPU_METRICS "
            f"WHERE {time} >= 0 AND value IS NOT NULL GROUP BY 1, 2, 3"
        )
        for kind, metric, row, value in self._database.execute(query, (first, step)):
            yield int(kind), int(metric), int(row), float(value)
