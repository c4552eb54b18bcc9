"""A folder of pattern files that fills while it is read."""

from __future__ import annotations

from pathlib import Path

import pytest

from eroica_otel.errors import ConfigError, QueryError
from eroica_otel.model import WorkerWindow
from eroica_otel.query.files import line_of, write
from eroica_otel.query.following import FolderSource
from factories_central import identity, window, windows


class Desk:
    """A folder, who follows it, and what came of it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.state = folder / "in", folder / "read"
        self.folder.mkdir()
        self.taken: list[WorkerWindow] = []
        self.lines: list[str] = []
        self.source = self.again()

    def again(self) -> FolderSource:
        return FolderSource(str(self.folder), self.taken.append, str(self.state), say=self.lines.append)

    def look(self) -> list[int]:
        """Look once; return the ranks that that brought."""
        before = len(self.taken)
        self.source.look()
        return [one.identity.rank for one in self.taken[before:]]

    def append(self, name: str, data: bytes) -> None:
        with (self.folder / name).open("ab") as file:
            file.write(data)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def line(rank: int) -> bytes:
    return line_of(window(rank)) + b"\n"


def test_what_comes_is_read_once_and_as_it_was_written(desk: Desk) -> None:
    assert (desk.look(), desk.source.settled) == ([], True)
    write(desk.folder / "a.jsonl", windows([1]))
    assert desk.look() == [0, 1, 2, 3]
    assert desk.taken == windows([1])
    assert desk.look() == []
    write(desk.folder / "b.jsonl", [window(7)])
    desk.append("a.jsonl", line(9))
    assert sorted(desk.look()) == [7, 9]
    assert desk.source.requests() == {"ok": 6, "failed": 0}


def test_a_line_without_its_end_waits_and_another_kind_of_file_is_none(desk: Desk) -> None:
    whole = line(1)
    desk.append("a.jsonl", line(0) + whole[:40])
    desk.append("a.jsonl.new", line(5))
    assert (desk.look(), desk.source.settled) == ([0], False)
    assert (desk.look(), desk.lines) == ([], [])
    desk.append("a.jsonl", whole[40:])
    assert (desk.look(), desk.source.settled) == ([1], True)


def test_a_restart_reads_nothing_twice_and_another_file_of_the_name_from_its_begin(desk: Desk) -> None:
    desk.append("a.jsonl", line(0) + line(1))
    assert desk.look() == [0, 1]
    desk.source = desk.again()
    desk.append("a.jsonl", line(2))
    assert desk.look() == [2]
    (desk.folder / "new").write_bytes(line(3) + line(4) + line(5) + line(6))
    (desk.folder / "new").replace(desk.folder / "a.jsonl")
    assert desk.look() == [3, 4, 5, 6]
    (desk.folder / "a.jsonl").unlink()
    assert (desk.look(), desk.source.settled) == ([], True)
    desk.state.write_bytes(b"\xc1 no such")
    desk.source = desk.again()
    desk.append("b.jsonl", line(8))
    assert desk.look() == [8]


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (b"{}\n", "it has no \"schema\""), (b"\xff\n", "no worker's window"),
        (line_of(window(who=identity(2**40))) + b"\n", "cannot be"),
        (line_of(window(who=identity(-1))) + b"\n", "cannot be"),
        (line_of(window(window_id=2**60)) + b"\n", "cannot be"), (line_of(window(reason="<b>")) + b"\n", "reason"),
    ],
)  # fmt: skip
def test_a_line_that_is_no_window_is_left_out_and_said_once(desk: Desk, bad: bytes, why: str) -> None:
    desk.append("a.jsonl", line(0) + bad + line(1) + bad)
    assert desk.look() == [0, 1]
    assert desk.source.failures == 2
    assert all(why in said and "a.jsonl, byte " in said for said in desk.lines)


def test_what_is_refused_does_not_stop_the_rest(desk: Desk) -> None:
    def refuse(one: WorkerWindow) -> None:
        if one.identity.rank == 1:
            raise QueryError("no")
        desk.taken.append(one)

    desk.source = FolderSource(str(desk.folder), refuse, say=desk.lines.append)
    write(desk.folder / "a.jsonl", windows())
    assert desk.look() == [0, 2, 3]
    assert [said.endswith("is left out: no") for said in desk.lines] == [True]


def test_a_folder_that_is_none_is_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no such folder; create it"):
        FolderSource(str(tmp_path / "none"), print)
