"""The sampler over a source and a real ring, with a clock that only its own sleeps and readings move."""

from __future__ import annotations

import errno
import logging
import math
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from eroica_hardware.deadlines import SECOND
from eroica_hardware.rings import KeptRing
from eroica_hardware.sampler import Sampler, run, start
from eroica_otel.hardware.ringreader import Samples, open_ring
from eroica_otel.hardware.shared import open_folder
from eroica_otel.hardware.source import Resource

MS = 1_000_000
BEGIN = 100 * SECOND


class Clock:
    """A monotonic clock that moves when somebody sleeps."""

    def __init__(self) -> None:
        self.now = BEGIN

    def __call__(self) -> int:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += round(seconds * SECOND)


class Counting:
    """A source whose readings are 1, 2, 3, ... and take ``takes_ns``; it does what ``trouble`` does first."""

    family = "counting"

    def __init__(self, clock: Clock, takes_ns: int = 0) -> None:
        self.resources: tuple[Resource, ...] = (Resource("count", "", "1", math.nan, True),)
        self.missing: dict[str, str] = {}
        self.clock, self.takes_ns = clock, takes_ns
        self.looks = self.reads = 0
        self.trouble: Callable[[], None] = lambda: None

    def look(self) -> None:
        self.looks += 1

    def read(self) -> Sequence[float]:
        self.trouble()
        self.reads += 1
        self.clock.now += self.takes_ns
        return [float(self.reads)] * len(self.resources)


class Scene:
    """A sampler of a counting source in a folder."""

    def __init__(self, path: Path, takes_ns: int = 0, most_hertz: float = 1000.0, batch: int = 1) -> None:
        self.path, self.folder, self.clock = path, open_folder(path), Clock()
        self.source = Counting(self.clock, takes_ns)
        self.ring = KeptRing(self.folder, "counting", batch=batch)
        self.window = (0, 0)
        self.sampler = Sampler(
            self.source,
            self.ring,
            in_window=lambda now: self.window[0] <= now < self.window[1],
            clock=self.clock,
            most_hertz=most_hertz,
        )

    def go(self, seconds: float) -> None:
        """Let the sampler run for so long, without ending its ring."""
        end = self.clock.now + round(seconds * SECOND)
        while self.clock.now < end:
            self.clock.now += self.sampler.deadlines.wait(self.clock.now)
            if self.clock.now < end:
                self.sampler.tick()
        self.clock.now = max(end, self.clock.now)

    def samples(self, since: float = 0.0) -> Samples:
        """Return what a worker reads of the time since so many seconds after the beginning."""
        ring = open_ring(self.folder, "counting.ring")
        try:
            return ring.read(BEGIN + round(since * SECOND), self.clock.now)
        finally:
            ring.close()

    def alive(self) -> bool:
        ring = open_ring(self.folder, "counting.ring")
        try:
            return ring.alive(self.clock.now)
        finally:
            ring.close()


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    made = Scene(tmp_path)
    yield made
    made.ring.close()
    os.close(made.folder)


def test_100_samples_a_second_reach_the_worker(scene: Scene) -> None:
    scene.go(5)
    samples = scene.samples()
    assert len(samples.times) == 500
    assert np.all(np.diff(samples.times) == 10 * MS)
    assert samples.values[:, 0].tolist() == list(range(1, 501))
    assert scene.sampler.deadlines.kept.hertz == pytest.approx(100, abs=1)
    assert scene.sampler.samples == 500


def test_1000_a_second_in_a_window_and_no_longer(scene: Scene) -> None:
    scene.window = (BEGIN + 1 * SECOND, BEGIN + 3 * SECOND)
    scene.go(4)
    times = (scene.samples().times - BEGIN) / SECOND
    inside = (times >= 1.02) & (times < 2.99)
    assert inside.sum() == pytest.approx(1970, abs=2)
    assert (times < 1).sum() == 100
    assert (times > 3.02).sum() == pytest.approx(98, abs=1)


