"""The reader of plain pickles: values come out as they went in, and nothing in a file is ever run."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import pytest

from eroica_otel.errors import TraceError
from eroica_otel.offline.plainpickle import plain, starts

VALUE = {
    "text": "é" * 300, "short": "a", "numbers": [0, 255, 65_535, -1, 2**31 - 1, -(2**40), 1.5], "none": None, 7: True,
    "nested": [{"rank": rank, "pair": (rank, str(rank))} for rank in range(400)], "tuples": [(), (1,), (1, 2, 3, 4)],
}  # fmt: skip


class Runs:
    """A pickle of this asks whoever reads it to run a command."""

    def __init__(self, command: str) -> None:
        self.command = command

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (self.command,)


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_plain_values_come_out_as_they_went_in(protocol: int) -> None:
    assert plain(pickle.dumps(VALUE, protocol), "f") == VALUE


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_a_pickle_that_would_run_a_command_runs_nothing(protocol: int, tmp_path: Path) -> None:
    data = pickle.dumps({"version": "2.9", "entries": [Runs(f"touch {tmp_path}/ran")]}, protocol)
    name = b"\x93" if protocol > 3 else b"c"
    with pytest.raises(TraceError, match=rf"^f: at byte {data.index(name, 20)} it asks to run code .*leave it out"):
        plain(data, "f")
    assert not list(tmp_path.iterdir())
    pickle.loads(data)  # so would any other reader have
    assert (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    "code",
    [b"cos\nsystem\n.", b"(ios\nsystem\n.", b"(o.", b"NR.", b"Nb.", b"N)\x81.", b"N)}\x92.", b"X\x01\x00\x00\x00a\x93.",
     b"Pid\n.", b"Q.", b"\x82\x01.", b"\x83\x01\x00.", b"\x84\x01\x00\x00\x00."],
)  # fmt: skip
def test_every_instruction_about_code_is_refused(code: bytes) -> None:
    with pytest.raises(TraceError, match="asks to run code"):
        plain(b"\x80\x02" + code, "f")


@pytest.mark.parametrize("code", [b"I1\n.", b"\x8e\x01\x00\x00\x00\x00\x00\x00\x00a.", b"C\x01a.", b"\xff.", b"2."])
def test_other_instructions_are_named_with_their_place(code: bytes) -> None:
    with pytest.raises(TraceError, match=r"^f: at byte 2 stands .*no dump of a flight recorder holds; copy it again"):
        plain(b"\x80\x02" + code, "f")


def test_a_pickle_cut_anywhere_is_told() -> None:
    data = pickle.dumps(VALUE, 2)
    for length in range(2, len(data) - 1, 97):
        with pytest.raises(TraceError, match=rf"^f: cut short after {length:,} bytes; copy it again"):
            plain(data[:length], "f")


@pytest.mark.parametrize(
    ("code", "why"),
    [
        (b".", "not there"), (b"a.", "not there"), (b"]a.", "not there"), (b"(a.", "not there"),
        (b"h\x07.", "not there"),
        (b"e.", "has not begun"), (b"N(Ne.", "no list"), (b"N(NNu.", "no dict"), (b"}(Nu.", "no dict"),
        (b"}]Ns.", "neither text nor a number"), (b"}N\x85Ns.", "neither text nor a number"),
        (b"\x8a\x09123456789.", "an integer of 9 bytes"),
    ],
)  # fmt: skip
def test_what_is_no_whole_pickle_is_told_with_its_place(code: bytes, why: str) -> None:
    with pytest.raises(TraceError, match=rf"^f: no whole pickle, at byte \d+ .*{why}.*; copy it again"):
        plain(b"\x80\x02" + code, "f")


@pytest.mark.parametrize(
    "bomb",
    [b"]" * 2000, b"(" * 2000, b"N" * 2000, b"]q\x00" + b"h\x00" * 2000, b"]" + b"\x85" * 2000, b"}" + b"q\x00" * 2000],
    ids=["lists", "marks", "values", "memo", "nested tuples", "memo again"],
)
def test_a_bomb_ends_at_the_limit(bomb: bytes) -> None:
    with pytest.raises(TraceError, match=r"^f: more than 1,000 instructions.*leave it out"):
        plain(b"\x80\x02" + bomb, "f", most_steps=1000)


@pytest.mark.parametrize("code", [b"X\xff\xff\xff\xff", b"\x8d\xff\xff\xff\xff\xff\xff\xff\x7f", b"\x8c\xff"])
def test_a_text_that_promises_more_than_the_file_takes_no_memory(code: bytes) -> None:
    with pytest.raises(TraceError, match="cut short"):
        plain(b"\x80\x02" + code + b"a", "f")


def test_deep_nesting_and_a_list_of_itself_are_values_like_others() -> None:
    deep = plain(b"\x80\x02" + b"]" * 50_000 + b"a" * 49_999 + b".", "f")
    assert isinstance(deep, list)
    itself = plain(b"\x80\x02]q\x00h\x00a.", "f")
    assert isinstance(itself, list)
    assert itself[0] is itself


def test_what_begins_as_no_pickle() -> None:
    assert starts(b"\x80\x02}.")
    assert not any(map(starts, (b"", b"\x80", b"\x80\x06", b"{}", b"(dp0")))
