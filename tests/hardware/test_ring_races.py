"""Readers while the writer writes: nothing torn is accepted, in every order of a small ring and in many at random."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from eroica_otel.errors import HardwareError
from eroica_otel.hardware.ringreader import Ring, open_ring
from eroica_otel.hardware.shared import open_folder
from factories_ring import at_random, every_order, is_torn, raced

SECOND = 1_000_000_000
STATE = 16
"""Bytes of the store that publishes a sample: heartbeat and state."""


def between_bytes(size: int) -> tuple[int, ...]:
    """A state is divided behind its lowest byte, a row is not."""
    return (9,) if size == STATE else (0,)


def between_numbers(size: int) -> tuple[int, ...]:
    """A row is divided behind its time, a state is not."""
    return (0,) if size == STATE else (8,)


@pytest.mark.parametrize("cuts", [between_bytes, between_numbers])
@pytest.mark.parametrize(("slots", "parts"), [(1, 8), (2, 5)])
def test_no_order_of_stores_and_loads_lets_a_torn_sample_through(
    slots: int, parts: int, cuts: Callable[[int], Sequence[int]]
) -> None:
    """The second sample from now on is written over the oldest one, and its number is 256."""
    orders, accepted, torn = every_order(slots, before=254, parts=parts, cuts=cuts)
    assert torn == 0
    assert orders > 1000
    assert accepted > 500


@pytest.mark.parametrize("cuts", [between_bytes, between_numbers])
def test_no_order_lets_a_torn_batch_through(cuts: Callable[[int], Sequence[int]]) -> None:
    """Two samples at once; the second batch from now on is written over the oldest one, and its number is 256."""
    orders, accepted, torn = every_order(4, before=254, parts=5, cuts=cuts, batch=2)
    assert torn == 0
    assert orders > 1000
    assert accepted > 1000


def test_a_plain_number_would_let_torn_samples_through(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between 255 and 256 half a store may read as 511."""
    monkeypatch.setattr("eroica_otel.hardware.ring.gray", lambda number: number)
    monkeypatch.setattr("eroica_otel.hardware.ringreader.counted", lambda code: code)
    with pytest.raises((AssertionError, HardwareError)):
        assert every_order(3, before=255, parts=4, cuts=between_bytes)[2] == 0


def test_who_does_not_look_again_would_accept_torn_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    race, drawn = at_random(slots=3, seed=1)
    newest = race.reader._newest
    monkeypatch.setattr(race.reader, "_newest", lambda: 3)
    race.write(30)
    first = newest()
    monkeypatch.setattr(race.reader, "_newest", lambda: first)
    torn = 0
    for _ in range(300):
        samples = raced(race, drawn, most=6)
        torn += samples is None or is_torn(samples)
        first = newest()
    assert torn > 10


def test_at_random_no_torn_sample_is_accepted_and_nothing_is_refused() -> None:
    accepted = lost = 0
    for slots, batch in ((1, 1), (2, 1), (3, 1), (24, 1), (4, 2), (9, 3)):
        race, drawn = at_random(slots, seed=slots, batch=batch)
        for _ in range(1000):
            samples = raced(race, drawn, most=drawn.choice([2, 4, 12, 40]))
            assert samples is not None
            assert not is_torn(samples)
            accepted += len(samples.times)
            lost += samples.lost
    assert accepted > 2_000  # the races were real: some samples were read in peace, others written over meanwhile
    assert lost > 2_000


WRITING = """
import sys, time
from pathlib import Path
from eroica_otel.hardware.ring import FileStore, Layout, Writer, create
from eroica_otel.hardware.shared import open_folder
from eroica_otel.hardware.source import Resource
form = Layout("net", tuple(Resource(f"r{n}", "", "1", 1.0, False) for n in range(200)), 64)
file = create(open_folder(Path(sys.argv[1])), "net.ring", form, time.monotonic_ns())
writer = Writer(form, FileStore(file))
print("ready", flush=True)
until = time.monotonic() + 30
while time.monotonic() < until:
    writer.append(time.monotonic_ns(), [float(writer.batches + 1)] * 200)
"""


@contextmanager
def writing(path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that writes 200 times its number as fast as it can."""
    other = subprocess.Popen([sys.executable, "-c", WRITING, str(path)], stdout=subprocess.PIPE, text=True)
    try:
        assert other.stdout
        assert other.stdout.readline() == "ready\n"
        yield other
    finally:
        other.kill()
        other.communicate()


def whole(ring: Ring) -> int:
    """Read all there is; return how many samples were accepted, all of them whole and in a row."""
    samples = ring.read(0, time.monotonic_ns() + SECOND)
    assert np.all(samples.values == samples.values[:, :1])
    assert np.all(np.diff(samples.values[:, 0]) == 1)
    return len(samples.times)


def test_two_processes_at_full_speed_never_see_a_torn_sample(tmp_path: Path) -> None:
    with writing(tmp_path):
        ring = open_ring(open_folder(tmp_path), "net.ring")
        seen, until = 0, time.monotonic() + 1.0
        while time.monotonic() < until or seen <= 1000:
            seen += whole(ring)
        assert ring.alive(time.monotonic_ns())
    ring.close()


def test_a_writer_that_is_killed_in_the_middle_leaves_whole_samples(tmp_path: Path) -> None:
    """Ten times another place, wherever the kill falls; the one who comes after it makes a ring of its own."""
    folder = open_folder(tmp_path)
    rings = []
    for _ in range(10):
        with writing(tmp_path):
            ring = open_ring(folder, "net.ring")
            while not whole(ring):
                time.sleep(0.001)
        assert 0 < whole(ring) <= 64
        rings.append(ring)
    for ring in rings:
        assert whole(ring)  # what was there when it was replaced is there still
        ring.close()
