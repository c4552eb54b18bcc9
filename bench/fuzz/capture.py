"""Folders of a captured window: its facts, its arrays, what the loader's processes wrote, and its trace."""

from __future__ import annotations

import json
import random
import shutil
from contextlib import suppress
from pathlib import Path

import numpy as np

from bench.fuzz import trees
from bench.fuzz.check import check_window, refused
from bench.fuzz.target import Target
from bench.fuzz.trees import Pairs, Tree
from eroica_otel.errors import TraceError
from eroica_otel.model import Capture, Identity, Window
from eroica_otel.profile import samples
from eroica_otel.summarize.offline import summarize_trace
from eroica_otel.summarize.pattern import summarize
from eroica_otel.summarize.readers.folder import trace_of

FOLDER = "window-7"
LOADER = "loader-31.jsonl"
WORDS = (
    "meta", "arrays", LOADER, "loader-x.jsonl", samples.TRACE, "window", "identity", "start_ns", "end_ns", "frames",
    "stacks", "realtime_offset_ns", "training_thread", "trace", "missing", "progress", "silent_seconds", "gpu", "end",
    "stack_ns", "stack_ids", "cpu_ns", "gc_ns", "nic_ns", "nic_tx", "nic_rx", "iteration_ns", "batch_ns", "blocked",
    "nic_peak_bytes", "reference", "torch.utils.data.dataloader", "_BaseDataLoaderIter.__next__", "__mp_main__",
)  # fmt: skip
_MAIN, _NEXT = ("__main__", "main", "/job/train.py", 1), (
    "torch.utils.data.dataloader", "_MultiProcessingDataLoaderIter._next_data", "/torch/utils/data/dataloader.py", 700,
)  # fmt: skip
_LOOP = ["torch.utils.data._utils.worker", "_worker_loop", "/torch/utils/data/_utils/worker.py", 200]
_PART = {
    "stack_ns": [10, 30, 60], "stack_ids": [0, 1, 0], "cpu_ns": [0, 15, 20], "batch_ns": [55],
    "frames": [_LOOP, ["__mp_main__", "fetch", "/job/train.py", 9]], "stacks": [[0], [0, 1]],
}  # fmt: skip
_TRACE = """{"schemaVersion": 1, "baseTimeNanoseconds": 0, "traceEvents": [
{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 0.005, "dur": 0.020},
{"ph": "X", "cat": "cpu_op", "name": "gloo:all_reduce", "pid": 1, "tid": 2, "ts": 0.040, "dur": 0.030}]}"""


def target() -> Target:
    """Return the reader of our own captured windows."""
    seeds = [
        _written(reason, trace) for reason, trace in (("reference", "trace.json"), ("blocked", ""), ("manual", ""))
    ]
    return Target(run, seeds, WORDS, _mutated)


def run(data: bytes) -> None:
    """Write the folder that a document describes, and read it as the helper and as ``analyze`` do."""
    try:
        document = trees.parse(data)
    except (ValueError, RecursionError):
        return
    if not isinstance(document, Pairs):
        return
    folder = Path(FOLDER)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for name, content in document:
        _write(folder, name, content)
    with refused(FOLDER):
        captured = samples.read(folder)
        with suppress(TraceError):  # of the trace that the worker knows, wherever it was
            check_window(summarize(captured))
        trace = trace_of(captured, FOLDER)
        check_window(summarize_trace(trace, captured.identity))


def _write(folder: Path, name: str, content: Tree) -> None:
    if name == "meta":
        (folder / samples.META).write_text(trees.dump(content))
    elif name == "arrays" and isinstance(content, Pairs):
        np.savez(str(folder / samples.ARRAYS), allow_pickle=True, **{key: _array(value) for key, value in content})
    elif name == "arrays":  # the bytes themselves, as hexadecimal digits
        (folder / samples.ARRAYS).write_bytes(_bytes(content))
    elif name in (LOADER, "loader-x.jsonl") and isinstance(content, list):
        lines = (line if isinstance(line, str) else trees.dump(line) for line in content)
        (folder / name).write_text("".join(f"{line}\n" for line in lines), "utf-8", "surrogatepass")
    elif name == samples.TRACE:
        (folder / name).write_text(trees.dump(content), "utf-8", "surrogatepass")


def _bytes(content: Tree) -> bytes:
    try:
        return bytes.fromhex(content) if isinstance(content, str) else b""
    except ValueError:
        return b""


def _array(value: Tree) -> np.ndarray[tuple[int, ...], np.dtype[np.generic]]:
    """Return an array of whatever type and shape the values give; 0-dimensional ones and objects as well."""
    try:
        return np.array(trees.plain(value))
    except (ValueError, OverflowError):
        return np.array(str(value))


def _written(reason: str, trace: str) -> bytes:
    """Return a real folder as a document."""
    folder = Path(FOLDER)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    samples.write(folder, _capture(reason, str(folder / trace) if trace else ""))
    with np.load(folder / samples.ARRAYS) as arrays:
        columns = {name: arrays[name].tolist() for name in arrays.files}
    document = {"meta": json.loads((folder / samples.META).read_text()), "arrays": columns}
    document |= {LOADER: [_PART, {"end": 1}], samples.TRACE: json.loads(_TRACE)}
    if reason == "manual":
        document["arrays"] = (folder / samples.ARRAYS).read_bytes().hex()
    return json.dumps(document).encode()


def _capture(reason: str, trace: str) -> Capture:
    times = np.array([5, 20, 40, 70, 95], np.int64)
    return Capture(
        window=Window(1_764_430_000, reason, 4, 6), identity=Identity("job", 1, "node", world_size=4), start_ns=0,
        end_ns=100, iteration_ns=np.array([0, 50, 100], np.int64), realtime_offset_ns=(0, 0), training_thread=1,
        trace=trace, frames=(_MAIN, _NEXT), stacks=((0,), (0, 1)), stack_ns=times,
        stack_ids=np.array([0, 1, 1, 0, 1], np.int32), cpu_ns=times // 2, gc_ns=np.array([[80, 85]], np.int64),
        nic_ns=times, nic_tx=times * 100, nic_rx=times * 90, nic_peak_bytes=1e9, missing={"nvlink": "none"},
        progress={"0": (7, 6)} if reason == "blocked" else {}, silent_seconds=9.0 if reason == "blocked" else None,
    )  # fmt: skip


def _mutated(data: bytes, draw: random.Random, words: tuple[str, ...]) -> bytes:
    """Change values; now and then bytes of the arrays' file instead."""
    tree = trees.parse(data) if draw.randrange(3) == 0 else None
    pairs = tree if isinstance(tree, Pairs) else []
    packed = [pair for pair in pairs if pair[0] == "arrays" and isinstance(pair[1], str)]
    if not packed or len(packed[0][1]) < 200:
        return trees.mutated(data, draw, words)
    content = bytearray(_bytes(packed[0][1]) or b"PK")
    for _ in range(draw.choice((1, 2, 8))):
        content[draw.randrange(len(content))] = draw.choice((0, 1, 8, 32, 127, 255, draw.randrange(256)))
    packed[0][1] = content[: draw.choice((len(content), len(content), len(content) // 2))].hex()
    return trees.dump(tree).encode("utf-8", "surrogatepass")
