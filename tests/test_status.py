"""The status file: one writer, any number of readers, nobody waits."""

from __future__ import annotations

import json
import math
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from eroica_otel.errors import EroicaError
from eroica_otel.status import HEADER, RING, SIZE, STATUS_FILE, StatusReader, StatusWriter, live_workers
from factories_worker import identity, status


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / STATUS_FILE


def test_what_is_written_is_read_field_by_field(path: Path) -> None:
    writer = StatusWriter(path)
    given = status(2)
    writer.write(given, [(0.1, 0.2), (math.nan, 0.3)])
    seen = StatusReader(path).read()
    assert seen is not None
    assert seen[0] == given
    assert seen[1] > 0
    np.testing.assert_array_equal(seen[2], [[0.1, 0.2], [math.nan, 0.3]])


def test_the_file_is_private_and_has_its_final_size_at_once(path: Path) -> None:
    StatusWriter(path)
    assert path.stat().st_size == SIZE
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_nothing_written_yet_is_none(path: Path) -> None:
    StatusWriter(path)
    assert StatusReader(path).read() is None


def test_iterations_are_given_once_and_those_that_left_the_ring_are_counted(path: Path) -> None:
    writer, reader = StatusWriter(path), StatusReader(path)
    writer.write(status(), [(1.0, 1.0)])
    assert len((reader.read() or ((), 0, ()))[2]) == 1
    assert len((reader.read() or ((), 0, (0,)))[2]) == 0
    writer.write(status(), [(float(number), 0.0) for number in range(RING + 10)])
    seen = reader.read()
    assert seen is not None
    assert len(seen[2]) == RING
    assert (seen[2][0, 0], seen[2][-1, 0]) == (10.0, RING + 9.0)
    assert reader.lost == 10


def test_a_status_that_is_too_long_loses_its_tables_first(path: Path) -> None:
    writer = StatusWriter(path)
    writer.write(status(groups=tuple((f"group-{n}" * 20, 4, "0") for n in range(200))), [(1.0, 2.0)])
    seen = StatusReader(path).read()
    assert seen is not None
    assert seen[0] == status(groups=(), collectives={})
    np.testing.assert_array_equal(seen[2], [[1.0, 2.0]])
    writer.write(status(activity="x" * 20_000))
    seen = StatusReader(path).read()
    assert seen is not None
    assert seen[0].activity == ""
    assert seen[0].state == "healthy"


def test_one_that_is_too_long_even_so_is_an_error_and_the_file_stays_readable(path: Path) -> None:
    writer = StatusWriter(path)
    writer.write(status())
    with pytest.raises(EroicaError, match="shorten the job's name"):
        writer.write(status(identity=identity(training_job="x" * 20_000)))
    seen = StatusReader(path).read()
    assert seen is not None
    assert seen[0] == status()


def test_in_the_middle_of_a_write_there_is_nothing_to_read_and_the_next_one_is_whole(path: Path) -> None:
    def broken() -> Iterator[tuple[float, float]]:
        yield (1.0, 1.0)
        raise ZeroDivisionError

    writer, reader = StatusWriter(path), StatusReader(path)
    writer.write(status())
    with pytest.raises(ZeroDivisionError):
        writer.write(status(iterations=601), broken())
    assert reader.read() is None
    writer.write(status(iterations=602))
    seen = reader.read()
    assert seen is not None
    assert seen[0].iterations == 602


def test_a_reader_never_sees_half_of_a_write(path: Path) -> None:
    writer, reader = StatusWriter(path), StatusReader(path)
    stopping = threading.Event()

    def hammer() -> None:
        number = 0
        while not stopping.is_set():
            number += 1
            # Everything in one write carries the same number, and its length changes.
            writer.write(
                status(iterations=number, irregular=number, activity=str(number) * (number % 50)),
                [(float(number), float(number))],
            )

    thread = threading.Thread(target=hammer)
    thread.start()
    seen, rows = 0, []
    try:
        while seen < 1000:
            read = reader.read()
            if read is None:
                continue
            seen += 1
            found, _, new = read
            assert found.irregular == found.iterations
            assert found.activity == str(found.iterations) * (found.iterations % 50)
            rows += list(new)
            if len(new):
                assert new[-1, 0] == found.iterations
    finally:
        stopping.set()
        thread.join()
    numbers = [row[0] for row in rows]
    assert numbers == sorted(set(numbers))
    assert all(row[0] == row[1] for row in rows)
    assert reader.lost == numbers[-1] - len(numbers)


