"""A worker's read while the agent behind it ends, begins anew, or its file is changed: at each point of the read."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from eroica_hardware.rings import KeptRing
from eroica_otel.errors import HardwareError
from eroica_otel.hardware.ring import parse
from eroica_otel.hardware.ringreader import FileBytes, Samples, Samplings, open_ring
from eroica_otel.hardware.shared import open_folder
from eroica_otel.hardware.source import Resource

MS = 1_000_000
BEGIN = 1_000_000 * MS
RESOURCES = tuple(Resource(f"r{n}", "", "1", 1.0, False) for n in range(3))
SLOTS = 64
LOADS = 30
"""More than a read of that ring has: two of the state, twice six steps of two loads each, one or two of rows."""


class Interrupted(FileBytes):
    """The bytes of a file to which something happens before its load number ``at``."""

    def __init__(self, file: int, at: int, happens: Callable[[], None]) -> None:
        super().__init__(file)
        self.left, self.happens = at, happens

    def load(self, position: int, into: memoryview) -> None:
        self.left -= 1
        if self.left == 0:
            self.happens()
        super().load(position, into)


class Scene:
    """An agent's ring with 50 samples, 1 ms apart, sample k with the values k, k, k."""

    def __init__(self, path: Path) -> None:
        self.path, self.folder = path, open_folder(path)
        self.number = self.loads = 0
        self.agent = self.begin()
        self.write(50)

    def begin(self) -> KeptRing:
        ring = KeptRing(self.folder, "net", SLOTS)
        ring.prepare(RESOURCES, BEGIN + self.number * MS)
        return ring

    def write(self, samples: int) -> None:
        for _ in range(samples):
            self.number += 1
            self.agent.append(BEGIN + self.number * MS, [self.number] * 3)

    def restart(self) -> None:
        """The agent is killed, another one begins and goes on."""
        self.agent = self.begin()
        self.write(30)

    def read(self, at: int, happens: Callable[[], None]) -> Samples:
        """Read samples 10 to 50 while something happens at load ``at``."""
        file = os.open(self.path / "net.ring", os.O_RDONLY)
        try:
            form = parse(os.pread(file, 4096, 0), os.fstat(file).st_size)
            source = Interrupted(file, at, happens)
            samples = Samplings(form, source).read(BEGIN + 10 * MS, BEGIN + 50 * MS)
            self.loads = at - source.left
            return samples
        finally:
            os.close(file)


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    made = Scene(tmp_path)
    yield made
    made.agent.close()
    os.close(made.folder)


def numbers(samples: Samples) -> list[int]:
    """Return which samples were read, each of them whole."""
    found = [(when - BEGIN) // MS for when in samples.times.tolist()]
    assert samples.values.tolist() == [[number] * 3 for number in found]
    return found


@pytest.mark.parametrize("at", range(1, LOADS))
def test_an_agent_that_begins_anew_in_the_middle_of_a_read_takes_nothing_from_it(at: int, scene: Scene) -> None:
    samples = scene.read(at, scene.restart)
    assert numbers(samples) == list(range(10, 51))
    assert (samples.lost, samples.cut) == (0, False)


@pytest.mark.parametrize("at", range(1, LOADS))
def test_a_ring_that_is_removed_in_the_middle_of_a_read_is_read_to_the_end(at: int, scene: Scene) -> None:
    assert numbers(scene.read(at, (scene.path / "net.ring").unlink)) == list(range(10, 51))


@pytest.mark.parametrize("at", range(1, LOADS))
def test_an_agent_that_goes_on_writes_over_the_oldest_only(at: int, scene: Scene) -> None:
    """30 more are 80; 64 are kept and one is being written, so that 17 on are whole."""
    samples = scene.read(at, lambda: scene.write(30))
    found = numbers(samples)
    assert found == list(range(found[0], 51))
    assert found[0] in (10, 17)
    assert samples.cut == (found[0] > 10)
    assert 0 <= samples.lost <= found[0] - 10  # what was gone before the stretch's begin was found is not counted


@pytest.mark.parametrize("at", range(1, LOADS))
def test_a_ring_that_is_shortened_in_the_middle_of_a_read_is_refused(at: int, scene: Scene) -> None:
    """But not where all rows have been read: the state, which comes last, is left."""
    scene.read(0, lambda: None)
    loads = scene.loads

    def shorten() -> None:
        os.truncate(scene.path / "net.ring", 100)

    if at >= loads:
        assert numbers(scene.read(at, shorten)) == list(range(10, 51))
        return
    with pytest.raises(HardwareError, match="a ring was shortened while it was read"):
        scene.read(at, shorten)


def test_the_worker_finds_the_new_ring_and_the_old_one_is_dead_to_it(scene: Scene) -> None:
    old = open_ring(scene.folder, "net.ring")
    scene.restart()
    now = BEGIN + scene.number * MS
    new = open_ring(scene.folder, "net.ring")
    assert numbers(new.read(BEGIN, now)) == list(range(51, 81))
    assert numbers(old.read(BEGIN, now)) == list(range(1, 51))
    assert new.alive(now + 2900 * MS)
    assert not new.alive(now + 3050 * MS)
    assert not old.alive(now + 2990 * MS)  # 30 ms older
    for ring in (old, new):
        ring.close()
