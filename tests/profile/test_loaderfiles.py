"""What processes of a DataLoader wrote, as the helper reads it: whole, cut short, contradictory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from eroica_otel.profile import loaderfiles
from eroica_otel.profile.loaderfiles import PATIENCE_SECONDS
from eroica_otel.profile.loaders import END

LOOP = ("torch.utils.data._utils.worker", "_worker_loop", "worker.py", 244)
READ = ("__mp_main__", "read", "train.py", 7)


def part(**changes: Any) -> bytes:
    """Return one line: two samples of one stack of two frames, and a batch."""
    fields = {
        "frames": [LOOP, READ], "stacks": [[0, 1]], "stack_ns": [10, 20], "stack_ids": [0, 0], "cpu_ns": [1, 2],
        "batch_ns": [15],
    }  # fmt: skip
    return json.dumps(fields | changes).encode() + b"\n"


MORE = part(frames=[], stacks=[[0]], stack_ns=[30], stack_ids=[1], cpu_ns=[9], batch_ns=[])


def write(folder: Path, content: bytes, process: int = 1) -> Path:
    path = folder / f"loader-{process}.jsonl"
    path.write_bytes(content)
    return path


def test_parts_become_one_and_the_script_has_the_name_that_the_training_knows(tmp_path: Path) -> None:
    write(tmp_path, part() + MORE + END, process=42)
    (one,) = loaderfiles.read(tmp_path)
    assert (one.process, one.ended) == (42, True)
    assert one.frames == (LOOP, ("__main__", *READ[1:]))
    assert one.stacks == ((0, 1), (0,))
    assert (one.stack_ns.tolist(), one.stack_ids.tolist()) == ([10, 20, 30], [0, 0, 1])
    assert (one.cpu_ns.tolist(), one.batch_ns.tolist()) == ([1, 2, 9], [15])


def test_a_file_that_ends_anywhere_gives_its_whole_parts(tmp_path: Path) -> None:
    content = part() + MORE + END
    for size in range(len(content)):
        write(tmp_path, content[:size])
        found = loaderfiles.read(tmp_path)
        # A line without its line feed is whole too.
        whole = sum(size >= len(part() + more) - 1 for more in (b"", MORE))
        assert [one.stack_ns.size for one in found] == [[], [2], [3]][whole]
        assert all(one.ended == (size >= len(content) - 1) for one in found)


@pytest.mark.parametrize(
    "content",
    [
        part(stack_ids=[0, 7]),
        part(stack_ids=[0, -1]),
        part(stacks=[[0, 9]]),
        part(stack_ns=[20, 10]),
        part(cpu_ns=[1, 2**70]),
        part(stack_ns=[], stack_ids=[], cpu_ns=[]),
        part(stack_ns=[1, 2**62]),
        part(stack_ns=[1, float("inf")]),
        part(stack_ns=[1, float("nan")]),
        part(frames=7),
        b'{"stack_ns": ' + b"[" * 100_000,
        b"7\n",
        b"[]\n",
        b"\xff\xfe",
        b"",
    ],
)
def test_what_contradicts_itself_or_holds_nothing_is_left_out(content: bytes, tmp_path: Path) -> None:
    write(tmp_path, content)
    write(tmp_path, part() + END, process=2)
    assert [one.process for one in loaderfiles.read(tmp_path)] == [2]


def test_a_file_whose_name_holds_no_process_is_left_out(tmp_path: Path) -> None:
    write(tmp_path, part() + END, process=2)
    (tmp_path / "loader-x.jsonl").write_bytes(part() + END)
    assert [one.process for one in loaderfiles.read(tmp_path)] == [2]


def test_half_characters_of_a_path_are_replaced(tmp_path: Path) -> None:
    write(tmp_path, part(frames=[["m", "f", "/data/\udcff.py", 1]], stacks=[[0]], stack_ids=[0, 0]))
    (one,) = loaderfiles.read(tmp_path)
    assert one.frames == (("m", "f", "/data/?.py", 1),)


def test_columns_of_different_length_count_as_far_as_all_go(tmp_path: Path) -> None:
    write(tmp_path, part(cpu_ns=[1]))
    (one,) = loaderfiles.read(tmp_path)
    assert one.stack_ns.tolist() == [10]


@pytest.fixture
def meta(tmp_path: Path) -> Path:
    path = tmp_path / "meta.json"
    path.write_text("{}")
    return path


def test_nothing_to_wait_for_without_files_or_when_all_have_their_end(meta: Path, tmp_path: Path) -> None:
    assert loaderfiles.settled(tmp_path, meta)
    write(tmp_path, part() + END, process=os.getpid())
    assert loaderfiles.settled(tmp_path, meta)


def test_a_process_that_lives_is_waited_for_but_not_for_ever(meta: Path, tmp_path: Path) -> None:
    write(tmp_path, part(), process=os.getpid())
    assert not loaderfiles.settled(tmp_path, meta)
    before = meta.stat().st_mtime - PATIENCE_SECONDS - 1
    os.utime(meta, (before, before))
    assert loaderfiles.settled(tmp_path, meta)


def test_a_process_that_is_gone_is_not_waited_for(meta: Path, tmp_path: Path) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    write(tmp_path, part(), process=gone.pid)
    assert loaderfiles.settled(tmp_path, meta)


def test_a_window_that_vanished_is_nothing_to_wait_for(tmp_path: Path) -> None:
    assert loaderfiles.settled(tmp_path, tmp_path / "meta.json")
