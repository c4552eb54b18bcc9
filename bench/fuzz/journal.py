"""The localizer's file of windows: what is whole is read, what is not is counted, and the file can be written on."""

from __future__ import annotations

import logging
import random
import struct
import zlib
from pathlib import Path

import msgspec

from bench.fuzz.check import check_error, hold
from bench.fuzz.target import Target
from bench.fuzz.windows import window
from eroica_otel.errors import ConfigError
from eroica_otel.query.journal import MAGIC, Journal

FILE = "journal"
_HEADER = struct.Struct("<II")


def target() -> Target:
    """Return the journal."""
    logging.getLogger("eroica_otel").setLevel(logging.CRITICAL)
    payloads = [msgspec.msgpack.encode(window(reason)) for reason in ("degraded", "blocked")]
    return Target(run, [MAGIC + b"".join(map(_record, payloads)), MAGIC, b"x"], mutate=_mutated)


def run(data: bytes) -> None:
    """Open a file, read it, write on, rewrite it, and read again."""
    Path(FILE).write_bytes(data)
    try:
        journal = Journal(FILE)
    except ConfigError as error:
        check_error(error, FILE)
        return
    before = list(journal.windows())
    hold(journal.append(window()), "it cannot be written on")
    hold(list(journal.windows()) == [*before, window()], "what was written is not there")
    journal.compact()
    hold(window() in list(journal.windows()), "what was written is lost")
    journal.close()


def _record(payload: bytes) -> bytes:
    return _HEADER.pack(len(payload), zlib.crc32(payload)) + payload


def _mutated(data: bytes, draw: random.Random, words: tuple[str, ...]) -> bytes:
    """Change bytes of a record and make its checksum right again, since a wrong one ends the reading."""
    start = len(MAGIC) + _HEADER.size
    if len(data) <= start + 8:
        return data
    length = min(_HEADER.unpack_from(data, len(MAGIC))[0], len(data) - start)
    payload = bytearray(data[start : start + length])
    for _ in range(draw.choice((1, 2, 4))):
        at = draw.randrange(len(payload) or 1)
        payload[at : at + draw.choice((0, 1, 2))] = bytes([draw.choice((0xC0, 0xFF, 0xCB, 0xDF, draw.randrange(256)))])
    return data[: len(MAGIC)] + _record(bytes(payload)) + data[start + length :]
