"""Processes of an Nsight Systems export -> the GPU that each one uses, as the machine counts them.

A kernel tells the device as its process counts: with CUDA_VISIBLE_DEVICES every process may call its own GPU 0.
TARGET_INFO_CUDA_DEVICE tells which GPU that is, and TARGET_INFO_GPU under which number (pwGpuId) the metrics have it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from eroica_otel.summarize.readers.tables import Database

KERNELS, GRAPHS = "CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
WORK = (KERNELS, GRAPHS)
"""Tables of what a GPU computed. Of a CUDA graph, unless asked otherwise, only the second has a row: for the whole."""
PROCESS = "globalPid"
_PID_BITS, _PID_MASK = 24, 0xFFFFFF
_NO_GPU = 1 << 30
"""CUPTI gives INT_MAX as the device of a graph that starts on the host."""
_SHARED = (
    "GPU_METRICS cannot be told apart: several processes call their GPU by one number, and no TARGET_INFO_CUDA_DEVICE "
    "tells which it is, so mu of the GPU is missing"
)


class Device(NamedTuple):
    """The GPU of one process.

    Attributes:
        gpu: Its number among the GPUs of the machine, None where it cannot be told.
        metered: Its number in GPU_METRICS, None where it cannot be told.
        note: What a reader should know, "" where all is plain.
    """

    gpu: int | None
    metered: int | None
    note: str


def processes_of(database: Database) -> tuple[int, ...]:
    """Return the processes (globalPid) that had work on a GPU, by GPU, then by globalPid; () where none had any."""
    found = sorted(process for process in _work(database) if process)
    gpus = [device.gpu for device in devices_of(database, found)]
    return tuple(
        process for _, process in sorted(zip((-1 if gpu is None else gpu for gpu in gpus), found, strict=True))
    )


def devices_of(database: Database, processes: Sequence[int]) -> tuple[Device, ...]:
    """Return the GPU of each process (globalPid), in their order; the one on which it ran most kernels and graphs."""
    work = _work(database)
    ordinals = [_ordinal(work.get(process, {})) for process in processes]
    return tuple(
        _device(database, process, ordinal, shared=ordinal is not None and ordinals.count(ordinal) > 1)
        for process, ordinal in zip(processes, ordinals, strict=True)
    )


def pid_of(process: int) -> int:
    """Return the process id in a globalPid (Nsight Systems exporter documentation: serialized identifiers)."""
    return process >> _PID_BITS & _PID_MASK


def in_order(devices: Sequence[Device]) -> bool:
    """Return whether the GPUs give the processes an order: each is known, and no two are the same."""
    return len({device.gpu for device in devices} - {None}) == len(devices)


def _device(database: Database, process: int, ordinal: int | None, *, shared: bool) -> Device:
    if ordinal is None:
        return Device(None, None, "")
    gpu = _gpu(database, process, ordinal)
    if gpu is not None:
        return Device(gpu, _metered(database, gpu, "id"), "")
    if shared:
        return Device(None, None, _SHARED)
    return Device(ordinal, _metered(database, ordinal, "cuDevice"), "")


def _work(database: Database) -> dict[int, Counter[int | None]]:
    """Return the rows of work by process and by device as the process counts; process 0 where the export tells none."""
    found: dict[int, Counter[int | None]] = {}
    for table in WORK:
        if not database.has(table, "start"):
            continue
        process = PROCESS if database.has(table, PROCESS) else "NULL"
        device = "deviceId" if database.has(table, "deviceId") else "NULL"
        for owner, number, count in database.all(f"SELECT {process}, {device}, count(*) FROM {table} GROUP BY 1, 2"):
            place = int(number) if number is not None and 0 <= int(number) < _NO_GPU else None
            found.setdefault(int(owner or 0), Counter())[place] += int(count)
    return found


def _ordinal(work: Mapping[int | None, int]) -> int | None:
    """Return the number that a process itself gives the device on which most of its work ran."""
    told = {device: count for device, count in work.items() if device is not None}
    return max(told, key=lambda device: (told[device], -device)) if told else None


def _gpu(database: Database, process: int, ordinal: int) -> int | None:
    """Return TARGET_INFO_CUDA_DEVICE.gpuId of (pid, cudaId); None where it has none, or several that differ."""
    table = "TARGET_INFO_CUDA_DEVICE"
    if not all(database.has(table, column) for column in ("gpuId", "cudaId", "pid")):
        return None
    where = f"cudaId = {ordinal}"
    if process:
        where += f" AND pid = {pid_of(process)}"
    rows = database.all(f"SELECT DISTINCT gpuId FROM {table} WHERE {where} AND gpuId IS NOT NULL LIMIT 2")
    return int(rows[0][0]) if len(rows) == 1 else None


def _metered(database: Database, number: int, column: str) -> int:
    """Return pwGpuId of the GPU whose ``column`` has this number; the number itself where it is not told."""
    if not all(database.has("TARGET_INFO_GPU", name) for name in (column, "pwGpuId")):
        return number
    query = f"SELECT DISTINCT pwGpuId FROM TARGET_INFO_GPU WHERE {column} = {number} AND pwGpuId >= 0 LIMIT 2"
    rows = database.all(query)
    return int(rows[0][0]) if len(rows) == 1 else number
