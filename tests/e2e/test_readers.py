"""One data set, written once, through every reader: what each gives is the same to the last bit of a float32."""

from __future__ import annotations

import random
import struct
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from eroica_otel import names
from eroica_otel.commands.main import main
from eroica_otel.errors import QueryError
from eroica_otel.export import remotewire
from eroica_otel.export.remotewritevec import VecLayout
from eroica_otel.job import Localizer
from eroica_otel.joboptions import JobOptions
from eroica_otel.localize.verdict import judge, judge_columns
from eroica_otel.model import WorkerWindow
from eroica_otel.query import files
from eroica_otel.query.backend import BackendReader
from eroica_otel.query.client import Backend, Client, QueryFailed
from eroica_otel.query.look import Asker
from eroica_otel.query.reading import Reader, Wanted
from factories_central import LOOPBACK, all_reduce, collect, most_python, pattern, send_windows, window
from jobs import wait_until
from servers import Server, prometheus, victoria_metrics

HOSTILE = ('a "b"\n\\c', "x" * 128, "<script>alert(1)</script>", '"}) or vector(1)', "{__name__=~'.+'}", "f<a,b>(c)")
SIZE = 5
DENSE_DECADES = 5
"""VictoriaMetrics keeps the samples of a block as whole numbers of one exponent, 18 digits in all, so that of a vector
what is below some 1e-7 is cut."""


def numbers(seed: int, decades: int) -> Iterator[float]:
    """Yield shares of every size, with all the digits that a float64 has."""
    chance = random.Random(seed)
    while True:
        yield chance.choice([chance.random(), chance.random() * 10 ** -chance.randint(1, decades), 1 / 3, 0.1, 1.0])


def odd_windows(window_id: int, decades: int = 12) -> list[WorkerWindow]:
    return [_odd(rank, window_id, decades) for rank in range(SIZE)]


def _odd(rank: int, window_id: int, decades: int) -> WorkerWindow:
    number = numbers(rank, decades)
    functions = [
        pattern(f"{at:012x}", function=name, beta=next(number), mu=next(number), sigma=next(number),
                noise_seconds=next(number), stack=(name[:50],))
        for at, name in enumerate(HOSTILE)
    ]  # fmt: skip
    functions += [pattern(f"{99:012x}", beta=0.01, mu=None, sigma=None, resource="", stack=())]
    functions += [all_reduce(peaks={"nic_tx": next(number), "nic_rx": next(number)})]
    return window(
        rank, window_id=window_id, patterns=functions, seconds=20 + next(number), cpu_seconds=next(number),
        sampler_gap_seconds=next(number), floor=next(number), after_ratio=1 + next(number),
        end_timestamp_seconds=window_id + 20 + next(number), events=987_654_321,
        host_use={"process_cpu": next(number), "process_disk_read": 1e9 * next(number)},
        kinds={"compute": 0.4, "communication": 0.2, "python": 1 / 3, "idle": 0.4 - 1 / 3},
    )  # fmt: skip


def push(url: str, windows: Sequence[WorkerWindow], when: float) -> None:
    """Write what the workers show into a backend, as one remote write of each."""
    for one in windows:
        where = (("job", "training"), ("instance", f"rank-{one.identity.rank}"))
        series = {
            remotewire.labels(point.name, (*point.labels.items(), *where)): remotewire.value_bits(point.value)
            for point in collect(one)
        }
        _send(url, remotewire.request(sorted(series.items()), round(when * 1000)))


def push_vectors(url: str, windows: Sequence[WorkerWindow], when: float) -> None:
    """Write the same in layout ``vec``: what the layout keeps as series, the vectors and their dictionaries."""
    for one in windows:
        layout = VecLayout(())
        plain, found, own = layout.split(collect(one))
        series = [
            (remotewire.labels(each.name, each.labels.items()), remotewire.value_bits(each.value)) for each in plain
        ]
        rows = [*layout.rows(found, own), *layout.dictionary(found, own, 0.0)]
        _send(url, remotewire.request(series, round(when * 1000), rows))


def _send(url: str, body: bytes) -> None:
    headers = {"Content-Type": "application/x-protobuf", "Content-Encoding": "snappy"}
    asked = urllib.request.Request(f"{url}/api/v1/write", body, headers, method="POST")
    with urllib.request.urlopen(asked, timeout=20) as answer:
        assert answer.status == 204


def journalled(folder: Path, windows: Sequence[WorkerWindow]) -> Reader:
    """Return the reader of the journal of a localizer that received the windows and was left without a word."""
    localizer = Localizer(JobOptions(LOOPBACK, LOOPBACK, str(folder)), most_python)
    try:
        localizer.start()
        send_windows(localizer.receiver.url, windows)
        return files.journal_reader(folder / "localizer" / "journal")
    finally:
        localizer.close()


def single(value: Any) -> Any:
    """Return the value with the bits of a float32 for each float in it."""
    if isinstance(value, float):
        return struct.pack("<f", value)
    if isinstance(value, Mapping):
        return {name: single(inside) for name, inside in value.items()}
    return [single(inside) for inside in value] if isinstance(value, list | tuple) else value


def bits(windows: Sequence[WorkerWindow]) -> list[Any]:
    """Return windows as what a float32 keeps of them; patterns of one beta may be in any order."""
    ordered = (replace(one, patterns=tuple(sorted(one.patterns, key=lambda each: each.function_id))) for one in windows)
    return [single(msgspec.to_builtins(one)) for one in ordered]


def there(reader: Reader, window_id: int) -> bool:
    """Return whether all of a window can be read; VictoriaMetrics shows it a second after it was written."""
    shown = [one.workers for one in reader.shown(Wanted()) if one.window_id == window_id]
    return shown == [SIZE] and len(list(reader.windows(Wanted(window_id=window_id)))) == SIZE


