"""A pickle of plain values -> those values. Nothing in it is ever imported, called or run.

Known are the instructions that make None, booleans, numbers of 64 bits, text, lists, tuples and dicts; the first other
one ends the reading. So a file can name code, but nothing here knows how to fetch or to call it. Memory is bound by the
size of the file and by the number of instructions; nothing recurses.
"""

from __future__ import annotations

import pickletools
from collections.abc import Callable, Mapping
from struct import Struct
from types import MappingProxyType

from eroica_otel.errors import TraceError

MOST_STEPS = 4_000_000
"""Instructions followed: 20,000 collectives with stacks take about 3 million, and the recorder's default is 2,000."""
_LONGEST_INTEGER = 8
_CODE = frozenset(
    [
        "GLOBAL",
        "STACK_GLOBAL",
        "REDUCE",
        "BUILD",
        "INST",
        "OBJ",
        "NEWOBJ",
        "NEWOBJ_EX",
        "PERSID",
        "BINPERSID",
        "EXT1",
        "EXT2",
        "EXT4",
    ]
)
"""Instructions that name or call code."""
_ONE, _TWO, _FOUR, _EIGHT = Struct("<B"), Struct("<H"), Struct("<I"), Struct("<Q")
_PROTO, _STOP = 0x80, ord(".")


def starts(data: bytes) -> bool:
    """Return whether this is how a pickle of protocol 2 to 5 begins."""
    return len(data) > 1 and data[0] == _PROTO and 2 <= data[1] <= 5


def plain(data: bytes, path: str, most_steps: int = MOST_STEPS) -> object:
    """Return the value that a pickle of protocol 2 to 5 holds. Lists and dicts in it may be shared, or hold themselves.

    Args:
        path: Name of the file, for the message.

    Raises:
        TraceError: it holds anything but plain values, is cut short, or holds more than ``most_steps`` instructions.
    """
    reader = _Reader(data, path)
    steps, size = dict(_STEPS), len(data)
    for _ in range(most_steps):
        at = reader.at
        code = data[at] if at < size else reader.take(1)[0]
        reader.at = at + 1
        if code == _STOP:
            return reader.pop()
        step = steps.get(code)
        if step is None:
            raise reader.refused(code, at)
        step(reader)
    raise TraceError(
        f"{path}: more than {most_steps:,} instructions, and no dump of a flight recorder has as many; "
        "leave it out, or record fewer collectives (TORCH_FR_BUFFER_SIZE)"
    )


class _Reader:
    """Bytes, how far they are read, and the values made so far."""

    __slots__ = ("at", "data", "marks", "memo", "path", "stack")

    def __init__(self, data: bytes, path: str) -> None:
        self.data, self.path, self.at = data, path, 0
        self.stack: list[object] = []
        self.marks: list[int] = []
        self.memo: dict[int, object] = {}

    def take(self, count: int) -> bytes:
        """Return the next bytes; what a length promises must be there before anything is made of it."""
        end = self.at + count
        if end > len(self.data):
            raise TraceError(f"{self.path}: cut short after {len(self.data):,} bytes; copy it again")
        found = self.data[self.at : end]
        self.at = end
        return found

    def unpack(self, form: Struct) -> int:
        return int(form.unpack(self.take(form.size))[0])

    def pop(self) -> object:
        """Return the latest value of the innermost mark."""
        if len(self.stack) <= (self.marks[-1] if self.marks else 0):
            raise self.broken("a value is used that is not there")
        return self.stack.pop()

    def popped(self) -> list[object]:
        """Return the values since the innermost mark, which is taken off."""
        if not self.marks:
            raise self.broken("a list ends that has not begun")
        start = self.marks.pop()
        found = self.stack[start:]
        del self.stack[start:]
        return found

    def top(self) -> object:
        found = self.pop()
        self.stack.append(found)
        return found

    def broken(self, what: str) -> TraceError:
        return TraceError(f"{self.path}: no whole pickle, at byte {self.at:,} {what}; copy it again, or leave it out")

    def refused(self, code: int, at: int) -> TraceError:
        name = next((one.name for one in pickletools.opcodes if one.code == chr(code)), f"0x{code:02x}")
        if name in _CODE:
            return TraceError(
                f"{self.path}: at byte {at:,} it asks to run code ({name}), which no flight recorder writes; "
                "nothing was run; leave it out, and ask where it comes from"
            )
        return TraceError(
            f"{self.path}: at byte {at:,} stands {name}, which no dump of a flight recorder holds; copy it again, or "
            "leave it out"
        )


