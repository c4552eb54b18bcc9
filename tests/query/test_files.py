from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from hypothesis import given as sampled
from hypothesis import settings
from hypothesis import strategies as st

from eroica_otel.errors import ConfigError, QueryError
from eroica_otel.model import SCHEMA, WorkerWindow
from eroica_otel.query import files
from eroica_otel.query.journal import MAGIC, Journal
from eroica_otel.query.reading import Shown, Wanted
from factories_central import WINDOW, all_reduce, identity, pattern, window, windows

LATER = WINDOW + 60


def two_windows() -> list[WorkerWindow]:
    other = [window(who=identity(0, training_job="other", team=""))]
    return [*windows(reason="reference"), *other, *windows([2], window_id=LATER)]


def written(path: Path) -> Path:
    files.write(path, two_windows())
    return path


def journalled(path: Path) -> Path:
    journal = Journal(str(path))
    for one in two_windows():
        journal.append(one)
    journal.close()
    return path


@pytest.fixture(params=["patterns", "journal"])
def reader(request: pytest.FixtureRequest, tmp_path: Path) -> files.FileReader:
    if request.param == "patterns":
        return files.pattern_reader([written(tmp_path / "some.jsonl")])
    return files.journal_reader(journalled(tmp_path / "journal"))


def test_the_windows_of_each_job_are_told_in_their_order(reader: files.FileReader) -> None:
    first, other, second = (
        Shown("vision", "llm-7b", WINDOW, "reference", 4),
        Shown("", "other", WINDOW, "degraded", 1),
        Shown("vision", "llm-7b", LATER, "degraded", 4),
    )
    assert reader.shown(Wanted()) == [first, other, second]
    assert reader.shown(Wanted("llm-7b", "vision")) == [first, second]
    assert reader.shown(Wanted(team="")) == [other]
    assert reader.shown(Wanted("nobody")) == []


def test_the_newest_of_each_job_unless_another_is_wanted(reader: files.FileReader) -> None:
    newest = [(one.identity.training_job, one.window_id, one.identity.rank) for one in reader.windows(Wanted())]
    assert newest == [("other", WINDOW, 0), *(("llm-7b", LATER, rank) for rank in range(4))]
    wanted = Wanted("llm-7b", ranks=frozenset({1, 3}), window_id=WINDOW)
    assert list(reader.windows(wanted)) == [windows(reason="reference")[rank] for rank in (1, 3)]


def test_a_worker_that_stands_twice_is_given_once_as_it_was_last(tmp_path: Path) -> None:
    path = tmp_path / "twice.jsonl"
    files.write(path, [window(seconds=1.0), window(seconds=2.0)])
    assert [one.seconds for one in files.pattern_reader([path]).windows(Wanted())] == [2.0]


def test_everything_of_a_window_comes_back_also_what_json_cannot_say(tmp_path: Path) -> None:
    (collective, *more) = all_reduce().collectives
    odd = all_reduce(collectives=(type(collective)("0", 1, None, math.nan), *more), mu=None)
    given = window(patterns=(odd, pattern(function='a "b"\n<c> \\', noise_seconds=1 / 3)), cpu_seconds=None)
    (found,) = files.pattern_reader([_one(tmp_path, given)]).windows(Wanted())
    assert repr(found) == repr(given)  # NaN is not equal to itself


def _one(folder: Path, given: WorkerWindow) -> Path:
    files.write(folder / "one.jsonl", [given])
    return folder / "one.jsonl"


@settings(max_examples=200, deadline=None)
@sampled(st.binary(max_size=300) | st.text(max_size=100).map(str.encode))
def test_a_line_is_a_window_or_said_to_be_none(line: bytes) -> None:
    with pytest.raises(QueryError):
        files.window_of(line)


@pytest.mark.parametrize(
    "change", [{"schema": 2}, {"window": None}, {"window": {"patterns": [1]}}, {"window": {"patterns": 7}}]
)
def test_a_file_of_another_kind_or_version_is_refused_with_its_line(change: dict[str, object], tmp_path: Path) -> None:
    path = _one(tmp_path, window())
    path.write_bytes(path.read_bytes() + json.dumps(json.loads(path.read_text()) | change).encode())
    with pytest.raises(QueryError, match=r"one\.jsonl, line 2: "):
        list(files.pattern_reader([path]).windows(Wanted()))


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        (SCHEMA + 1, rf"it is of schema {SCHEMA + 1}, this version reads {SCHEMA - 1} and {SCHEMA}; read it by the "),
        (-1, r"it is of schema -1, this version reads .*; write it anew by eroica-otel query --json"),
        (None, rf'it has no "schema": {SCHEMA}; write it anew'),
        ("1", rf'it has no "schema": {SCHEMA}; write it anew'),
        (True, rf'it has no "schema": {SCHEMA}; write it anew'),
    ],
)
def test_another_schema_is_refused_by_name(schema: object, why: str) -> None:
    with pytest.raises(QueryError, match=f"^{why}"):
        files.window_of(json.dumps(json.loads(files.line_of(window())) | {"schema": schema}).encode())


def test_this_schema_and_the_one_before_are_read() -> None:
    for schema in (SCHEMA - 1, SCHEMA):
        line = json.dumps(json.loads(files.line_of(window())) | {"schema": schema}).encode()
        assert files.window_of(line) == window()


def test_a_folder_is_all_its_pattern_files(tmp_path: Path) -> None:
    files.write(tmp_path / "a.jsonl", windows()[:2])
    files.write(tmp_path / "b.jsonl", windows()[2:])
    (tmp_path / "report.json").write_text("{}")
    assert list(files.pattern_reader([tmp_path]).windows(Wanted())) == windows()


def test_what_is_not_there_is_said_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(QueryError, match=r"no journal at .* give --state DIR"):
        files.journal_reader(tmp_path / "journal")
    with pytest.raises(QueryError, match=r"holds no file that ends in \.jsonl"):
        files.pattern_reader([tmp_path])
    with pytest.raises(QueryError, match=r"gone\.jsonl cannot be read: No such file"):
        list(files.pattern_reader([tmp_path / "gone.jsonl"]).windows(Wanted()))


def test_a_journal_is_read_while_somebody_writes_it_and_stays_as_it_is(tmp_path: Path) -> None:
    path = journalled(tmp_path / "journal")
    half = path.read_bytes() + b"\xff\x00\x00\x00half a record"
    path.write_bytes(half)
    assert len(list(files.journal_reader(path).windows(Wanted("llm-7b")))) == 4
    assert path.read_bytes() == half


def test_a_file_that_is_no_journal_is_refused(tmp_path: Path) -> None:
    (tmp_path / "journal").write_bytes(MAGIC[:-2] + b"9\n")
    with pytest.raises(ConfigError, match="not a journal of this version"):
        list(files.journal_reader(tmp_path / "journal").windows(Wanted()))