def test_every_reader_gives_the_same_to_the_last_bit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    now = time.time()
    early, late, dense = int(now) - 120, int(now) - 75, int(now) - 30
    with ExitStack() as stack:
        prom = stack.enter_context(prometheus(tmp_path / "prometheus"))
        victoria = stack.enter_context(victoria_metrics(tmp_path / "victoria"))
        for server in (prom, victoria):
            push(server.url, odd_windows(early), now - 100)
            push(server.url, odd_windows(late), now - 55)
            push_vectors(server.url, odd_windows(dense, DENSE_DECADES), now - 10)
        received = journalled(
            tmp_path / "state", [*odd_windows(early), *odd_windows(late), *odd_windows(dense, DENSE_DECADES)]
        )
        backends = [
            BackendReader(Backend(prom.url)),
            BackendReader(Backend(victoria.url)),
            BackendReader(Backend(victoria.url, api="prometheus")),
            BackendReader(Backend(victoria.url, api="victoriametrics")),
        ]
        for reader in backends:
            wait_until(partial(there, reader, dense), f"{reader.url} to show the window")
        written = tmp_path / "patterns.jsonl"
        files.write(written, backends[0].windows(Wanted(window_id=early)))
        for window_id in (early, late, dense):
            expected = bits(list(received.windows(Wanted(window_id=window_id))))
            assert [one["identity"]["rank"] for one in expected] == list(range(SIZE))
            for reader in backends:
                assert bits(list(reader.windows(Wanted(window_id=window_id)))) == expected, reader
            verdict = repr(judge(list(received.windows(Wanted(window_id=window_id))), expected=SIZE))
            for place in (received, *backends):
                ((shown, table),) = place.tables(Wanted(window_id=window_id))
                assert (shown.window_id, repr(judge_columns(table, expected=SIZE))) == (window_id, verdict), place.url
        (one,) = backends[1].windows(Wanted(ranks=frozenset({3})))
        assert (one.window_id, one.identity.rank) == (dense, 3)
        for place in (*backends, received):
            ((_, some),) = place.tables(Wanted(ranks=frozenset({1, 3})))
            assert sorted(some.workers.rank.tolist()) == [1, 3], place.url
        assert bits(list(files.pattern_reader([written]).windows(Wanted()))) == bits(
            list(received.windows(Wanted(window_id=early)))
        )
        for window_id in (early, dense):  # of either layout
            from_prometheus = _printed(capsys, "--prometheus", prom.url, window_id)
            assert from_prometheus == _printed(capsys, "--prometheus", victoria.url, window_id)
            assert from_prometheus == _printed(capsys, "--state", str(tmp_path / "state"), window_id)


def _printed(capsys: pytest.CaptureFixture[str], option: str, place: str, window_id: int) -> str:
    assert main(["query", option, place, "--rank", "3", "--window", str(window_id)]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"job vision/llm-7b   window {window_id}   degraded\nrank 3   on host-1")
    return out


def _all_listed(reader: Reader) -> bool:
    return [one.workers for one in reader.shown(Wanted())] == [SIZE]


def _read(server: Server, api: str) -> list[int]:
    return [one.identity.rank for one in BackendReader(Backend(server.url, api=api)).windows(Wanted())]


@pytest.mark.parametrize(
    ("start", "option", "fits", "never", "api"),
    [
        # Of five workers some 60 series each are read at once: what fits one or two of them is asked for in parts.
        (prometheus, "--query.max-samples=", 150, 40, "prometheus"),
        (victoria_metrics, "-search.maxExportSeries=", 150, 40, "prometheus"),
        (victoria_metrics, "-search.maxExportSeries=", 150, 40, "victoriametrics"),
    ],
)
def test_a_servers_limit_is_kept_by_smaller_questions_or_named_with_its_option(
    start: Any, option: str, fits: int, never: int, api: str, tmp_path: Path
) -> None:
    now = time.time()
    for limit in (fits, never):
        with start(tmp_path / str(limit), options=[f"{option}{limit}"]) as server:
            push(server.url, odd_windows(int(now) - 30), now - 10)
            reader = BackendReader(Backend(server.url, api=api))
            wait_until(partial(_all_listed, reader), "the window to be there")
            if limit == fits:
                assert _read(server, api) == list(range(SIZE))
            else:
                with pytest.raises(QueryError) as failed:
                    _read(server, api)
                assert isinstance(failed.value, QueryFailed)
                assert failed.value.outcome == "too_large", failed.value
                assert f"raise {option.rstrip('=')} " in str(failed.value)


def _looked(asker: Asker) -> bool:
    return len(asker.look(300.0).chosen) == SIZE


@pytest.mark.parametrize(
    ("start", "option"), [(prometheus, "--query.max-samples="), (victoria_metrics, "-search.maxUniqueTimeseries=")]
)
def test_who_a_server_will_not_show_at_once_is_followed_in_parts(start: Any, option: str, tmp_path: Path) -> None:
    """Five workers have a series for each of seven states; twenty are shown at a time."""
    now = time.time()
    with start(tmp_path / "server", options=[f"{option}20"]) as server:
        push(server.url, odd_windows(int(now) - 30), now - 10)
        asker = Asker(Client(Backend(server.url)), "")
        wait_until(partial(_looked, asker), "the workers to be there")
        found = asker.look(300.0)
        states = [point.labels["rank"] for points in found.points.values() for point in points
                  if point.name == names.WORKER_STATE.name]  # fmt: skip
        assert sorted(states) == [str(rank) for rank in range(SIZE)]
        assert asker.counts["too_large"] == 1
