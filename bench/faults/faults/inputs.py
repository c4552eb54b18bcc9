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
SHARD_BYTES = 64 << 20
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
    path = pathlib.Path(order.more["folder"]) / f"shard-{scene.rank}"
    if not path.exists():
        make_shard(path)
    size = max(ALIGNED, round(order.value) * 1024)
    file = os.open(path, os.O_RDONLY)
    try:
        place = scene.iteration * size % (SHARD_BYTES - size) // ALIGNED * ALIGNED
        os.posix_fadvise(file, place, size, os.POSIX_FADV_DONTNEED)
        os.pread(file, size, place)
    finally:
        os.close(file)
    return batch


def make_shard(path: pathlib.Path) -> None:
    """Write a file of 64 MiB and wait until it is on the disk, for what is not cannot leave memory."""
    part = path.with_suffix(f".{os.getpid()}")
    with part.open("wb") as file:
        for _ in range(SHARD_BYTES >> 20):
            file.write(os.urandom(1 << 20))
        file.flush()
        os.fsync(file.fileno())
    part.rename(path)


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
