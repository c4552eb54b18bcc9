from __future__ import annotations

from dataclasses import replace

import numpy as np

from eroica_otel.export.remotewritevec import VecLayout
from eroica_otel.localize.verdict import judge, judge_columns
from eroica_otel.model import WorkerWindow
from eroica_otel.query.bulk import Table, row_of, tables
from eroica_otel.query.promql import Series
from eroica_otel.query.wide import Vectors, table_of
from factories_central import all_reduce, collect, pattern, window, windows

KINDS = {"compute": 0.4, "communication": 0.2, "python": 0.1, "idle": 0.3}  # no float32 has these


def read(given: list[WorkerWindow]) -> list[Table]:
    """Return what comes back of windows that were written as vectors, in another order."""
    series, dictionary = [], []
    for one in reversed(given):
        layout = VecLayout(())
        _, found, own = layout.split(collect(one))
        for (labels, _), vector in zip(layout.rows(found, own), found, strict=True):
            series.append(Series(dict(labels), tuple((1 + at / 1000, value) for at, value in enumerate(vector.values))))
        dictionary += [Series(dict(labels), ((1.0, 1.0),)) for labels, _ in layout.dictionary(found, own, 0)]
    return tables(map(row_of, series), lambda question: [one for one in dictionary if one.labels["dict"] in question])


def test_the_verdict_on_columns_that_were_read_is_that_on_the_windows() -> None:
    """Of eight ranks one is slow, one has a function more, and so a dictionary of its own."""
    given = windows([2], size=8, kinds=KINDS, seconds=20.1, cpu_seconds=7.3)
    given[5] = replace(given[5], patterns=(*given[5].patterns, pattern("dddddddddddd", beta=0.01, mu=None, sigma=None)))
    report = judge_columns(table_of("llm-7b", Vectors(read(given))), expected=8)
    assert repr(report) == repr(judge(given, expected=8))  # NaN is not equal to itself
    assert [one.ranks for one in report.findings if one.severity != "info"] == [(2,)]


def test_what_a_worker_says_beside_its_patterns_is_in_its_row() -> None:
    given = [window(rank, patterns=(all_reduce(), pattern(noise_seconds=0.003)), throttled_ratio=0.25 * rank,
                    unknown={"warp": (None, 0.5)}, host_use={"cgroup_cpu": 0.5, "process_disk_read": 3e6})
             for rank in range(2)]  # fmt: skip
    found = table_of("llm-7b", Vectors(read(given)))
    workers = found.workers
    assert workers.rank.tolist() == [0, 1]
    assert list(workers.host) == ["host-0", "host-0"]
    assert (list(workers.role), list(workers.reason), list(workers.signature)) == (
        ["all"] * 2, ["degraded"] * 2, ["loop-1"] * 2,
    )  # fmt: skip
    assert workers.throttled_ratio.tolist() == [0.0, 0.25]
    assert (workers.iterations.tolist(), workers.world_size.tolist()) == ([30, 30], [4, 4])
    assert {name: values.tolist() for name, values in workers.host_use.items()} == {
        "cgroup_cpu": [0.5, 0.5], "process_disk_read": [3e6, 3e6],
    }  # fmt: skip
    assert workers.peaks["nic_tx"].tolist() == [0.8] * 2
    assert sorted(zip(found.calls.worker.tolist(), found.calls.group, strict=True)) == [
        (0, "0"),
        (0, "1"),
        (1, "0"),
        (1, "1"),
    ]
    assert found.calls.count is not None
    assert sorted(found.calls.count.tolist()) == [6, 6, 60, 60]
    assert (list(found.unknown.category), found.unknown.seconds.tolist()) == (["warp"] * 2, [0.5] * 2)
    (augment,) = [at for at, one in enumerate(found.functions) if one.kind == "python"]
    assert found.functions[augment].stack == ("train:main:10", "data:augment:42")
    assert found.noise[found.function == augment].tolist() == [np.float32(0.003)] * 2


def test_nothing_read_is_an_empty_table_and_half_a_worker_is_none() -> None:
    assert len(table_of("llm-7b", Vectors([])).workers) == 0
    both = read(windows(size=3))
    assert len(table_of("llm-7b", Vectors(both[:1])).workers) == 0