def test_readings_are_written_a_batch_at_a_time_or_after_a_quarter_of_a_second(tmp_path: Path) -> None:
    """Sixteen at 100 Hz are there after 0.16 s; of forty at 10 Hz the first three, the oldest 0.25 s old by then."""
    scene = Scene(tmp_path, batch=16)
    scene.go(0.155)
    assert (scene.source.reads, len(scene.samples().times)) == (16, 16)
    scene.go(0.1)
    assert (scene.source.reads, len(scene.samples().times)) == (26, 16)
    scene.sampler.finish()
    samples = scene.samples()
    known = ~np.isnan(samples.values[:, 0])
    assert samples.values[known, 0].tolist() == list(range(1, 27))
    (tmp_path / "slow").mkdir()
    slow = Scene(tmp_path / "slow", most_hertz=10, batch=16)
    slow.go(0.35)
    assert np.nanmax(slow.samples().values) == 4
    for each in (scene, slow):
        each.ring.close()
        os.close(each.folder)


def test_a_window_begins_at_once_also_in_the_middle_of_a_batch(tmp_path: Path) -> None:
    scene = Scene(tmp_path, batch=16)
    scene.window = (BEGIN + 1055 * MS, BEGIN + 9 * SECOND)
    scene.go(1.2)
    times = (scene.samples().times - BEGIN) / SECOND
    assert np.diff(times[(times > 1.07) & (times < 1.15)]).max() < 0.0011
    scene.ring.close()
    os.close(scene.folder)


def test_a_source_has_a_cap_of_its_own(tmp_path: Path) -> None:
    scene = Scene(tmp_path, most_hertz=5)
    scene.window = (BEGIN, BEGIN + 60 * SECOND)
    scene.go(10)
    assert scene.source.reads == 50
    assert scene.alive()


@pytest.mark.parametrize(("takes_ms", "hertz"), [(0.1, 1000), (4, 125), (20, 15.625)])
def test_a_slow_source_is_asked_less_often(takes_ms: float, hertz: float, tmp_path: Path) -> None:
    """Halved from 1,000 until readings take at most half of the time: 4 ms x 125 = 0.5, 20 ms x 15.6 = 0.31."""
    scene = Scene(tmp_path, takes_ns=round(takes_ms * MS))
    scene.window = (BEGIN, BEGIN + 60 * SECOND)
    scene.go(20)
    assert scene.sampler.deadlines.kept.hertz == pytest.approx(hertz, rel=0.05)


def test_a_reading_that_hung_is_missed_ticks_and_no_burst(scene: Scene) -> None:
    """The reading at 1.000 s takes until 1.035 s: the deadline of 1.010 s is used then, the next two never."""
    scene.go(1)
    scene.source.takes_ns = 35 * MS
    scene.go(0.005)
    scene.source.takes_ns = 0
    scene.go(3)
    assert scene.sampler.deadlines.kept.missed == 2
    assert np.diff(scene.samples().times).min() == 5 * MS


def test_a_sample_has_the_middle_of_its_reading_as_its_time(tmp_path: Path) -> None:
    scene = Scene(tmp_path, takes_ns=2 * MS)
    scene.go(0.015)
    assert (scene.samples().times - BEGIN).tolist() == [1 * MS, 11 * MS]


def failing(error: Exception) -> Callable[[], None]:
    def fail() -> None:
        raise error

    return fail


class DriverError(Exception):
    """As a driver's library has its own."""


