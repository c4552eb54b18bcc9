"""Basic authentication of /metrics: users and hashed passwords from a file, checked without making guesses cheap.

Takes lines "user:scrypt:N:r:p:salt:hash" (salt and hash in hex; RFC 7914), gives yes or no to an Authorization header
(RFC 7617). The hash is Python's hashlib.scrypt, which is OpenSSL's. One check takes 16 MiB and tens of milliseconds, so
that only one runs at a time, a password that was right once is known again by its digest, and after a wrong one the
next guess of that client waits.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from eroica_otel.errors import ConfigError

COST, BLOCK, PARALLEL = 1 << 14, 8, 1
MOST_COST = 1 << 17
MOST_MEMORY = 64 << 20
SALT_BYTES = HASH_BYTES = 32
REST_SECONDS = 1.0
MOST_HEADER = 1024
MOST_CLIENTS = 1024


@dataclass(frozen=True, slots=True)
class Hashed:
    """A hashed password."""

    cost: int
    block: int
    parallel: int
    salt: bytes
    digest: bytes

    def matches(self, password: bytes) -> bool:
        """Whether it is the hash of this password."""
        return hmac.compare_digest(self.digest, _scrypt(password, self.salt, self.cost, self.block, self.parallel))


def _scrypt(password: bytes, salt: bytes, cost: int, block: int, parallel: int) -> bytes:
    return hashlib.scrypt(password, salt=salt, n=cost, r=block, p=parallel, maxmem=MOST_MEMORY, dklen=HASH_BYTES)


def line(user: str, password: str) -> str:
    """Return the line of a user for the file; raises ConfigError for what basic authentication cannot carry."""
    if not user or ":" in user or not user.isprintable():
        raise ConfigError(f"{user!r} is no name of a user; give one without a colon")
    if not password:
        raise ConfigError("the password is empty; give one")
    salt = os.urandom(SALT_BYTES)
    digest = _scrypt(password.encode(), salt, COST, BLOCK, PARALLEL)
    return f"{user}:scrypt:{COST}:{BLOCK}:{PARALLEL}:{salt.hex()}:{digest.hex()}"


def read(path: str) -> dict[str, Hashed]:
    """Return the users of a password file; raises ConfigError where it cannot be read or holds something else."""
    try:
        with open(path, encoding="utf-8") as file:
            lines = [text.strip() for text in file if text.strip() and not text.startswith("#")]
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8"
        raise ConfigError(f"--password-file {path}: {reason}; give a file that can be read") from error
    users = dict(_user(path, number, text) for number, text in enumerate(lines, 1))
    if not users:
        raise ConfigError(f"--password-file {path} has no user; write the output of eroica-hardware password into it")
    return users


def _user(path: str, number: int, text: str) -> tuple[str, Hashed]:
    try:
        user, name, cost, block, parallel, salt, digest = text.split(":")
        hashed = Hashed(int(cost), int(block), int(parallel), bytes.fromhex(salt), bytes.fromhex(digest))
        if name != "scrypt" or not user or not 2 <= hashed.cost <= MOST_COST or len(hashed.digest) != HASH_BYTES:
            raise ValueError(name)
        hashed.matches(b"")  # numbers that scrypt refuses are told now, not at a scrape
    except ValueError as error:
        raise ConfigError(
            f"--password-file {path}: user {number} is no line of eroica-hardware password; write its output there"
        ) from error
    return user, hashed


class Doorkeeper:
    """Says who may see /metrics."""

    def __init__(self, users: Mapping[str, Hashed], clock: Callable[[], float] = time.monotonic) -> None:
        """Without ``users`` everybody may."""
        self._users, self._clock = dict(users), clock
        self._known: set[bytes] = set()
        self._lock = threading.Lock()
        self._rests: dict[str, float] = {}
        self._secret = os.urandom(32)

    def admits(self, header: str, client: str = "") -> bool:
        """Return whether the value of an Authorization header lets in the client of that address; never raises."""
        if not self._users:
            return True
        user, password = _credentials(header)
        seen = hmac.digest(self._secret, f"{user}:".encode() + password, "sha256")
        if seen in self._known:
            return True
        if user not in self._users or not self._lock.acquire(timeout=REST_SECONDS):
            return False
        try:
            return self._checked(user, password, seen, client)
        finally:
            self._lock.release()

    def _checked(self, user: str, password: bytes, seen: bytes, client: str) -> bool:
        now = self._clock()
        if now < self._rests.get(client, now):
            return False
        if self._users[user].matches(password):
            self._known.add(seen)
            return True
        if len(self._rests) >= MOST_CLIENTS:
            self._rests = {one: until for one, until in self._rests.items() if until > now}
        if len(self._rests) < MOST_CLIENTS:
            self._rests[client] = now + REST_SECONDS
        return False


def _credentials(header: str) -> tuple[str, bytes]:
    """Return user and password of "Basic ...", ("", b"") for anything else."""
    kind, _, text = header.partition(" ")
    if kind.lower() != "basic" or len(header) > MOST_HEADER:
        return "", b""
    try:
        user, _, password = base64.b64decode(text.strip(), validate=True).partition(b":")
        return user.decode(), password
    except (binascii.Error, UnicodeDecodeError, ValueError):
        return "", b""
