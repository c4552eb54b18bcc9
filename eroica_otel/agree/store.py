"""The job's c10d store as a small dictionary that is never waited on.

A client of our own: a wait on the default store object blocks the trainer's own calls for seconds. Only ``check``,
``get`` of a key that exists, ``set`` and ``compare_set`` are used, from a daemon thread; a frozen server never
answers, whatever the time-out, and then only that thread is lost.
"""

from __future__ import annotations

import datetime
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

LEADER_PATIENCE_SECONDS = 30.0
"""After this time without rank 0, which may not be watched, another rank opens the attempt."""
ATTEMPT_SECONDS = 5.0
"""Between two looks at which attempt is the present one: thousands of ranks ask one server."""
MOST_AT_ONCE = 64
_ATTEMPT = "attempt"


class Store(Protocol):
    """What agreement needs; every call returns at once or raises OSError or RuntimeError."""

    def attempt(self) -> str:
        """Return the name of the job's present attempt, under which all keys lie; "" while nobody has opened one."""
        ...

    def get(self, key: str) -> bytes | None: ...

    def get_all(self, keys: Sequence[str]) -> list[bytes]:
        """Return the values of those that exist; one request for many keys."""
        ...

    def set(self, key: str, value: bytes) -> None: ...

    def first(self, key: str, value: bytes) -> bytes:
        """Set ``key`` unless somebody has; return what it holds now."""
        ...


class LocalStore:
    """The store of a job of one process."""

    def __init__(self) -> None:
        self._values: dict[str, bytes] = {}

    def attempt(self) -> str:
        return "only"

    def get(self, key: str) -> bytes | None:
        return self._values.get(key)

    def get_all(self, keys: Sequence[str]) -> list[bytes]:
        return [self._values[key] for key in keys if key in self._values]

    def set(self, key: str, value: bytes) -> None:
        self._values[key] = value

    def first(self, key: str, value: bytes) -> bytes:
        return self._values.setdefault(key, value)


class C10dStore:
    """A torch.distributed store under a prefix of its own.

    The store of an elastic launcher outlives restarts, and the launchers of two nodes count these differently, so no
    number of theirs can keep earlier attempts apart: rank 0 draws a name when it connects, the others follow.
    """

    def __init__(
        self, store: Any, prefix: str, attempt: str | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Take the store; ``attempt`` as in ``connect``."""
        self._store = store
        self._prefix = prefix
        self._follows = attempt is not None
        self._attempt = "" if self._follows else "only"
        self._clock = clock
        self._since = self._asked = clock()
        self._known: set[str] = set()
        self._looked, self._found = not self._follows or bool(attempt), b""
        if attempt:
            self._store.set(prefix + _ATTEMPT, attempt)

    def attempt(self) -> str:
        now = self._clock()
        if self._follows and (not self._attempt or now - self._asked > ATTEMPT_SECONDS):
            self._asked = now
            told = self._read(self._prefix + _ATTEMPT)
            if told is None and now - self._since > LEADER_PATIENCE_SECONDS:
                told = bytes(self._store.compare_set(self._prefix + _ATTEMPT, "", new_attempt()))
            self._attempt = (told or b"").decode()
            if not self._looked:
                self._looked, self._found = True, told or b""
        return "" if self._may_be_over(now) else self._attempt

    def _may_be_over(self, now: float) -> bool:
        """Whether the attempt lay there when this rank came: rank 0, which comes at the same time, may open another."""
        return bool(self._found) and self._attempt == self._found.decode() and now - self._since <= ATTEMPT_SECONDS

    def get(self, key: str) -> bytes | None:
        return self._read(self._name(key))

    def get_all(self, keys: Sequence[str]) -> list[bytes]:
        """As the protocol says; a key once seen stays, so that only new ones are asked for one by one."""
        names = [self._name(key) for key in keys]
        self._known |= {name for name in names if name not in self._known and self._store.check([name])}
        present = [name for name in names if name in self._known]
        parts = [present[at : at + MOST_AT_ONCE] for at in range(0, len(present), MOST_AT_ONCE)]
        return [bytes(value) for part in parts for value in self._store.multi_get(part)]

    def set(self, key: str, value: bytes) -> None:
        self._store.set(self._name(key), value)

    def first(self, key: str, value: bytes) -> bytes:
        return bytes(self._store.compare_set(self._name(key), "", value))

    def _read(self, name: str) -> bytes | None:
        return bytes(self._store.get(name)) if self._store.check([name]) else None

    def _name(self, key: str) -> str:
        return f"{self._prefix}{self._attempt}/{key}" if self._follows else self._prefix + key


def new_attempt() -> str:
    """Return a name that no attempt has had."""
    return secrets.token_hex(8)


def connect(
    distributed: Any, environment: Mapping[str, str], prefix: str, world_size: int, attempt: str | None = None
) -> Store:
    """Return a client of the job's store, by MASTER_ADDR and MASTER_PORT, else a clone of the default store's.

    Args:
        distributed: The module torch.distributed (torch is never imported here).
        environment: The process environment.
        prefix: Put before each key.
        world_size: 1 needs no store.
        attempt: Name of the attempt that this process, rank 0, begins (the same each time it connects); "" = follow
            rank 0; None = there is one attempt only.

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
    return C10dStore(client, prefix, attempt)
