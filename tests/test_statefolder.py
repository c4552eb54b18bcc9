from __future__ import annotations

import math
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from eroica_otel.errors import ConfigError
from eroica_otel.jobstate import Life
from eroica_otel.publish.series import OpenFinding
from eroica_otel.statefolder import REFERENCE_SECONDS, VERSION, JobRecord, Reference, StateFolder, key_of, replace_file
from factories_central import detail, finding, identity, report, windows


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[StateFolder]:
    made = StateFolder(str(tmp_path))
    yield made
    made.close()


def record() -> JobRecord:
    life = Life(
        (OpenFinding(finding(drift_distance=math.inf), 1, "degraded", (identity(1),), 3, "other"),), 1, True, 5.0
    )
    given = report(detail=detail(), findings=(finding(),))
    return JobRecord("vision", "llm-7b", (1, 2), life, given, (given,), 1_764_430_010.0, 0.25)


def test_what_was_written_is_read_again(folder: StateFolder) -> None:
    assert folder.read() == ()
    folder.write([record()])
    assert folder.read() == (record(),)


def test_what_a_newer_version_wrote_is_refused_by_name_and_stays(tmp_path: Path) -> None:
    StateFolder(str(tmp_path)).close()
    path = tmp_path / "localizer" / "state"
    newer = msgspec.msgpack.encode({"version": VERSION + 1, "jobs": {"in": "another form"}})
    path.write_bytes(newer)
    for _ in range(2):  # the lock is free again
        with pytest.raises(ConfigError, match=rf"was written by a newer version \(state {VERSION + 1}, .*; use that"):
            StateFolder(str(tmp_path))
    assert path.read_bytes() == newer


def test_what_the_version_before_wrote_is_read(tmp_path: Path, folder: StateFolder) -> None:
    """It knew fewer fields; those it did not know have their defaults."""
    job = {"team": "vision", "training_job": "llm-7b", "judged": [1, 2]}
    (tmp_path / "localizer" / "state").write_bytes(msgspec.msgpack.encode({"version": VERSION - 1, "jobs": [job]}))
    assert folder.read() == (JobRecord("vision", "llm-7b", (1, 2)),)


def test_everything_is_private_and_the_given_folder_is_left_alone(tmp_path: Path, folder: StateFolder) -> None:
    tmp_path.chmod(0o755)
    folder.write([record()])
    folder.keep(Reference(key_of(windows()), 1.0, tuple(windows())))
    modes = {os.path.join(top, name): os.stat(os.path.join(top, name)).st_mode for top, _, names in os.walk(folder.path)
             for name in names}  # fmt: skip
    assert {stat.S_IMODE(mode) for mode in modes.values()} == {0o600}
    assert stat.S_IMODE(os.stat(folder.path).st_mode) == 0o700
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o755


def test_a_second_localizer_is_told_who_has_it(tmp_path: Path, folder: StateFolder) -> None:
    with pytest.raises(ConfigError, match=rf"in use by another localizer \(pid {os.getpid()}\)"):
        StateFolder(str(tmp_path))


def test_a_closed_folder_is_free(tmp_path: Path) -> None:
    StateFolder(str(tmp_path)).close()
    StateFolder(str(tmp_path)).close()


def test_a_folder_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="--state"):
        StateFolder(str(tmp_path / "file" / "below"))


def test_a_link_in_its_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "localizer").symlink_to(tmp_path)
    with pytest.raises(ConfigError, match="not a folder of this user"):
        StateFolder(str(tmp_path))


@pytest.mark.parametrize("content", [b"", b"\xc1", b"\x92\x63\x90"], ids=["empty", "damaged", "another version"])
def test_a_state_that_cannot_be_understood_is_left_out(folder: StateFolder, content: bytes) -> None:
    Path(folder.path, "state").write_bytes(content)
    assert folder.read() == ()


def reference(kept_at: float, size: int = 4, **changes: Any) -> Reference:
    given = windows(size=size, reason="reference", **changes)
    return Reference(key_of(given), kept_at, tuple(given))


def test_the_oldest_complete_reference_of_a_key_stays_for_30_days(folder: StateFolder) -> None:
    first, second = reference(100.0), reference(200.0)
    folder.keep(first)
    folder.keep(second)
    assert folder.reference(first.key, 300.0) == first
    late = 101.0 + REFERENCE_SECONDS
    assert folder.reference(first.key, late) is None
    folder.keep(reference(late))
    assert folder.reference(first.key, late) == reference(late)


def test_an_incomplete_reference_gives_way_to_a_better_one(folder: StateFolder) -> None:
    half, worse, full = reference(100.0, size=2), reference(200.0, size=1), reference(300.0, size=4)
    for given in (half, worse):
        folder.keep(given)
    assert folder.reference(full.key, 300.0) == half
    folder.keep(full)
    assert folder.reference(full.key, 300.0) == full


def test_another_loop_or_another_size_has_another_reference(folder: StateFolder) -> None:
    folder.keep(reference(100.0))
    other_loop = reference(100.0, signature="loop-2").key
    other_size = key_of([*windows(size=1, who=identity(0, world_size=8))])
    assert folder.reference(other_loop, 100.0) is None
    assert folder.reference(other_size, 100.0) is None
    assert folder.reference(key_of(windows(slow=[1])), 100.0) is not None


def test_old_references_are_removed(folder: StateFolder) -> None:
    given = reference(100.0)
    folder.keep(given)
    written = os.stat(Path(folder.path, "references", os.listdir(Path(folder.path, "references"))[0])).st_mtime
    folder.prune(written + REFERENCE_SECONDS - 1)
    assert folder.reference(given.key, 100.0) == given
    folder.prune(written + REFERENCE_SECONDS + 1)
    assert folder.reference(given.key, 100.0) is None


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    path = str(tmp_path / "report.json")
    replace_file(path, b"one")
    os.mkdir(path + ".new")
    with pytest.raises(OSError, match="directory"):
        replace_file(path, b"two")
    assert Path(path).read_bytes() == b"one"
