from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

from eroica_otel.offline.files import find, is_other_json
from eroica_otel.profile.samples import META


def touch(path: Path, content: bytes = b"{}") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def test_a_folder_gives_its_traces_and_names_what_it_passed_over(tmp_path: Path) -> None:
    traces = [touch(tmp_path / name) for name in ("a.json", "b/c.pt.trace.json.gz", "b/d.SQLITE")]
    others = [touch(tmp_path / name) for name in ("README.md", "b/log.txt")]
    touch(tmp_path / ".hidden.json")
    touch(tmp_path / ".cache" / "old.json")
    found = find([tmp_path])
    assert sorted(found.files) == sorted(map(str, traces))
    assert sorted(found.passed) == sorted(map(str, others))
    assert found.searched == set(found.files)
    assert found.problems == ()


def test_a_capture_folder_is_one_trace_wherever_it_lies(tmp_path: Path) -> None:
    capture = touch(tmp_path / "job" / "window-1" / META).parent
    touch(capture / "trace.json")
    assert find([tmp_path]).files == (str(capture),)
    assert find([capture]).files == (str(capture),)


def test_one_worker_of_a_file_that_holds_several(tmp_path: Path) -> None:
    file = touch(tmp_path / "node.sqlite")
    assert find([f"{file}#1"]).files == (f"{file}#1",)
    assert len(find([tmp_path / "other.sqlite#1"]).problems) == 1


def test_a_file_that_is_given_is_taken_whatever_its_name_and_once(tmp_path: Path) -> None:
    file = touch(tmp_path / "profile.out")
    (tmp_path / "link.json").symlink_to(file)
    found = find([file, tmp_path / "link.json", tmp_path])
    assert found.files == (str(file),)
    assert found.searched == frozenset()


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("all.tar.gz", "is an archive; unpack it"),
        ("all.zip", "is an archive; unpack it"),
        ("r.nsys-rep", "nsys export --type sqlite"),
        ("t.json.zst", "pack it by gzip"),
    ],
)
def test_what_cannot_be_read_as_it_is_names_the_remedy(name: str, remedy: str, tmp_path: Path) -> None:
    (problem,) = find([touch(tmp_path / name)]).problems
    assert problem.text.startswith(str(tmp_path / name))
    assert remedy in problem.text
    assert not problem.usage


def test_paths_without_a_trace(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    touch(tmp_path / "other" / "notes.md")
    missing, empty, other = find([tmp_path / "no", tmp_path / "empty", tmp_path / "other"]).problems
    assert "there is no such file or folder" in missing.text
    assert "empty holds no trace: it is empty" in empty.text
    assert "holds no trace among its 1 files (looked for .json, .json.gz, .sqlite and capture folders)" in other.text
    assert all(problem.usage for problem in (missing, empty, other))


@pytest.mark.parametrize(
    ("name", "told"), [("_dump_0", True), ("nccl_trace_rank_3", True), ("core_dump_0.txt", False), ("notes.md", False)]
)
def test_who_gives_dumps_of_the_flight_recorder_is_told_the_flag(name: str, told: bool, tmp_path: Path) -> None:
    touch(tmp_path / name)
    (problem,) = find([tmp_path]).problems
    assert problem.text.endswith(f" --flight-recorder {tmp_path}") is told


@pytest.mark.parametrize(
    ("name", "content", "other"),
    [
        ("report.json", b'{"schema": 1}', True),
        ("report.json.gz", gzip.compress(b'{"schema": 1}', mtime=0), True),
        ("rank0.json", b'{"deviceProperties": [], "traceEvents": [', False),
        ("my_trace.json", b'{"schema": 1}', False),
        ("cut.json.gz", b"\x1f\x8b garbage", False),
        ("empty.json", b"", False),
        ("config.json", b'{"schema": 1', False),
        ("rank3.json", b'{"schema": 1}', False),
        ("list.json", b"[1, 2]", True),
        ("cut.json.gz", gzip.compress(b'{"schema": 1}', mtime=0)[:-9], False),
    ],
)
def test_json_of_another_kind_is_told_from_a_broken_trace(
    name: str, content: bytes, other: bool, tmp_path: Path
) -> None:
    assert is_other_json(str(touch(tmp_path / name, content))) is other


def test_folders_behind_links_are_searched_once_and_a_circle_ends(tmp_path: Path) -> None:
    run, scratch = tmp_path / "run", tmp_path / "scratch"
    run.mkdir()
    touch(run / "rank0.json")
    touch(scratch / "rank1.json")
    (run / "rank1").symlink_to(scratch)
    (run / "again").symlink_to(scratch)
    (scratch / "back").symlink_to(run)
    found = find([run])
    assert [Path(one).name for one in found.files] == ["rank0.json", "rank1.json"]
    assert found.problems == ()


def test_a_folder_that_may_not_be_read_is_named_and_the_others_are_searched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    touch(tmp_path / "open" / "rank0.json")
    touch(tmp_path / "shut" / "rank1.json")
    really = os.scandir

    def scandir(path: str) -> object:
        if str(path).endswith("shut"):
            raise PermissionError(13, "Permission denied", str(path))
        return really(path)

    def is_file(path: Path) -> bool:
        if path.parent.name == "shut":
            raise PermissionError(13, "Permission denied", str(path))
        return os.path.isfile(path)

    monkeypatch.setattr(os, "scandir", scandir)
    monkeypatch.setattr(Path, "is_file", is_file)
    found = find([tmp_path])
    assert [Path(one).name for one in found.files] == ["rank0.json"]
    (problem,) = found.problems
    what = "the folder cannot be read (Permission denied); make it readable for this user, or leave it out"
    assert problem.text == f"{tmp_path / 'shut'}: {what}"
    (alone,) = find([tmp_path / "shut"]).problems
    assert alone == problem
