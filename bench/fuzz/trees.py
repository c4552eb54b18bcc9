"""JSON text <-> a tree that keeps what a document cannot hold but a file can, and random changes of such trees.

Bytes changed at random are hardly ever JSON, so that they test the parser and nothing behind it. Here values, keys and
items change: numbers keep the digits in which they are written, an object may have a key twice.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from typing import Any

Tree = Any
"""None, bool, str, Token, Pairs or a list of trees."""


class Token(str):
    """A value as it stands in the text: a number, or what is none."""

    __slots__ = ()


class Pairs(list[list[Any]]):
    """An object: its [key, value] lists, in their order."""

    __slots__ = ()


DEEP = 3000
ODD = tuple(
    Token(text)
    for text in (
        "0", "-0", "-1", "1", "1.5", "1e3", "0.0000001", "1e308", "-1e308", "1e999", "NaN", "nan", "-inf", "Infinity",
        "2147483648", "-2147483649", "4294967296", "9007199254740993", "1694128201556.123", "1694128201556123.9995",
        "4611686018427387", "4611686018427388", "9223372036854775807", "9223372036854775808", "-9223372036854775809",
        "18446744073709551616", "9" * 60, "9" * 5000, "1." + "3" * 400, "null", "true", "{}", "[]", '""',
        "[" * DEEP + "]" * DEEP, '{"a":' * DEEP + "1" + "}" * DEEP, '"\\ud800"', '"\\u0000"', '"\\ufeff"', "[null]",
    )
)  # fmt: skip
"""What a value is replaced by."""
STRANGE = ("", "\x00", "\ufeff", "\U0001f600", "}, {", '}, {"ph": "X', "\n", "/", "::", ";", "#", "(1): f", "9" * 5000)
"""What is put into a string."""


def parse(text: bytes) -> Tree:
    """Return the tree of a JSON text.

    Raises:
        ValueError, RecursionError: it is none, or too deep.
    """
    keep: Callable[[str], Token] = Token
    return json.loads(
        text.decode("utf-8"), object_pairs_hook=lambda pairs: Pairs([list(pair) for pair in pairs]), parse_int=keep,
        parse_float=keep, parse_constant=keep, strict=False,
    )  # fmt: skip


def dump(tree: Tree) -> str:
    """Return the text of a tree."""
    if isinstance(tree, Token):
        return str(tree)
    if isinstance(tree, Pairs):
        return "{" + ", ".join(f"{_quoted(key)}: {dump(value)}" for key, value in tree) + "}"
    if isinstance(tree, list):
        return "[" + ", ".join(dump(item) for item in tree) + "]"
    return json.dumps(tree)


def items(text: bytes) -> list[bytes]:
    """Return the items of a JSON list, each as a text; the text itself where it is no list, or too deep."""
    try:
        tree = parse(text)
        if isinstance(tree, list) and not isinstance(tree, Pairs) and tree:
            return [dump(item).encode("utf-8", "surrogatepass") for item in tree]
    except (ValueError, RecursionError):
        pass
    return [text]


def _quoted(key: str) -> str:
    return json.dumps(str(key))


def plain(tree: Tree) -> Any:
    """Return the value of a tree as json.loads would; a token that is no JSON as text, a deep one too."""
    try:
        return json.loads(dump(tree))
    except (ValueError, RecursionError):
        return dump(tree)


def mutated(text: bytes, draw: random.Random, words: tuple[str, ...] = ()) -> bytes:
    """Return a JSON text with one to three changes; another text as it is."""
    try:
        box = [parse(text)]
    except (ValueError, RecursionError):
        return text
    for _ in range(draw.choice((1, 1, 2, 3))):
        places = list(_places(box))
        holder, place = draw.choice(places)
        draw.choice(_CHANGES)(draw, holder, place, places, words)
    changed = dump(box[0]).encode("utf-8", "surrogatepass") if box else b""
    return b"\xef\xbb\xbf" + changed if draw.randrange(200) == 0 else changed


_Place = tuple[list[Any], int]
_Change = Callable[[random.Random, list[Any], int, list[_Place], tuple[str, ...]], None]


def _places(box: list[Tree]) -> Iterator[_Place]:
    """Yield (list, index) of every value in a tree; that of an object's item is its [key, value] list."""
    waiting = [box]
    while waiting:
        holder = waiting.pop()
        for place, item in enumerate(holder):
            if isinstance(holder, Pairs):
                yield item, 1
            else:
                yield holder, place
            value = item[1] if isinstance(holder, Pairs) else item
            if isinstance(value, list):
                waiting.append(value)


def _odd(draw: random.Random, holder: list[Any], place: int, places: list[_Place], words: tuple[str, ...]) -> None:
    holder[place] = draw.choice(ODD)


def _other(draw: random.Random, holder: list[Any], place: int, places: list[_Place], words: tuple[str, ...]) -> None:
    other, at = draw.choice(places)
    holder[place] = _copy(other[at])


def _number(draw: random.Random, holder: list[Any], place: int, places: list[_Place], words: tuple[str, ...]) -> None:
    numbers = [(one, at) for one, at in places if isinstance(one[at], Token) and one[at][:1] in "-0123456789"]
    if numbers:
        holder, place = draw.choice(numbers)
        text = holder[place]
        sign = text[1:] if text.startswith("-") else f"-{text}"
        holder[place] = Token(draw.choice((sign, f"{text}0", f"{text}e3", text[: len(text) // 2] or "0", f'"{text}"')))


def _text(draw: random.Random, holder: list[Any], place: int, places: list[_Place], words: tuple[str, ...]) -> None:
    texts = [(one, at) for one, at in places if isinstance(one[at], str) and not isinstance(one[at], Token)]
    if texts:
        holder, place = draw.choice(texts)
        text, at = holder[place], draw.randrange(len(holder[place]) + 1)
        new = draw.choice(words) if words and draw.random() < 0.6 else draw.choice(STRANGE)
        holder[place] = draw.choice((new, text[:at] + new + text[at:]))


def _key(draw: random.Random, holder: list[Any], place: int, places: list[_Place], words: tuple[str, ...]) -> None:
    objects = [one[at] for one, at in places if isinstance(one[at], Pairs)]
    if objects:
        chosen = draw.choice(objects)
        key = draw.choice(words) if words else draw.choice(STRANGE)
        old = draw.choice(chosen)[0] if chosen and draw.random() < 0.3 else key
        chosen.append([old, _copy(draw.choice(places)[0][0]) if draw.random() < 0.5 else draw.choice(ODD)])


def _items(draw: random.Random, holder: list[Any], place: int, places: list[_Place], words: tuple[str, ...]) -> None:
    several = [one[at] for one, at in places if isinstance(one[at], list) and one[at]]
    if several:
        items, change = draw.choice(several), draw.randrange(4)
        at = draw.randrange(len(items))
        if change == 0:
            del items[at]
        elif change == 1:
            items.insert(at, _copy(items[at]))
        elif change == 2:
            items.extend(_copy(items[at]) for _ in range(draw.choice((2, 9, 40))))
        else:
            draw.shuffle(items)


def _copy(tree: Tree) -> Tree:
    return type(tree)(_copy(item) for item in tree) if isinstance(tree, list) else tree


_CHANGES: tuple[_Change, ...] = (_odd, _odd, _other, _number, _number, _text, _text, _key, _items, _items)