WRITER = """
import sys
from pathlib import Path
from factories_worker import status
from eroica_otel.status import StatusWriter
writer = StatusWriter(Path(sys.argv[1]))
print("ready", flush=True)
for number in range(1, 10**9):
    writer.write(status(iterations=number, irregular=number, activity=str(number) * (number % 50)))
"""


def test_a_reader_in_another_process_sees_no_half_either(path: Path) -> None:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, env=environment, text=True
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        reader = StatusReader(path)
        seen: set[int] = set()
        while len(seen) < 200:
            if (read := reader.read()) is not None:
                assert read[0].irregular == read[0].iterations
                assert read[0].activity == str(read[0].iterations) * (read[0].iterations % 50)
                seen.add(read[0].iterations)
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("content", [b"", b"short", b"\0" * (SIZE - 1)], ids=["empty", "short", "one byte less"])
def test_a_file_of_another_kind_is_refused_with_its_name(content: bytes, path: Path) -> None:
    path.write_bytes(content)
    with pytest.raises(EroicaError, match=f"{path} is not a status file"):
        StatusReader(path)


def test_a_file_that_is_missing_is_refused(path: Path) -> None:
    with pytest.raises(EroicaError, match="is not a status file"):
        StatusReader(path)


def foreign(path: Path, text: bytes) -> None:
    data = bytearray(SIZE)
    HEADER.pack_into(data, 0, b"EROICA\x00\x01", 2, 1, 0, len(text))
    data[64 : 64 + len(text)] = text
    path.write_bytes(bytes(data))


@pytest.mark.parametrize(
    "text",
    [b"\xff\xfe{}", b"[]", b"{}", b'{"identity": {}}', json.dumps({"identity": {"rank": 1}, "new": 1}).encode()],
)
def test_a_status_of_another_version_is_an_error_of_ours(text: bytes, path: Path) -> None:
    foreign(path, text)
    with pytest.raises(EroicaError, match="another version"):
        StatusReader(path).read()


def worker(folder: Path, pid: int, rank: int, job: str = "llm-7b") -> None:
    (folder / str(pid)).mkdir()
    StatusWriter(folder / str(pid) / STATUS_FILE).write(status(pid=pid, identity=identity(rank, training_job=job)))


def test_live_workers_are_those_whose_process_runs_by_job_and_rank(tmp_path: Path) -> None:
    with subprocess.Popen(["true"]) as ended:
        pass
    worker(tmp_path, os.getpid(), 3)
    worker(tmp_path, os.getppid(), 1)
    worker(tmp_path, ended.pid, 0)
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / STATUS_FILE).write_bytes(b"x")
    (tmp_path / "other").mkdir()
    foreign(tmp_path / "other" / STATUS_FILE, b"[]")
    assert [(folder.name, found.identity.rank) for folder, found in live_workers(tmp_path)] == [
        (str(os.getppid()), 1),
        (str(os.getpid()), 3),
    ]
    assert live_workers(tmp_path / "nowhere") == []


def test_a_worker_that_lost_its_core_in_the_middle_of_a_write_is_live(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pid-1").mkdir()
    writer = StatusWriter(tmp_path / "pid-1" / STATUS_FILE)
    writer.write(status(pid=os.getpid()))
    writer._begin(1)
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 3:
            writer.write(status(pid=os.getpid()))

    monkeypatch.setattr("eroica_otel.status.time.sleep", sleep)
    assert [found.pid for _, found in live_workers(tmp_path)] == [os.getpid()]
    writer._begin(1)
    assert live_workers(tmp_path) == []  # one that never ends its write is not waited for
    assert len(slept) < 50
