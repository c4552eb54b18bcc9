"""Slow inputs: what a data set does in its fetch, in the loader's process where there is one."""

from __future__ import annotations

import fcntl
import itertools
import os
import pathlib
import time
import zlib
from typing import Any

from bench.faults.faults.order import Order, Scene

TEXT = "the loss of the run that was not saved is lost and the rest is to be run at a later hour of the day "
SHARD_BYTES = 32 << 20
ALIGNED = 4096


def tokenize(batch: Any, order: Order, scene: Scene) -> Any:
    """Merge pairs of letters in a text, as byte-pair encoding does, for ``value`` seconds of CPU time."""
    end = time.thread_time() + order.value
    while time.thread_time() < end:
        tokens = list(TEXT)
        for _ in range(20):
            pairs = [left + right for left, right in itertools.pairwise(tokens)]
            best = max(set(pairs), key=pairs.count)
            tokens = _merged(tokens, best)
            if time.thread_time() >= end:
                break
    return batch


def _merged(tokens: list[str], pair: str) -> list[str]:
    merged: list[str] = []
    for token in tokens:
        if merged and merged[-1] + token == pair:
            merged[-1] = pair
        else:
            merged.append(token)
    return merged


def unpack_shard(batch: Any, order: Order, scene: Scene) -> Any:
    """Unpack the next shard, ``value`` seconds of CPU time; with ``every`` only some batches begin one."""
    packed = scene.kept.setdefault("packed", zlib.compress(TEXT.encode() * 2000))
    end = time.thread_time() + order.value
    while time.thread_time() < end:
        zlib.decompress(packed)
    return batch


def read_shard(batch: Any, order: Order, scene: Scene) -> Any:
    """Read ``value`` KiB of a file past the page cache, as a data set does that is larger than memory."""
    path = shard_of(pathlib.Path(order.more["folder"]), scene.rank)
    size = max(ALIGNED, round(order.value) * 1024)
    file = os.open(path, os.O_RDONLY)
    try:
        place = scene.iteration * size % (SHARD_BYTES - size) // ALIGNED * ALIGNED
        os.posix_fadvise(file, place, size, os.POSIX_FADV_DONTNEED)
        os.pread(file, size, place)
    finally:
        os.close(file)
    return batch


def shard_of(folder: pathlib.Path, rank: int) -> pathlib.Path:
    """Return the file of a rank."""
    return folder / f"shard-{rank}"


def make_shards(folder: pathlib.Path, world: int) -> None:
    """Write a file for each rank and take it out of memory, so that a rank that reads it has it in its own."""
    data = os.urandom(SHARD_BYTES)
    for rank in range(world):
        with shard_of(folder, rank).open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())  # what is not on the disk cannot leave memory
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def read_cache(batch: Any, order: Order, scene: Scene) -> Any:
    """Read a cache that all who share ``folder`` lock, for ``value`` seconds: they wait for each other."""
    with (pathlib.Path(order.more["folder"]) / "cache.lock").open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        time.sleep(order.value)
    return batch


def wait_for_remote(batch: Any, order: Order, scene: Scene) -> Any:
    """Wait ``value`` seconds for data of another machine."""
    time.sleep(order.value)
    return batch
