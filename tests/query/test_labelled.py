"""Windows in the layout of labels as columns: the same as the windows that are made of the same series."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from backends import NOW, BackendServer, backend
from eroica_otel import names
from eroica_otel.localize.verdict import judge, judge_columns
from eroica_otel.model import WorkerWindow
from eroica_otel.query.client import Backend, Client, QueryFailed
from eroica_otel.query.decode import decode
from eroica_otel.query.labelled import Labelled
from eroica_otel.query.look import Asker, Member
from eroica_otel.query.promql import Raw
from eroica_otel.query.scraped import Process, Stream
from eroica_otel.query.wide import table_of
from eroica_otel.table import Table
from eroica_otel.tabled import table_of as rows_of
from factories_central import WINDOW, all_reduce, identity, pattern, window, windows
from test_tabled import words

KINDS = {"compute": 0.4, "communication": 0.2, "python": 0.1, "idle": 0.3}


class Reader:
    """Reads what a backend holds, in both ways."""

    def __init__(self, server: BackendServer, api: str) -> None:
        self.samples = server.samples
        self.streams = api == "victoriametrics"
        self._asker = Asker(Client(Backend(server.url, api=api, timeout_seconds=20)), "", api)

    def members(self, window_id: int) -> list[Member]:
        found = self._asker.look(300)
        members = [(stream, one) for stream in found.chosen.values() for one in found.episodes[stream]]
        return sorted((one for one in members if one[1].window_id == window_id), key=lambda one: one[0].process.rank)

    def windows(self, window_id: int = WINDOW) -> list[WorkerWindow]:
        members = self.members(window_id)
        points = self._asker.windows(members)
        return [found for stream, _ in members if (found := decode(points[stream])) is not None]

    def table(self, window_id: int = WINDOW, without: int = 0, *, is_all: bool = False) -> Table:
        """Return the table of all but the first few ranks."""
        return table_of("llm-7b", self._asker.labelled(self.members(window_id)[without:], is_all=is_all))


@pytest.fixture(params=["prometheus", "victoriametrics"])
def reader(request: pytest.FixtureRequest) -> Iterator[Reader]:
    with backend() as server:
        server.exports = request.param == "victoriametrics"
        yield Reader(server, request.param)


def told(table: Table) -> list[object]:
    """Return what a table says with its functions in the order of their ids."""
    order = sorted(range(table.beta.size), key=lambda at: (table.worker[at], table.functions[table.function[at]].id))
    calls = sorted(
        range(table.calls.worker.size), key=lambda at: (table.calls.worker[at], table.calls.group[at])
    )  # fmt: skip
    sorted_ = replace(
        table, calls=table.calls.at(calls), **{  # type: ignore[arg-type]
            name: getattr(table, name)[order] for name in ("worker", "function", "beta", "mu", "sigma", "noise")
        },
    )  # fmt: skip
    return words(sorted_)


def odd(window_id: int = WINDOW) -> list[WorkerWindow]:
    """Return workers that differ in what they report; hosts and functions that need care in a text."""
    hosts = ["node-1", 'no"de', "back\\slash", "ü", "x" * 300]
    return [
        window(
            at, who=identity(at, host=host, role="dense" if at % 2 else "expert"), window_id=window_id, kinds=KINDS,
            patterns=(
                all_reduce(), pattern("aaaaaaaaaaab", function='f "b",rank="9"', beta=0.1 + at / 100, stack=("a:b:1",)),
                *((pattern("dddddddddddd", beta=0.01, mu=None, sigma=None, noise_seconds=0.01),) * (at > 2)),
            ),
            throttled_ratio=0.25 * at, host_use={"cgroup_cpu": 0.5} if at == 1 else {},
            unknown={"warp": (None, 0.5)} if at == 2 else {},
        )
        for at, host in enumerate(hosts)
    ]  # fmt: skip


@pytest.mark.parametrize("added", [{}, {"rank": "scraped", "replica": "a"}])
def test_a_table_says_what_the_windows_say(reader: Reader, added: dict[str, Any]) -> None:
    reader.samples.scrape(NOW - 60, NOW - 30, odd(WINDOW - 60), **added)
    reader.samples.scrape(NOW - 30, NOW, odd(), **added)
    windows_read = reader.windows()
    assert len(windows_read) == 5
    assert told(reader.table()) == told(rows_of(windows_read))
    assert reader.table(WINDOW - 60).workers.window_id.tolist() == [WINDOW - 60] * 5


@pytest.mark.parametrize(("is_all", "without"), [(True, 0), (True, 2), (False, 2)])
def test_a_whole_job_is_streamed_without_a_list_of_ranks(reader: Reader, is_all: bool, without: int) -> None:
    reader.samples.scrape(NOW - 30, NOW, odd())
    asked = len(reader.samples.questions)
    table = reader.table(without=without, is_all=is_all)
    assert told(table) == told(rows_of(reader.windows()[without:]))
    question = next(one for one in reader.samples.questions[asked:] if names.PATTERN_BETA.name in one)
    assert ("rank=" in question) is not (is_all and reader.streams)


def test_the_verdict_is_that_on_the_windows(reader: Reader) -> None:
    reader.samples.scrape(NOW - 30, NOW, windows([2], size=8, kinds=KINDS))
    report = judge_columns(reader.table(), expected=8)
    assert repr(report) == repr(judge(reader.windows(), expected=8))
    assert [one.ranks for one in report.findings if one.severity != "info"] == [(2,)]


def test_of_two_replicas_one_is_read(reader: Reader) -> None:
    for replica in ("a", "b"):
        reader.samples.scrape(NOW - 30, NOW, windows(size=3), replica=replica)
    table = reader.table()
    assert table.workers.rank.tolist() == [0, 1, 2]
    assert table.beta.size == sum(len(one.patterns) for one in windows(size=3))


def test_what_is_no_series_is_said() -> None:
    stream = Stream(Process("job", "", "0", "", "", ""), frozenset())
    with pytest.raises(QueryFailed, match="labels of a series are none"):
        Labelled({stream: (0.0, 2.0)}).take([Raw(b'{"__name__":1}', [(1.0, 1.0)])])
    found = Labelled({stream: (0.0, 2.0)})
    found.take([Raw(b'{"__name__":"up","rank":"0","training_job":"job"}', [(1.0, 1.0)])])
    assert list(found.slots(names.WINDOW_ID)) == []
