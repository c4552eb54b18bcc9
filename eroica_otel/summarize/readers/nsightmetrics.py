"""GPU_METRICS of an Nsight Systems export -> how busy the parts of one device were, in [0, 1].

A number is a percentage of a metric that (typeId, metricId) names together, since metricId alone counts anew on each
device; the low byte of typeId is the device. A sample stands for the time from its own to the next.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np

from eroica_otel.summarize.intervals import Reals, Times
from eroica_otel.summarize.readers.tables import Database
from eroica_otel.traces import Samples

VALUES, NAMES = "GPU_METRICS", "TARGET_INFO_GPU_METRICS"
_DEVICE_MASK = 0xFF
_RESOURCES: Mapping[str, re.Pattern[str]] = {
    "sm": re.compile(r"^SMs? Active", re.IGNORECASE),
    "dram": re.compile(r"^DRAM\b.*(?:read|write)", re.IGNORECASE),
    "pcie": re.compile(r"^PCIe? (?:RX|TX)", re.IGNORECASE),
    "nvlink": re.compile(r"^NVLink (?:RX|TX)", re.IGNORECASE),
}
_ADDS = frozenset({"dram"})
"""Reads and writes share one bus; the two directions of a link do not, there the busier one counts."""


def samples(database: Database, device: int | None, offset_ns: int) -> dict[str, Samples]:
    """Return samples by resource, empty where the export has none; of ``device``, None for the only one.

    Args:
        offset_ns: Added to the times of the export.
    """
    time = next((name for name in ("rawTimestamp", "timestamp") if database.has(VALUES, name)), None)
    needed = ((VALUES, "typeId"), (VALUES, "metricId"), (VALUES, "value"), (NAMES, "typeId"), (NAMES, "metricName"))
    if time is None or not all(database.has(table, column) for table, column in needed):
        return {}
    query = (
        f"SELECT v.{time}, v.value, n.metricName FROM {VALUES} v JOIN {NAMES} n "
        f"ON n.typeId = v.typeId AND n.metricId = v.metricId WHERE v.{time} >= 0"
    )
    if device is not None:
        query += f" AND (v.typeId & {_DEVICE_MASK}) = {device}"
    found: dict[str, dict[str, list[tuple[int, float]]]] = {}
    for part in database.parts(query):
        for at, value, name in part:
            resource = next((key for key, pattern in _RESOURCES.items() if pattern.search(str(name))), None)
            if resource is not None and value is not None:
                found.setdefault(resource, {}).setdefault(str(name), []).append((int(at) + offset_ns, float(value)))
    return {resource: _one(list(series.values()), resource in _ADDS) for resource, series in found.items()}


def _one(series: list[list[tuple[int, float]]], adds: bool) -> Samples:
    """Return several metrics of one resource as one, on the times of all of them."""
    tables = [np.array(sorted(rows), np.float64).reshape(-1, 2) for rows in series]
    times: list[Times] = [np.array(sorted(at for at, _ in rows), np.int64) for rows in series]
    whole = np.unique(np.concatenate(times))
    values: list[Reals] = []
    for table, time in zip(tables, times, strict=True):
        last = np.maximum(np.searchsorted(time, whole, side="right") - 1, 0)
        values.append(table[last, 1])
    busy = np.sum(values, axis=0) if adds else np.max(values, axis=0)
    return Samples(whole, np.clip(busy / 100.0, 0.0, 1.0))