_Step = Callable[[_Reader], None]


def _number(form: Struct) -> _Step:
    return lambda reader: reader.stack.append(form.unpack(reader.take(form.size))[0])


def _skip(count: int) -> _Step:
    def step(reader: _Reader) -> None:
        reader.take(count)

    return step


def _constant(value: object) -> _Step:
    return lambda reader: reader.stack.append(value)


def _empty(kind: type[list[object]] | type[dict[object, object]]) -> _Step:
    return lambda reader: reader.stack.append(kind())


def _text(form: Struct) -> _Step:
    return lambda reader: reader.stack.append(reader.take(reader.unpack(form)).decode("utf-8", "replace"))


def _tuple(size: int) -> _Step:
    return lambda reader: reader.stack.append(tuple(reversed([reader.pop() for _ in range(size)])))


def _put(form: Struct | None) -> _Step:
    def step(reader: _Reader) -> None:
        reader.memo[len(reader.memo) if form is None else reader.unpack(form)] = reader.top()

    return step


def _get(form: Struct) -> _Step:
    unpack, size = form.unpack_from, form.size

    def step(reader: _Reader) -> None:
        at = reader.at
        if at + size > len(reader.data):
            reader.take(size)
        (number,) = unpack(reader.data, at)
        reader.at = at + size
        if number not in reader.memo:
            raise reader.broken("a value is used that is not there")
        reader.stack.append(reader.memo[number])

    return step


def _long(reader: _Reader) -> None:
    size = reader.unpack(_ONE)
    if size > _LONGEST_INTEGER:
        raise reader.broken(f"an integer of {size} bytes stands")
    reader.stack.append(int.from_bytes(reader.take(size), "little", signed=True))


def _append(reader: _Reader) -> None:
    value = reader.pop()
    _list(reader).append(value)


def _appends(reader: _Reader) -> None:
    values = reader.popped()
    _list(reader).extend(values)


def _list(reader: _Reader) -> list[object]:
    found = reader.top()
    if type(found) is not list:
        raise reader.broken("something is put into what is no list")
    return found


def _set_item(reader: _Reader) -> None:
    value, key = reader.pop(), reader.pop()
    _set(reader, [key, value])


def _set_items(reader: _Reader) -> None:
    _set(reader, reader.popped())


def _set(reader: _Reader, pairs: list[object]) -> None:
    """Put pairs into a dict. Keys are text or numbers: the hash of nested tuples would recurse."""
    found = reader.top()
    if type(found) is not dict or len(pairs) % 2:
        raise reader.broken("something is put into what is no dict")
    for key, value in zip(pairs[::2], pairs[1::2], strict=True):
        if not isinstance(key, str | int):
            raise reader.broken("a key is neither text nor a number")
        found[key] = value


_STEPS: Mapping[int, _Step] = MappingProxyType({
    _PROTO: _skip(1),
    0x95: _skip(8),  # FRAME: how many bytes belong together
    ord("("): lambda reader: reader.marks.append(len(reader.stack)),
    ord("N"): _constant(None), 0x88: _constant(True), 0x89: _constant(False), ord(")"): _constant(()),
    ord("K"): _number(_ONE), ord("M"): _number(_TWO), ord("J"): _number(Struct("<i")), ord("G"): _number(Struct(">d")),
    0x8A: _long,
    ord("X"): _text(_FOUR), 0x8C: _text(_ONE), 0x8D: _text(_EIGHT),
    ord("]"): _empty(list), ord("}"): _empty(dict),
    ord("a"): _append, ord("e"): _appends, ord("s"): _set_item, ord("u"): _set_items,
    0x85: _tuple(1), 0x86: _tuple(2), 0x87: _tuple(3),
    ord("t"): lambda reader: reader.stack.append(tuple(reader.popped())),
    ord("q"): _put(_ONE), ord("r"): _put(_FOUR), 0x94: _put(None),
    ord("h"): _get(_ONE), ord("j"): _get(_FOUR),
})  # fmt: skip