def test_a_source_that_raises_is_counted_logged_once_and_asked_again(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    scene.go(1)
    scene.source.trouble = failing(DriverError("GPU is lost"))
    with caplog.at_level(logging.WARNING):
        scene.go(25)
    assert scene.sampler.failures == {"source": 3}  # at 1, 11 and 21 s
    assert len(caplog.records) == 1
    assert "GPU is lost" in caplog.text
    assert scene.alive()  # the agent is, the source is silent
    assert len(scene.samples(since=1).times) == 0
    scene.source.trouble = lambda: None
    scene.go(10)
    assert len(scene.samples(since=30).times) > 400
    assert scene.source.looks >= 4


def test_a_source_without_resources_has_no_ring_until_they_appear(scene: Scene, tmp_path: Path) -> None:
    given, scene.source.resources = scene.source.resources, ()
    scene.go(5)
    assert list(tmp_path.iterdir()) == []
    assert scene.source.reads == 0
    scene.source.resources = given
    scene.go(10)
    assert len(scene.samples().times) > 400
    assert scene.sampler.failures == {}


def test_other_resources_make_another_ring_and_the_same_do_not(scene: Scene) -> None:
    scene.go(15)
    assert (scene.source.looks, scene.ring.made) == (2, 1)
    old = open_ring(scene.folder, "counting.ring")
    more = Resource("more", "", "1", float("nan"), False)
    scene.source.look = lambda: setattr(scene.source, "resources", (scene.source.resources[0], more))  # type: ignore[method-assign]
    scene.go(10)
    assert scene.ring.made == 2
    assert scene.samples().values.shape[1] == 2
    assert not old.alive(scene.clock.now)
    assert len(old.read(BEGIN, scene.clock.now).times) == 2000
    old.close()


def test_looking_waits_for_the_end_of_a_window(scene: Scene) -> None:
    scene.go(5)
    scene.window = (BEGIN + 5 * SECOND, BEGIN + 25 * SECOND)
    scene.go(19)
    assert scene.source.looks == 1
    scene.go(2)
    assert scene.source.looks == 2


def test_a_wrong_number_of_values_is_a_failure_and_no_sample(scene: Scene) -> None:
    scene.source.read = lambda: [1.0, 2.0]  # type: ignore[method-assign]
    scene.go(1)
    assert scene.sampler.failures == {"ring": 1}
    assert len(scene.samples().times) == 0


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS])
def test_a_folder_that_is_full_or_read_only_is_tried_again(
    code: int, scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr("os.posix_fallocate", failing_with(code))
        scene.go(15)
    assert scene.sampler.failures["ring"] == 2
    assert os.listdir(scene.path) == []
    scene.go(10)
    assert len(scene.samples().times) > 400


def failing_with(code: int) -> Callable[..., None]:
    def fail(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    return fail


@pytest.mark.parametrize("tamper", ["removed", "shortened", "replaced"])
def test_a_ring_that_is_tampered_with_is_made_anew(tamper: str, scene: Scene, tmp_path: Path) -> None:
    scene.go(3)
    ring = tmp_path / "counting.ring"
    if tamper == "shortened":
        os.truncate(ring, 100)
    else:
        ring.unlink()
    if tamper == "replaced":
        ring.symlink_to("/dev/zero")
    scene.go(3)
    assert not ring.is_symlink()
    assert len(scene.samples(since=5).times) == 100
    assert scene.ring.made == 2


def test_a_clock_that_goes_back_begins_a_new_ring(scene: Scene) -> None:
    scene.go(3)
    scene.clock.now -= 2 * SECOND
    scene.go(1.5)
    assert scene.ring.made == 2
    assert len(scene.samples().times) == pytest.approx(150, abs=2)


def test_a_clock_that_jumps_ahead_is_a_gap(scene: Scene) -> None:
    scene.go(1)
    scene.clock.now += 3600 * SECOND
    scene.go(1)
    assert len(scene.samples().times) == pytest.approx(200, abs=1)
    assert scene.ring.made == 1


def test_the_end_of_a_sampler_is_told_to_the_workers(scene: Scene) -> None:
    rounds = iter([False] * 20 + [True])
    run([scene.sampler], lambda: next(rounds), scene.clock, scene.clock.sleep)
    assert not scene.alive()
    assert len(scene.samples().times) == 20


def test_quick_sources_share_the_wakes_of_one_thread(scene: Scene, tmp_path: Path) -> None:
    """One begins 3 ms after the other and is asked less often; in 2 s there are 200 wakes for 200 + 100 readings."""
    other = Counting(scene.clock)
    other.family = "other"
    scene.clock.now += 3 * MS
    second = Sampler(other, KeptRing(scene.folder, "other"), lambda _: False, clock=scene.clock, most_hertz=50)
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        scene.clock.sleep(seconds)

    run([scene.sampler, second], lambda: scene.clock.now >= BEGIN + 2 * SECOND, scene.clock, sleep)
    assert (scene.source.reads, other.reads) == (200, 99)  # the first of 50 Hz is 20 ms after the beginning
    assert len(slept) == pytest.approx(200, abs=1)


def test_a_source_that_hangs_does_not_hold_up_another(tmp_path: Path) -> None:
    """With real threads and clocks: one source never answers, the other has 50 samples."""
    folder, stop, enough, answer = open_folder(tmp_path), threading.Event(), threading.Event(), threading.Event()
    clock = Clock()
    good, bad = Counting(clock), Counting(clock)
    bad.family = "hanging"
    good.trouble = lambda: enough.set() if good.reads == 50 else None
    bad.trouble = lambda: (answer.wait(60), None)[1]
    samplers = [[Sampler(one, KeptRing(folder, one.family), lambda _: False)] for one in (bad, good)]
    threads = start(samplers, stop)
    assert enough.wait(60)
    assert bad.reads == 0
    answer.set()
    stop.set()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    os.close(folder)
