"""Kineto traces, plain and packed: whatever the bytes, and however they are cut, the same answer or a TraceError."""

from __future__ import annotations

import gzip
import io
import pickle
import random
import struct
import zlib
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from bench.fuzz import trees
from bench.fuzz.check import check_error, check_window, hold, refused
from bench.fuzz.scanned import check_scan, way_of
from bench.fuzz.target import GOLDEN, Target
from bench.fuzz.trees import Pairs
from eroica_otel.errors import TraceError
from eroica_otel.model import Identity
from eroica_otel.offline.stretches import choose
from eroica_otel.summarize.offline import summarize_trace
from eroica_otel.summarize.readers import decode, kineto, second
from eroica_otel.summarize.readers.any import read_trace
from eroica_otel.summarize.readers.columns import Part
from eroica_otel.summarize.readers.source import GZIP
from eroica_otel.summarize.spill import Spill
from eroica_otel.traces import Trace

FILE = "trace.json"
LIMIT_BYTES = 4 << 20
EVENTS = 24
WORDS = (
    "traceEvents", "ph", "name", "cat", "pid", "tid", "ts", "dur", "args", "id", "X", "B", "E", "cpu_op", "kernel",
    "gpu_memcpy", "cuda_runtime", "user_annotation", "python_function", "ProfilerStep#1", "Operator", "Trace",
    "stream 7", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", "Optimizer.step#SGD.step",
    "record_param_comms", "ncclDevKernel_AllReduce_Sum_f32_RING_LL", "ncclDevKernel_Generic_1", "aten::mm",
    "cudaLaunchKernel", "Call stack", "Python id", "Python parent id", "External id", "external id",
    "Process Group Name", "In msg nelems", "dtype", "Collective name", "baseTimeNanoseconds", "distributedInfo",
    "deviceProperties", "computeProperties", "rank", "world_size", "backend", "pg_config", "pg_name", "ranks",
    "host_name", "/opt/lib/python3.11/a.py(7): f", "Float",
)  # fmt: skip
_UNEQUAL = "bytes that are not UTF-8, replaced"
"""Counted where the text around it is decoded twice, so it depends on the cuts."""
_PYTHON = """{"traceEvents": [
{"ph": "X", "cat": "python_function", "name": "a.py(1): main", "tid": 1, "ts": 1, "dur": 90,
 "args": {"Python id": 1}},
{"ph": "X", "cat": "python_function", "name": "/x/site-packages/b/c.py(20): f", "tid": 1, "ts": 2, "dur": 50,
 "args": {"Python id": 2, "Python parent id": 1}},
{"ph": "X", "cat": "python_function", "name": "<built-in method mm>", "tid": 1, "ts": 3, "dur": 9,
 "args": {"Python id": 3, "Python parent id": 2}},
{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "tid": 1, "ts": 3.5, "dur": 5.25}]}"""
_STACKS = """{"schemaVersion": 1, "traceEvents": [
{"ph": "X", "cat": "Operator", "name": "aten::add", "pid": 1, "tid": "12", "ts": 1621401187223005, "dur": 80,
 "args": {"Call stack": "/opt/lib/python3.8/x/f.py(3): g;a.py(10): main", "external id": 4}},
{"ph": "X", "cat": "Kernel", "name": "gemm", "pid": 0, "tid": "stream 7", "ts": 1621401187223010, "dur": 60,
 "args": {"external id": 4}}], "traceName": "t"}"""


class Inline:
    """Stands where the second process stood: takes every other piece, and reads it as that process does."""

    def __init__(self, spill: Spill | None = None) -> None:
        self._given, self._turn, self._spill = b"", False, spill

    def __enter__(self) -> Inline:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def take(self, place: int, text: bytes) -> bool:
        self._turn = not self._turn
        if self._turn:
            self._given += struct.pack("<QQ", place, len(text)) + text
        return self._turn

    def part(self) -> Part:
        sink = io.BytesIO()
        second.serve(io.BytesIO(self._given), sink, self._spill)
        part = pickle.loads(sink.getvalue())
        if not isinstance(part, Part):
            raise second.SecondFailedError(str(part))
        return part


