"""The job's c10d store as a small dictionary that is never waited on.

A client of our own: a wait on the default store object blocks the trainer's own calls for seconds. Only ``check``,
``get`` of a key that exists, ``set`` and ``compare_set`` are used, from a daemon thread; a frozen server never
answers, whatever the time-out, and then only that thread is lost.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any, Protocol


class Store(Protocol):
    """What agreement needs; every call returns at once or raises OSError or RuntimeError."""

    def get(self, key: str) -> bytes | None: ...

    def set(self, key: str, value: bytes) -> None: ...

    def first(self, key: str, value: bytes) -> bytes:
        """Set ``key`` unless somebody has; return what it holds now."""
        ...


class LocalStore:
    """The store of a job of one process."""

    def __init__(self) -> None:
        self._values: dict[str, bytes] = {}

    def get(self, key: str) -> bytes | None:
        return self._values.get(key)

    def set(self, key: str, value: bytes) -> None:
        self._values[key] = value

    def first(self, key: str, value: bytes) -> bytes:
        return self._values.setdefault(key, value)


class C10dStore:
    """A torch.distributed store under a prefix of its own: run id and restart count keep earlier runs apart."""

    def __init__(self, store: Any, prefix: str) -> None:
        self._store = store
        self._prefix = prefix

    def get(self, key: str) -> bytes | None:
        name = self._prefix + key
        return bytes(self._store.get(name)) if self._store.check([name]) else None

    def set(self, key: str, value: bytes) -> None:
        self._store.set(self._prefix + key, value)

    def first(self, key: str, value: bytes) -> bytes:
        return bytes(self._store.compare_set(self._prefix + key, "", value))


def connect(distributed: Any, environment: Mapping[str, str], prefix: str, world_size: int) -> Store:
    """Return a client of the job's store, by MASTER_ADDR and MASTER_PORT, else a clone of the default store's.

    Args:
        distributed: The module torch.distributed (torch is never imported here).
        environment: The process environment.
        prefix: Put before each key.
        world_size: 1 needs no store.

    Raises:
        RuntimeError: nobody answers, or the job has no store (torch's DistStoreError is a RuntimeError).
    """
    if world_size == 1:
        return LocalStore()
    if distributed is None:
        raise RuntimeError(f"the job has {world_size} ranks by its variables, but uses no torch.distributed")
    address, port = environment.get("MASTER_ADDR"), environment.get("MASTER_PORT")
    if address and port:
        timeout = datetime.timedelta(seconds=5)
        client = distributed.TCPStore(address, int(port), is_master=False, timeout=timeout, wait_for_workers=False)
    else:
        client = distributed.distributed_c10d._get_default_store().clone()
    return C10dStore(client, prefix)
