from __future__ import annotations

import math
import re

import numpy as np
import pytest

from eroica_otel import names
from eroica_otel.export.remotewritevec import VecLayout
from eroica_otel.model import WorkerWindow
from eroica_otel.query.bulk import Table, columns_of, row_of, shards, tables
from eroica_otel.query.promql import Series
from eroica_otel.vectors import SHARE, WHOLE
from factories_central import WINDOW, collect, pattern, window, windows


class Job:
    """Workers that wrote vectors."""

    def __init__(self) -> None:
        self.series: list[Series] = []
        self.dictionary: list[Series] = []
        self.asked: list[str] = []

    def write(self, *given: WorkerWindow, begin: float = 1000.0) -> None:
        for one in given:
            layout = VecLayout(())
            _, found, own = layout.split(collect(one))
            for (labels, _), vector in zip(layout.rows(found, own), found, strict=True):
                samples = [(begin + at / 1000, value) for at, value in enumerate(vector.values)]
                self.series.append(Series(dict(labels), tuple(samples)))
            self.dictionary += [Series(dict(labels), ((1.0, 1.0),)) for labels, _ in layout.dictionary(found, own, 0)]

    def tables(self) -> dict[str, Table]:
        return {table.part: table for table in tables(map(row_of, self.series), self.ask)}

    def ask(self, question: str) -> list[Series]:
        self.asked.append(question)
        return [one for one in self.dictionary if one.labels["dict"] in question]


@pytest.fixture
def job() -> Job:
    return Job()


def test_workers_with_one_list_of_functions_are_rows_of_one_table(job: Job) -> None:
    job.write(*windows([2], size=5))
    found = job.tables()
    share, whole = found[SHARE], found[WHOLE]
    assert share.ranks.tolist() == whole.ranks.tolist() == [0, 1, 2, 3, 4]
    assert share.hosts == ("host-0", "host-0", "host-1", "host-1", "host-2")
    assert (str(share.values.dtype), str(whole.values.dtype)) == ("float32", "float64")
    betas = {dict(slot.labels)["function_id"]: beta for slot, beta in columns_of(share, names.PATTERN_BETA.name)}
    assert betas["aaaaaaaaaaaa"].tolist() == [np.float32(value) for value in (0.1, 0.1, 0.5, 0.1, 0.1)]
    ((_, ids),) = columns_of(whole, names.WINDOW_ID.name)
    assert ids.tolist() == [WINDOW] * 5
    assert len(job.asked) == 2  # once for each dictionary


def test_what_is_not_measured_is_nan(job: Job) -> None:
    job.write(window(patterns=(pattern(mu=None, sigma=None),)), window(1, patterns=(pattern(),)))
    ((_, mu),) = columns_of(job.tables()[SHARE], names.PATTERN_MU.name)
    assert math.isnan(mu[0])
    assert mu[1] == np.float32(0.5)


def test_many_rows_and_a_rank_that_wrote_twice(job: Job) -> None:
    size = 1500
    job.write(*(window(rank, patterns=(pattern(beta=rank / 2048),)) for rank in range(size)))
    job.write(window(7, patterns=(pattern(beta=0.75),)))
    ((_, beta),) = columns_of(job.tables()[SHARE], names.PATTERN_BETA.name)
    assert beta.tolist() == [np.float32(0.75 if rank == 7 else rank / 2048) for rank in range(size)]


def test_functions_that_differ_are_tables_of_their_own(job: Job) -> None:
    job.write(window(0), window(1, patterns=(pattern(),)))
    shares = [table for table in tables(map(row_of, job.series), job.ask) if table.part == SHARE]
    assert [table.ranks.tolist() for table in shares] == [[0], [1]]


def test_what_is_no_whole_vector_or_has_no_dictionary_is_left_out(job: Job) -> None:
    job.write(*windows(size=2))
    thinned = job.series[1]
    job.series[1] = thinned._replace(samples=thinned.samples[:3] + thinned.samples[4:])
    odd = [{**thinned.labels, "dict": "unknown"}, {**thinned.labels, "rank": "x"}, {**thinned.labels, "part": "none"}]
    job.series += [Series(labels, thinned.samples) for labels in odd]
    assert {part: table.ranks.tolist() for part, table in job.tables().items()} == {WHOLE: [0, 1], SHARE: [1]}


@pytest.mark.parametrize(("workers", "count"), [(1, 1), (100, 1), (101, 10), (1000, 10), (1001, 100)])
def test_shards_share_out_all_ranks(workers: int, count: int) -> None:
    found = list(shards(workers, 100))
    assert len(found) == count
    taken = [sum(re.fullmatch(one, str(rank)) is not None for one in found) for rank in range(workers)]
    assert taken == [1] * workers
    assert max(sum(re.fullmatch(one, str(rank)) is not None for rank in range(workers)) for one in found) <= 101
