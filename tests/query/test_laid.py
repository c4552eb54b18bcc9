from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import replace

import pytest

from backends import NOW, BackendServer, backend
from eroica_otel import names
from eroica_otel.export.remotewritevec import VecLayout
from eroica_otel.model import WorkerWindow
from eroica_otel.query.client import Backend
from eroica_otel.query.decode import decode
from eroica_otel.query.laid import values_in
from eroica_otel.query.otlp import Delivery
from eroica_otel.query.prometheus import PrometheusSource
from eroica_otel.query.promql import Series
from factories_central import WINDOW, collect, windows

BETA = names.PATTERN_BETA.name
KINDS = {"compute": 0.4, "communication": 0.3, "python": 0.1, "idle": 0.2}


def write(server: BackendServer, when: float, given: Iterable[WorkerWindow], *, dictionary: bool = True) -> None:
    """Store what workers with layout vec write of their windows."""
    for window in given:
        layout = VecLayout((("job", "training"), ("instance", f"rank-{window.identity.rank}")))
        plain, found, own = layout.split(collect(window))
        server.samples.add(when, plain, job="training", instance=f"rank-{window.identity.rank}")
        told = layout.dictionary(found, own, when) if dictionary else []
        for labels, bits in (*told, *layout.rows(found, own)):
            values = zip(range(len(bits)), (as_float(one) for one in bits), strict=True)
            kept = [(round(when + at / 1000, 3), value) for at, value in values if value == value]
            server.samples.rows.setdefault(labels, []).extend(kept)


def as_float(bits: int) -> float:
    (value,) = struct.unpack("<d", struct.pack("<Q", bits))
    return float(value)


class Desk:
    """A source at a backend, with what it delivered."""

    def __init__(self, server: BackendServer) -> None:
        self.server, self.now = server, 100.0
        self.deliveries: list[Delivery] = []
        given = Backend(server.url, timeout_seconds=20)
        self.source = PrometheusSource(given, self.deliveries.append, say=print, clock=lambda: self.now)

    def look(self) -> list[WorkerWindow]:
        """Look once, later; return the windows that this delivered."""
        self.now += 5
        self.server.samples.now += 5
        before = len(self.deliveries)
        self.source.look()
        decoded = [decode(delivery.points) for delivery in self.deliveries[before:]]
        return [one for one in decoded if one is not None]


@pytest.fixture(params=[False, True], ids=["questions", "stream"])
def desk(request: pytest.FixtureRequest) -> Iterator[Desk]:
    with backend() as server:
        server.exports = request.param
        yield Desk(server)


def test_windows_come_out_of_vectors_as_out_of_labels(desk: Desk) -> None:
    first, second = windows(reason="reference", kinds=KINDS), windows([2], window_id=WINDOW + 60, kinds=KINDS)
    write(desk.server, NOW - 20, first)
    assert desk.look() + desk.look() == first
    write(desk.server, NOW + 8, second)
    assert desk.look() + desk.look() == second


def test_a_large_job_whose_name_is_cut_is_found_by_what_is_left_of_it(desk: Desk) -> None:
    given = [replace(one, identity=replace(one.identity, training_job="x" * 300)) for one in windows(kinds=KINDS)]
    taken: list[tuple[tuple[str, str], list[int]]] = []
    desk.source = PrometheusSource(
        Backend(desk.server.url), desk.deliveries.append, say=print, clock=lambda: desk.now, large=4,
        take=lambda key, table: taken.append((key, table.workers.rank.tolist())),
    )  # fmt: skip
    write(desk.server, NOW - 20, given)
    for _ in range(2):  # until it has settled
        desk.look()
    assert taken == [(("vision", "x" * 256), [0, 1, 2, 3])]


def test_a_window_whose_dictionary_comes_later_waits_for_it(desk: Desk) -> None:
    given = windows(kinds=KINDS)
    write(desk.server, NOW - 20, given, dictionary=False)
    assert desk.look() + desk.look() == []
    write(desk.server, NOW - 19, given)
    assert desk.look() == given


def test_a_worker_whose_vector_was_thinned_out_is_not_given_other_slots_values(desk: Desk) -> None:
    given = windows(kinds=KINDS)
    write(desk.server, NOW - 20, given)
    for labels, samples in desk.server.samples.rows.items():
        if dict(labels)["__name__"] == names.VECTOR.name and dict(labels)["rank"] == "2":
            del samples[3]
    assert desk.look() + desk.look() == [one for one in given if one.identity.rank != 2]


def test_a_dictionary_that_says_something_else_than_its_hash_is_not_used(desk: Desk) -> None:
    write(desk.server, NOW - 20, windows(kinds=KINDS))
    rows = desk.server.samples.rows
    (said,) = [labels for labels in rows if ("function", "matmul") in labels and ("series", BETA) in labels]
    rows[tuple(sorted((dict(said) | {"function": "somebody_else"}).items()))] = rows.pop(said)
    assert desk.look() + desk.look() == []


def vector(*samples: tuple[float, float]) -> Series:
    return Series({"__name__": names.VECTOR.name}, samples)


def test_a_vector_is_used_whole_or_not_at_all() -> None:
    whole = vector((9.0, 7.0), (10.0, 0.1), (10.001, 0.2), (10.002, 0.3), (70.0, 9.0))
    assert values_in(whole, 10.0, 3) == (0.1, 0.2, 0.3)
    assert values_in(whole, 10.0, 4) is None
    assert values_in(vector((10.0, 0.1), (10.002, 0.3)), 10.0, 3) is None


@pytest.mark.parametrize("labels", [{"slot": "x"}, {"slot": "99999999999"}, {"series": "nobody"}, {}])
def test_a_dictionary_of_another_program_costs_nothing(labels: dict[str, str], desk: Desk) -> None:
    given = windows(kinds=KINDS)
    write(desk.server, NOW - 20, given)
    odd = {"__name__": names.VECTOR_INFO.name, "dict": "d", "slot": "0", "series": names.WINDOW_ID.name} | labels
    desk.server.samples.rows[tuple(sorted(odd.items()))] = [(NOW, 1.0)]
    assert desk.look() + desk.look() == given
