"""One dump of torch's flight recorder (pickle or JSON) -> what it tells, checked; single odd entries are counted.

Written by ProcessGroupNCCL when a collective times out (``TORCH_FR_DUMP_TEMP_FILE``), by gloo and others on request.
The format is that of versions 2.x of torch's FlightRecorder; numbers of the JSON form may be text.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import msgspec

from eroica_otel.errors import TraceError, one_line
from eroica_otel.kinds import Frame
from eroica_otel.offline.plainpickle import plain, starts

LIMIT_BYTES = 64 << 20
MOST_ENTRIES = 200_000
_LATEST = 256
"""Entries kept of each dump although they have ended, so that another collective in their place is seen."""
_MOST_SIZES = 64
"""Dimensions of a tensor; torch has fewer."""
_MOST_TENSORS = 65_536
_LONGEST = 4_000_000
"""Characters of a list of ranks: that of half a million ranks has fewer."""
_VERSION = re.compile(r"2\.\d{1,6}")
_DIGITS = re.compile(r"-?\d{1,18}")
_ENDS = re.compile(r"\b(send|recv) (\d{1,7})(->|<-)(\d{1,7})$")


@dataclass(frozen=True, slots=True)
class Entry:
    """One collective or transfer.

    Attributes:
        group: Name and description of the process group.
        local: The recorder's number of the group in this process.
        number: Collectives of the group up to this one.
        backend: "nccl", "gloo" and so on.
        name: What it is, without the backend.
        done: Whether it has completed; gloo says so by ``retired`` alone.
        transfer: Whether it is between two ranks.
        ends: Sender and receiver of a transfer as ranks of the group, None unknown.
        values: Values in all input tensors, None unknown.
        types: Their types.
        frames: From where it was called, outermost first.
    """

    group: tuple[str, str]
    local: int
    number: int
    backend: str
    name: str
    done: bool
    transfer: bool
    ends: tuple[int, int] | None
    values: int | None
    types: str
    frames: tuple[Frame, ...]


@dataclass(frozen=True, slots=True)
class Dump:
    """What one rank's recorder held.

    Attributes:
        path: The file.
        version: Of the format.
        members: Ranks by name of the process group, where the dump tells them.
        described: Description by name of the process group.
        status: (enqueued, completed) by the recorder's number of the group; transfers may count in both.
        entries: Oldest first: what has not ended, and the latest of what has.
        last_seconds: Unix time of the latest call, NaN unknown.
        odd: Entries that could not be used.
    """

    path: str
    version: str
    members: Mapping[str, tuple[int, ...]]
    described: Mapping[str, str]
    status: Mapping[int, tuple[int, int]]
    entries: tuple[Entry, ...]
    last_seconds: float
    odd: int


def read_dump(path: str, limit_bytes: int = LIMIT_BYTES) -> Dump:
    """Return what a dump tells. Nothing in the file is run.

    Raises:
        TraceError: it cannot be read, is no dump, or is of a version that is not known.
    """
    try:
        with Path(path).open("rb") as file:
            data = file.read(limit_bytes + 1)
    except OSError as error:
        raise TraceError(f"{path} cannot be read ({error.strerror}); make it readable, or leave it out") from error
    if not data:
        raise TraceError(f"{path} is empty: its rank ended before it had written it; copy it again, or leave it out")
    if len(data) > limit_bytes:
        raise TraceError(
            f"{path}: larger than {limit_bytes >> 20} MiB, and no dump of a flight recorder is; leave it out, or "
            "record fewer collectives (TORCH_FR_BUFFER_SIZE)"
        )
    return _checked(_value(data, path), path)


def _value(data: bytes, path: str) -> object:
    if starts(data):
        return plain(data, path)
    if data.lstrip()[:1] == b"{":
        try:
            return msgspec.json.decode(data)
        except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
            raise TraceError(f"{path}: not whole JSON ({one_line(str(error), 100)}); copy it again") from error
    raise TraceError(f"{path}: neither a pickle nor JSON; leave it out, and give the folder of the recorder's dumps")


def _checked(value: object, path: str) -> Dump:
    version = value.get("version") if isinstance(value, dict) else None
    if not isinstance(value, dict) or not isinstance(version, str):
        raise TraceError(f"{path}: no dump of a flight recorder (it has no version); leave it out")
    if not _VERSION.fullmatch(version):
        raise TraceError(
            f"{path}: a dump of version {one_line(version, 20)!r}; 2.x is read here: take a newer eroica-otel, or dump "
            "with torch 2.4 or later"
        )
    raw = value.get("entries", [])
    if not isinstance(raw, list) or len(raw) > MOST_ENTRIES:
        raise TraceError(f"{path}: its entries are no list of at most {MOST_ENTRIES:,}; leave it out")
    cache: dict[int, object] = {}
    entries = [_entry(one, cache) for one in raw]
    config = _table(value.get("pg_config"))
    times = [time for one in raw if (time := _whole(_get(one, "time_created_ns"))) is not None]
    return Dump(
        path=path, version=version,
        members={name: ranks for name, one in config if (ranks := _ranks(_long_text(one.get("ranks"))))},
        described={name: _text(one.get("desc")) for name, one in config},
        status=dict(_status(value.get("pg_status"))),
        entries=_kept([one for one in entries if one is not None]),
        last_seconds=max(times) / 1e9 if times else math.nan,
        odd=sum(one is None for one in entries),
    )  # fmt: skip


def _kept(entries: list[Entry]) -> tuple[Entry, ...]:
    """Return what has not ended, the latest, and the latest that has ended in each group: the rest proves nothing."""
    seen: set[tuple[tuple[str, str], bool]] = set()
    kept: list[Entry] = []
    for at, entry in enumerate(reversed(entries)):
        kind = (entry.group, entry.transfer)
        if not entry.done or at < _LATEST or kind not in seen:
            kept.append(entry)
        if entry.done:
            seen.add(kind)
    return tuple(reversed(kept))


def _table(value: object) -> list[tuple[str, dict[object, object]]]:
    if not isinstance(value, dict):
        return []
    return [(_text(name), one) for name, one in value.items() if isinstance(one, dict)]


def _status(value: object) -> Iterator[tuple[int, tuple[int, int]]]:
    for name, one in _table(value):
        enqueued = _whole(one.get("last_enqueued_collective"))
        completed = _whole(one.get("last_completed_collective"))
        if _DIGITS.fullmatch(name) and enqueued is not None and completed is not None:
            yield int(name), (max(enqueued, 0), max(completed, 0))


def _entry(value: object, cache: dict[int, object]) -> Entry | None:
    """Return one entry, None where it lacks what is needed."""
    number = _whole(_get(value, "collective_seq_id"))
    number = _whole(_get(value, "seq_id")) if number is None else number
    label = _get(value, "profiling_name")
    if number is None or number < 0 or not isinstance(label, str) or not label:
        return None
    backend, _, name = label.rpartition(":")
    local = _whole(_get(value, "pg_id"))
    state, retired = _get(value, "state"), _get(value, "retired") is True
    ends = _ends(name)
    return Entry(
        group=_group(_get(value, "process_group"), local),
        local=-1 if local is None else local,
        number=number,
        backend=_short(backend, 32),
        name=_short(name.partition(" ")[0], 64),
        done=state == "completed" or (retired and backend == "gloo"),
        transfer=ends is not None or _get(value, "is_p2p") is True,
        ends=ends,
        values=_values(_get(value, "input_sizes"), cache),
        types=_types(_get(value, "input_dtypes")),
        frames=_frames(_get(value, "frames"), cache),
    )


def _group(value: object, local: int | None) -> tuple[str, str]:
    if isinstance(value, list | tuple) and len(value) == 2:
        return _text(value[0]), _text(value[1])
    return str(local if local is not None else ""), ""


def _ends(name: str) -> tuple[int, int] | None:
    """Return sender and receiver of "send 0->1" and "recv 1<-0"."""
    found = _ENDS.search(name)
    if found is None:
        return None
    mine, other = int(found[2]), int(found[4])
    return (mine, other) if found[1] == "send" else (other, mine)


def _values(sizes: object, cache: dict[int, object]) -> int | None:
    """Return the values in tensors of these sizes; a list that many entries share is counted once."""
    if not isinstance(sizes, list):
        return None
    if id(sizes) not in cache:
        cache[id(sizes)] = _product_sum(sizes)
    found = cache[id(sizes)]
    return found if isinstance(found, int) else None


def _product_sum(sizes: list[object]) -> int | None:
    total = 0
    if len(sizes) > _MOST_TENSORS:
        return None
    for one in sizes:
        if not isinstance(one, list | tuple) or len(one) > _MOST_SIZES:
            return None
        whole = [_whole(size) for size in one]
        if any(size is None or size < 0 for size in whole):
            return None
        total += math.prod(size for size in whole if size is not None)
    return total


def _types(value: object) -> str:
    """Return the types of the tensors, each once; "" where they are not told."""
    found = value if isinstance(value, list) else []
    return ", ".join(dict.fromkeys(_short(one, 32) for one in found[:_MOST_SIZES] if isinstance(one, str)))


def _frames(value: object, cache: dict[int, object]) -> tuple[Frame, ...]:
    """Return the stack outermost first; the recorder writes it innermost first."""
    if not isinstance(value, list):
        return ()
    if id(value) not in cache:
        frames = []
        for one in reversed(value[:256]):
            if id(one) not in cache:
                cache[id(one)] = _frame(one)
            frames.append(cache[id(one)])
        cache[id(value)] = tuple(frame for frame in frames if isinstance(frame, Frame))
    found = cache[id(value)]
    return found if isinstance(found, tuple) else ()


def _frame(value: object) -> Frame | None:
    name, file, line = (_get(value, key) for key in ("name", "filename", "line"))
    if not isinstance(name, str) or not isinstance(file, str):
        return None
    number = _whole(line)
    file = _short(file, 300)
    return Frame(_module(file), _short(name, 120) or "?", file, number if number is not None and number > 0 else 0)


def _module(file: str) -> str:
    """Return the module of a file: whole in an installed library, else its last part."""
    path = file.replace("\\", "/").removesuffix(".py")
    for folder in ("/site-packages/", "/dist-packages/"):
        if folder in path:
            return path.rpartition(folder)[2].replace("/", ".").removesuffix(".__init__")
    return path.rpartition("/")[2].replace(":", "_") or "?"


@lru_cache(maxsize=256)
def _ranks(value: str) -> tuple[int, ...]:
    """Return the ranks in "[0, 1, 2]", one tuple for all dumps that hold it; () where that is not what it is."""
    parts = [part.strip() for part in value.strip("[] ").split(",")]
    return tuple(int(part) for part in parts) if all(re.fullmatch(r"\d{1,7}", part) for part in parts) else ()


def _long_text(value: object) -> str:
    return value if isinstance(value, str) and len(value) <= _LONGEST else ""


def _short(text: str, most: int) -> str:
    """Return a text as one short line; entries repeat the same few, of which no long ones are kept."""
    return _line(text[: 4 * most], most)


_line = lru_cache(maxsize=4096)(one_line)


def _get(value: object, key: str) -> object:
    return value.get(key) if isinstance(value, dict) else None


def _text(value: object) -> str:
    number = _whole(value)
    return _short(value, 128) if isinstance(value, str) else str(number) if number is not None else ""


def _whole(value: object) -> int | None:
    """Return a whole number, also where it is text, as in the JSON form; None for anything else."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value if -(1 << 63) <= value < 1 << 64 else None
    return int(value) if isinstance(value, str) and _DIGITS.fullmatch(value) else None
