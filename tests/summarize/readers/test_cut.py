"""Pieces of a trace: nothing is lost between them, and each ends between two events."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from eroica_otel.errors import TraceError
from eroica_otel.summarize.readers import cut as cutting
from eroica_otel.summarize.readers.cut import cut

EVENTS = [{"ph": "X", "name": f"op{number}", "args": {"list": [{"a": 1}, {"b": 2}]}} for number in range(5)]
TEXT = ",\n  ".join(json.dumps(event) for event in EVENTS).encode()


def _blocks(text: bytes, size: int) -> Iterator[bytes]:
    return (text[place : place + size] for place in range(0, len(text), size))


def test_events_survive_wherever_blocks_end() -> None:
    for size in range(1, len(TEXT) + 2):
        pieces = list(cut("t.json", 100, b"", _blocks(TEXT, size)))
        assert [event for piece in pieces for event in json.loads(b"[" + piece.text + b"]")] == EVENTS
        assert [piece.last for piece in pieces] == [False] * (len(pieces) - 1) + [True]
        assert all(TEXT[piece.position - 100 :].startswith(piece.text) for piece in pieces)


@pytest.mark.parametrize("back", range(len(b',\n  {"ph"') + 1))
def test_a_border_where_two_blocks_meet_is_one(back: int) -> None:
    border = len(json.dumps(EVENTS[0])) + back
    pieces = list(cut("t.json", 0, TEXT[:border], [TEXT[border : border + 12]]))
    assert [json.loads(b"[" + pieces[0].text + b"]"), pieces[0].last] == [EVENTS[:1], False]


def test_what_was_read_with_the_head_belongs_to_the_first_piece() -> None:
    pieces = list(cut("t.json", 7, TEXT[:10], [TEXT[10:]]))
    assert (pieces[0].position, json.loads(b"[" + pieces[0].text + b"]")) == (7, EVENTS[:-1])


def test_a_file_without_borders_ends_in_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cutting, "LARGEST_BYTES", 1000)
    with pytest.raises(TraceError, match=r"t\.json: 1100 bytes from byte 5 on without a border between two events"):
        list(cut("t.json", 5, b"", [b"}" * 100] * 20))
