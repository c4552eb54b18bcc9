from __future__ import annotations

import logging
import os
import resource
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given as sampled
from hypothesis import settings
from hypothesis import strategies as st

from eroica_otel.errors import ConfigError
from eroica_otel.query.journal import MAGIC, Journal
from factories_central import WINDOW, all_reduce, identity, pattern, window, windows


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "journal")


def filled(path: str, count: int = 3) -> list[object]:
    journal = Journal(path)
    given = windows(size=count)
    assert all(journal.append(item) for item in given)
    journal.close()
    return list(given)


def test_windows_come_back_as_they_were(path: str) -> None:
    given = [window(patterns=(pattern(noise_seconds=0.1), all_reduce(mu=None))), window(1, cpu_seconds=None)]
    journal = Journal(path)
    for item in given:
        journal.append(item)
    assert list(Journal(path).windows()) == given
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600


@settings(max_examples=40, deadline=None)
@sampled(st.data())
def test_a_torn_end_costs_the_torn_record_only(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    path = str(tmp_path_factory.mktemp("torn") / "journal")
    given = filled(path)
    whole = Path(path).read_bytes()
    cut = data.draw(st.integers(0, len(whole) - 1))
    Path(path).write_bytes(whole[:cut])
    journal = Journal(path)
    kept = list(journal.windows())
    assert kept == given[: len(kept)]
    assert len(kept) < len(given)
    assert journal.append(window(9))
    assert list(Journal(path).windows()) == [*kept, window(9)]


def test_a_damaged_record_ends_the_reading_and_is_counted(path: str, caplog: pytest.LogCaptureFixture) -> None:
    given = filled(path)
    raw = bytearray(Path(path).read_bytes())
    raw[-10] ^= 0xFF
    Path(path).write_bytes(raw)
    journal = Journal(path)
    assert list(journal.windows()) == given[:-1]
    assert journal.failures == 1
    assert "cut off" in caplog.text


def test_a_length_from_nowhere_is_not_read_into_memory(path: str) -> None:
    given = filled(path)
    with open(path, "ab") as file:
        file.write(b"\xff\xff\xff\xff\0\0\0\0")
    assert list(Journal(path).windows()) == given


def test_another_file_is_not_touched(path: str) -> None:
    Path(path).write_text("my only copy")
    with pytest.raises(ConfigError, match="not a journal"):
        Journal(path)
    assert Path(path).read_text() == "my only copy"


def test_a_folder_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--state"):
        Journal(str(tmp_path / "none" / "journal"))


def test_compaction_keeps_the_newest_windows_of_each_job(path: str) -> None:
    journal = Journal(path, keep=2)
    other = identity(training_job="other")
    journal.append(window(who=other))
    for index in range(5):
        for rank in range(2):
            journal.append(window(rank, window_id=WINDOW + index))
    journal.compact()
    assert journal.append(window(2, window_id=WINDOW + 4))
    kept = [(item.identity.training_job, item.window_id, item.identity.rank) for item in Journal(path).windows()]
    job = "llm-7b"
    last = [
        (job, WINDOW + 3, 0),
        (job, WINDOW + 3, 1),
        (job, WINDOW + 4, 0),
        (job, WINDOW + 4, 1),
        (job, WINDOW + 4, 2),
    ]
    assert kept == [("other", WINDOW, 0), *last]


def test_it_compacts_itself_and_stays_small(path: str) -> None:
    journal = Journal(path, keep=1, compact_bytes=4096)
    for index in range(200):
        journal.append(window(window_id=WINDOW + index))
    assert os.path.getsize(path) < 3 * 4096
    assert list(Journal(path).windows())[-1].window_id == WINDOW + 199


@contextmanager
def full_disk(size: int) -> Iterator[None]:
    """Let no file of this process grow beyond ``size`` bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_is_counted_logged_once_and_over_when_there_is_space(
    path: str, caplog: pytest.LogCaptureFixture
) -> None:
    journal = Journal(path)
    assert journal.append(window(0))
    with caplog.at_level(logging.WARNING), full_disk(os.path.getsize(path) + 20):
        assert [journal.append(window(rank)) for rank in (1, 2)] == [False, False]
    assert journal.failures == 2
    assert caplog.text.count("cannot be written") == 1
    assert journal.append(window(3))
    assert [item.identity.rank for item in Journal(path).windows()] == [0, 3]


def test_a_compaction_on_a_full_disk_keeps_the_journal(path: str) -> None:
    journal = Journal(path, keep=1)
    for rank in range(3):
        journal.append(window(rank))
    with full_disk(len(MAGIC) + 10), pytest.raises(OSError, match="large"):
        journal.compact()
    assert len(list(Journal(path).windows())) == 3


_WRITER = """
import sys
sys.path.insert(0, sys.argv[2])
from eroica_otel.query.journal import Journal
from factories_central import window
journal = Journal(sys.argv[1])
for index in range(10**9):
    journal.append(window(window_id=index))
"""


def test_kill_9_of_a_writer_loses_nothing_that_was_whole(path: str) -> None:
    tests = str(Path(__file__).parents[1])
    writer = subprocess.Popen([sys.executable, "-c", _WRITER, path, tests])
    while not os.path.exists(path) or os.path.getsize(path) < 20_000:
        assert writer.poll() is None
        time.sleep(0.01)
    writer.send_signal(signal.SIGKILL)
    writer.wait()
    ids = [item.window_id for item in Journal(path).windows()]
    assert ids == list(range(len(ids)))
    assert len(ids) > 10