def target() -> Target:
    """Return the reader of Kineto traces."""
    files = [path for folder in ("hta", "tracelens", "param_dlrm") for path in sorted((GOLDEN / folder).glob("*.gz"))]
    texts = [_cut(gzip.decompress(path.read_bytes())) for path in files if "worker1" not in path.name][:26]
    texts += [_cut((GOLDEN / "kineto_gloo.json").read_bytes()), _PYTHON.encode(), _STACKS.encode()]
    packed = [gzip.compress(text, mtime=0) for text in texts[-3:]]
    return Target(run, [*texts, *packed, packed[0] + packed[1]], WORDS, _mutated)


def run(data: bytes) -> None:
    """Read, summarise, read again in other cuts, and charge block by block."""
    Path(FILE).write_bytes(data)
    whole = _read(1 << 20, 1)
    if whole is not None:
        with refused(FILE):
            check_window(summarize_trace(whole, Identity("job", 0, "node"), stretch=choose(whole).stretch))
    chunk = 40 + zlib.crc32(data) % 700
    with patch.object(decode, "SMALL_BYTES", chunk // 2), patch.object(kineto, "Second", Inline):
        for processes in (1, 2):
            other = _read(chunk, processes)
            hold(
                (other is None) == (whole is None), f"{processes} by pieces: an error, or none, where the whole differs"
            )
            if other is not None and whole is not None:
                for name, mine in _said(whole).items():
                    hold(_said(other)[name] == mine, f"{processes} by pieces: another {name}")
    check_scan(FILE, way_of(zlib.crc32(data)))
    with refused(FILE):
        read_trace(FILE, limit_bytes=LIMIT_BYTES)


def _read(chunk: int, processes: int) -> Trace | None:
    try:
        return kineto.read_whole(FILE, LIMIT_BYTES, chunk, processes)
    except TraceError as error:
        check_error(error, FILE)
        return None


def _said(trace: Trace) -> dict[str, Any]:
    """Return what a trace says; threads with names are numbered by their first event."""
    events, python = trace.events, trace.python
    named: dict[int, int] = {}
    threads = [at if at >= -1 else -2 - named.setdefault(at, len(named)) for at in events.thread.tolist()]
    return {
        "times": (events.start_ns.tolist(), events.end_ns.tolist()),
        "names": [events.names[at] for at in events.name.tolist()],
        "categories": [events.categories[at] for at in events.category.tolist()],
        "threads": threads,
        "collectives": dict(events.collectives),
        "facts": (trace.rank, trace.world_size, trace.host, trace.devices, dict(trace.groups), trace.gpu),
        "steps": np.stack(tuple(vars_of(trace.steps))).tolist(),
        "python": None if python is None else (
            python.start_ns.tolist(),
            [[python.frames[at] for at in python.stacks[one]] for one in python.stack.tolist()],
        ),
        "skipped": {why: count for why, count in trace.skipped.items() if why != _UNEQUAL},
    }  # fmt: skip


def vars_of(steps: Any) -> tuple[Any, ...]:
    """Return the columns of the steps."""
    return steps.number, steps.start_ns, steps.end_ns


def _cut(text: bytes) -> bytes:
    """Return a trace of a few events, of each category and kind of name one or two."""
    tree = trees.parse(text)
    kept: list[Pairs] = []
    seen: dict[str, int] = {}
    for event in next(value for key, value in tree if key == "traceEvents"):
        known = dict(event)
        kind = f"{known.get('ph')} {known.get('cat')} {str(known.get('name'))[:9]}"
        seen[kind] = seen.get(kind, 0) + 1
        if seen[kind] <= 2 and len(kept) < EVENTS:
            kept.append(event)
    return trees.dump(Pairs([key, kept if key == "traceEvents" else value] for key, value in tree)).encode()


def _mutated(data: bytes, draw: random.Random, words: tuple[str, ...]) -> bytes:
    """Change the values of a trace; of a packed one inside."""
    if not data.startswith(GZIP):
        return trees.mutated(data, draw, words)
    unpacker = zlib.decompressobj(31)
    try:
        inside = unpacker.decompress(data, LIMIT_BYTES)
    except zlib.error:
        return data
    return (
        gzip.compress(trees.mutated(inside, draw, words), 1, mtime=0)
        + unpacker.unused_data[: draw.choice((0, 9, 99999))]
    )
