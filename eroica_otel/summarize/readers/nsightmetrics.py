"""GPU_METRICS of an Nsight Systems export -> how busy the parts of one device were, in [0, 1].

A number is a percentage of a metric that (typeId, metricId) names together, since metricId alone counts anew on each
device; the low byte of typeId is the device (Nsight Systems User Guide, GPU Metrics). A sample stands for the time
from its own to the next.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from eroica_otel.summarize.intervals import Reals, Times
from eroica_otel.summarize.readers.nsightdevices import Device
from eroica_otel.summarize.readers.tables import Database
from eroica_otel.traces import Samples

VALUES, NAMES = "GPU_METRICS", "TARGET_INFO_GPU_METRICS"
MOST_SAMPLES = 1 << 22
"""Samples kept of all metrics together; of more, every other one is dropped, as often as needed."""
_DEVICE_MASK = 0xFF
_RESOURCES: Mapping[str, re.Pattern[str]] = {
    "sm": re.compile(r"^SMs? Active", re.IGNORECASE),
    "dram": re.compile(r"^DRAM\b.*(?:read|write)", re.IGNORECASE),
    "pcie": re.compile(r"^PCIe? (?:RX|TX)", re.IGNORECASE),
    "nvlink": re.compile(r"^NVLink (?:RX|TX)", re.IGNORECASE),
}
_ADDS = frozenset({"dram"})
"""Reads and writes share one bus; the two directions of a link do not, there the busier one counts."""
_ROW = np.dtype([("time", np.int64), ("metric", np.int64), ("value", np.float64)])
_SEVERAL = "GPU_METRICS are of several GPUs and the kernels tell no device, so mu of the GPU is missing"

Table = NDArray[np.void]


def samples(database: Database, of: Device, offset_ns: int) -> tuple[dict[str, Samples], str]:
    """Return samples by resource, empty where the export has none, and a note ("" where all is plain).

    Args:
        of: The device, of which nothing is told where the export has samples of one alone.
        offset_ns: Added to the times of the export.
    """
    time = next((name for name in ("rawTimestamp", "timestamp") if database.has(VALUES, name)), None)
    needed = ((VALUES, "typeId"), (VALUES, "metricId"), (VALUES, "value"), (NAMES, "typeId"), (NAMES, "metricId"),
              (NAMES, "metricName"))  # fmt: skip
    if time is None or not all(database.has(table, column) for table, column in needed):
        return {}, ""
    wanted = _wanted(database)
    if of.note or (of.metered is None and len({kind & _DEVICE_MASK for kind, _ in wanted}) > 1):
        return {}, of.note or _SEVERAL
    kinds = sorted({kind for kind, _ in wanted if of.metered is None or kind & _DEVICE_MASK == of.metered})
    series: dict[str, list[Table]] = {}
    for kind in kinds:
        numbers = [number for owner, number in wanted if owner == kind]
        table = _read(database, time, kind, numbers)
        table["time"] += offset_ns
        for number in numbers:
            if (rows := table[table["metric"] == number]).size:
                series.setdefault(wanted[kind, number], []).append(rows)
    return {resource: _one(tables, resource in _ADDS) for resource, tables in series.items()}, ""


def _wanted(database: Database) -> dict[tuple[int, int], str]:
    """Return the resource that each (typeId, metricId) measures, of those that measure one."""
    found: dict[tuple[int, int], str] = {}
    for kind, number, name in database.all(f"SELECT DISTINCT typeId, metricId, metricName FROM {NAMES}"):
        resource = next((key for key, pattern in _RESOURCES.items() if pattern.search(str(name))), None)
        if resource is not None and kind is not None and number is not None:
            found[int(kind), int(number)] = resource
    return found


def _read(database: Database, time: str, kind: int, numbers: Sequence[int]) -> Table:
    """Return (time, metric, value) of some metrics of one device: the database picks the rows, most are of others."""
    query = (
        f"SELECT {time}, metricId, value FROM {VALUES} WHERE typeId = {kind} "
        f"AND metricId IN ({', '.join(map(str, numbers))}) AND {time} >= 0 AND value IS NOT NULL"
    )
    kept: list[Table] = []
    total, stride = 0, 1
    for part in database.parts(query, VALUES, kept=False):
        table = np.array(part, _ROW)
        kept.append(_thinned(table, numbers, stride))
        total += len(kept[-1])
        while total > MOST_SAMPLES:
            stride *= 2
            kept = [_thinned(np.concatenate(kept), numbers, 2)]
            total = len(kept[0])
    return np.concatenate(kept) if kept else np.zeros(0, _ROW)


def _thinned(table: Table, numbers: Sequence[int], stride: int) -> Table:
    """Return every so many-th sample of each metric."""
    if stride == 1:
        return table
    return np.concatenate([table[table["metric"] == number][::stride] for number in numbers])


def _one(series: Sequence[Table], adds: bool) -> Samples:
    """Return several metrics of one resource as one, on the times of all of them."""
    tables = [rows[np.argsort(rows["time"], kind="stable")] for rows in series]
    times: list[Times] = [table["time"] for table in tables]
    whole = np.unique(np.concatenate(times))
    values: list[Reals] = []
    for table, time in zip(tables, times, strict=True):
        last = np.maximum(np.searchsorted(time, whole, side="right") - 1, 0)
        values.append(table["value"][last])
    busy = np.sum(values, axis=0) if adds else np.max(values, axis=0)
    return Samples(whole, np.clip(busy / 100.0, 0.0, 1.0))
