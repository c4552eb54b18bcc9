"""Rings: what is written is read, what is torn or written over is not, a hostile file is refused with its reason."""

from __future__ import annotations

import math
import os
import random
import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from eroica_otel.errors import HardwareError
from eroica_otel.hardware.ring import (
    BATCH,
    BATCH_AT,
    DESCRIPTORS_AT,
    HEADER,
    MAGIC,
    STATE_AT,
    VERSION,
    FileStore,
    Layout,
    Writer,
    create,
    intact,
    slots_for,
)
from eroica_otel.hardware.ringreader import open_ring, open_rings
from eroica_otel.hardware.shared import open_folder
from eroica_otel.hardware.source import Resource
from factories_ring import NIC, layout

SECOND = 1_000_000_000


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[int]:
    opened = open_folder(tmp_path)
    yield opened
    os.close(opened)


class Made:
    """A ring with its writer and a reader."""

    def __init__(self, folder: int, form: Layout) -> None:
        self.file = create(folder, "net.ring", form, start=SECOND)
        self.writer = Writer(form, FileStore(self.file))
        self.ring = open_ring(folder, "net.ring")

    def fill(self, samples: int) -> None:
        """Append samples k = 1, 2, ... at k seconds with values k, 2k, 3k."""
        for number in range(self.writer.batches + 1, self.writer.batches + 1 + samples):
            self.writer.append(number * SECOND, [number, 2 * number, 3 * number])

    def close(self) -> None:
        self.ring.close()
        os.close(self.file)


@pytest.fixture
def made(folder: int) -> Iterator[Made]:
    ring = Made(folder, layout())
    yield ring
    ring.close()


def test_what_is_written_is_read(made: Made) -> None:
    made.fill(5)
    samples = made.ring.read(2 * SECOND, 4 * SECOND)
    assert samples.times.tolist() == [2 * SECOND, 3 * SECOND, 4 * SECOND]
    assert samples.values.tolist() == [[2, 4, 6], [3, 6, 9], [4, 8, 12]]
    assert (samples.lost, samples.cut) == (0, False)


def test_resources_are_told_as_they_were_given(made: Made) -> None:
    assert made.ring.layout.family == "net"
    assert made.ring.layout.resources[:2] == NIC[:2]
    assert math.isnan(made.ring.layout.resources[2].peak)
    assert made.ring.layout.slots == 8


def test_columns_are_chosen(made: Made) -> None:
    made.fill(2)
    assert made.ring.read(0, 9 * SECOND, columns=[2, 0]).values.tolist() == [[3, 1], [6, 2]]


def test_a_large_stretch_around_the_end_of_the_file_is_read_in_parts(folder: int) -> None:
    """3,000 samples of 200 resources are 4.8 MB, more than one part; 1,500 lie beyond the border."""
    form = layout(tuple(Resource(f"r{n}", "", "1", 1.0, False) for n in range(200)), slots=3000)
    file = create(folder, "net.ring", form, start=1)
    writer = Writer(form, FileStore(file))
    for number in range(1, 4501):
        writer.append(number, [1000.0 * number + n for n in range(200)])
    ring = open_ring(folder, "net.ring")
    expected = 1000.0 * np.arange(1501, 4501)[:, None] + np.arange(200)
    samples = ring.read(1, 4500)
    assert np.array_equal(samples.values, expected)
    assert np.array_equal(ring.read(1, 4500, columns=[199, 0]).values, expected[:, [199, 0]])
    assert (samples.lost, samples.cut) == (0, True)
    ring.close()
    os.close(file)


def test_a_batch_is_read_once_it_is_stored_and_what_is_left_of_it_is_missing(folder: int) -> None:
    """Batches of four: four samples, then three, of which the last is followed by a row without values."""
    form = layout(slots=8, batch=4)
    file = create(folder, "net.ring", form, start=SECOND)
    writer, ring = Writer(form, FileStore(file)), open_ring(folder, "net.ring")
    assert ring.layout.batch == 4
    writer.extend([1 * SECOND, 2 * SECOND, 3 * SECOND, 4 * SECOND], [[n, n, n] for n in (1, 2, 3, 4)])
    writer.extend([5 * SECOND, 6 * SECOND, 7 * SECOND], [[n, n, n] for n in (5, 6, 7)])
    samples = ring.read(0, 9 * SECOND)
    assert samples.times.tolist() == [*(n * SECOND for n in range(1, 8)), 7 * SECOND + 1]
    assert samples.values[:7, 0].tolist() == [1, 2, 3, 4, 5, 6, 7]
    assert np.isnan(samples.values[7]).all()
    assert ring.alive(9 * SECOND)
    writer.extend([8 * SECOND], [[8, 8, 8]])
    assert ring.read(0, 9 * SECOND).times[0] == 5 * SECOND  # eight are kept
    with pytest.raises(HardwareError, match="5 samples at once, 4 are the most"):
        writer.extend([10, 11, 12, 13, 14], [[1, 1, 1]] * 5)
    ring.close()
    os.close(file)


def test_an_empty_ring_has_no_samples(made: Made) -> None:
    samples = made.ring.read(0, 9 * SECOND)
    assert samples.values.shape == (0, 3)
    assert not samples.cut


def test_the_newest_lap_is_kept_and_the_cut_is_told(made: Made) -> None:
    made.fill(11)
    samples = made.ring.read(1 * SECOND, 20 * SECOND)
    assert (samples.times // SECOND).tolist() == [4, 5, 6, 7, 8, 9, 10, 11]
    assert samples.cut
    assert not made.ring.read(5 * SECOND, 20 * SECOND).cut


def test_missing_stays_missing(made: Made) -> None:
    made.writer.append(SECOND, [math.nan, 0.0, math.inf])
    values = made.ring.read(0, 2 * SECOND).values[0]
    assert np.isnan(values).tolist() == [True, False, True]


def test_wrong_number_of_values_is_refused_and_leaves_no_sample(made: Made) -> None:
    with pytest.raises(HardwareError, match="3 values"):
        made.writer.append(SECOND, [1.0])
    made.fill(1)
    assert len(made.ring.read(0, 9 * SECOND).times) == 1


def test_a_heartbeat_tells_a_living_writer_from_a_dead_one(made: Made) -> None:
    assert made.ring.alive(2 * SECOND)
    assert not made.ring.alive(5 * SECOND)
    made.writer.beat(5 * SECOND)
    assert made.ring.alive(6 * SECOND)
    assert not made.ring.alive(1 * SECOND)  # the machine was started again: its clock is younger than the ring
    made.writer.beat(0)
    assert not made.ring.alive(6 * SECOND)


def test_a_ring_that_is_replaced_stays_readable_and_its_writer_knows(made: Made, folder: int) -> None:
    made.fill(2)
    assert intact(folder, "net.ring", made.file, made.ring.layout)
    os.close(create(folder, "net.ring", layout(slots=4), start=SECOND))
    assert not intact(folder, "net.ring", made.file, made.ring.layout)
    assert len(made.ring.read(0, 9 * SECOND).times) == 2


def test_a_shortened_ring_is_an_error_to_the_reader_and_known_to_the_writer(made: Made, folder: int) -> None:
    made.fill(8)
    os.truncate(made.file, made.ring.layout.rows_at + 100)
    with pytest.raises(HardwareError, match="shortened"):
        made.ring.read(0, 9 * SECOND)
    made.fill(1)  # does not kill the writer either
    assert not intact(folder, "net.ring", made.file, made.ring.layout)


def test_a_removed_ring_is_known_to_its_writer(made: Made, folder: int, tmp_path: Path) -> None:
    (tmp_path / "net.ring").unlink()
    assert not intact(folder, "net.ring", made.file, made.ring.layout)


def test_times_that_go_back_are_an_error(made: Made) -> None:
    made.writer.append(2 * SECOND, [1, 1, 1])
    made.writer.append(1 * SECOND, [1, 1, 1])
    with pytest.raises(HardwareError, match="go back"):
        made.ring.read(0, 9 * SECOND)


def test_a_hostile_writer_of_the_arrays_gets_no_more_than_missing_samples(made: Made) -> None:
    made.fill(8)
    noise = random.Random(1)
    form = made.ring.layout
    for _ in range(300):
        place = noise.choice([STATE_AT, form.rows_at + 8 * noise.randrange(form.rows * form.row // 8)])
        os.pwrite(made.file, noise.randbytes(8), place)
        try:
            samples = made.ring.read(0, 9 * SECOND)
        except HardwareError:
            continue
        assert len(samples.times) <= 8
        assert np.all(np.diff(samples.times) > 0)


def head(resources: int, slots: int, batch: int = 1) -> bytes:
    return HEADER.pack(MAGIC, VERSION, resources, slots, b"net", 0).ljust(BATCH_AT, b"\0") + BATCH.pack(batch)


HOSTILE = {
    "no batch": (head(1, 8, 0).ljust(8192, b"\0"), "batches of 0"),
    "a batch that is no part": (head(1, 8, 3).ljust(8192, b"\0"), "batches of 3"),
    "too large a batch": (head(1, 1 << 16, 1 << 16).ljust(8192, b"\0"), "batches of 65536"),
    "empty": (b"", "too short"),
    "magic": (HEADER.pack(b"SOMETHIN", VERSION, 3, 8, b"net", 0).ljust(8192, b"\0"), "version"),
    "version": (HEADER.pack(MAGIC, 1, 3, 8, b"net", 0).ljust(8192, b"\0"), "version"),
    "no resources": (HEADER.pack(MAGIC, VERSION, 0, 8, b"net", 0).ljust(8192, b"\0"), "0 resources"),
    "resources beyond the file": (HEADER.pack(MAGIC, VERSION, 500, 8, b"net", 0).ljust(8192, b"\0"), "500 resources"),
    "too many resources": (HEADER.pack(MAGIC, VERSION, 2**32 - 1, 8, b"net", 0).ljust(8192, b"\0"), "is none"),
    "too many slots": (HEADER.pack(MAGIC, VERSION, 1, 2**64 - 1, b"net", 0).ljust(8192, b"\0"), "is none"),
    "no slots": (HEADER.pack(MAGIC, VERSION, 1, 0, b"net", 0).ljust(8192, b"\0"), "is none"),
    "too large": (head(2000, 2**17).ljust(400_000, b"\0"), "too large"),
    "another size": (head(1, 8).ljust(12288, b"\0"), "should have"),
    "no text": (HEADER.pack(MAGIC, VERSION, 1, 8, b"\xff\xfe", 0).ljust(20480, b"\0"), "no text"),
    "escape": (HEADER.pack(MAGIC, VERSION, 1, 8, b"\x1b[31m", 0).ljust(20480, b"\0"), "printed"),
}


@pytest.mark.parametrize(("content", "reason"), HOSTILE.values(), ids=HOSTILE)
def test_a_file_that_is_no_ring_is_refused_with_its_reason(
    content: bytes, reason: str, folder: int, tmp_path: Path
) -> None:
    (tmp_path / "x.ring").write_bytes(content)
    with pytest.raises(HardwareError, match=reason):
        open_ring(folder, "x.ring")


def test_a_peak_that_cannot_be_is_missing(folder: int) -> None:
    peaks = (0.0, -1.0, math.inf, 2.0)
    form = layout(tuple(Resource("r", str(peak), "1", peak, False) for peak in peaks))
    os.close(create(folder, "x.ring", form, start=SECOND))
    ring = open_ring(folder, "x.ring")
    assert [str(one.peak) for one in ring.layout.resources] == ["nan", "nan", "nan", "2.0"]
    ring.close()


def test_links_pipes_folders_and_strangers_are_refused(folder: int, tmp_path: Path) -> None:
    os.close(create(folder, "real.ring", layout(), start=SECOND))
    (tmp_path / "link.ring").symlink_to("real.ring")
    os.mkfifo(tmp_path / "pipe.ring")
    (tmp_path / "folder.ring").mkdir()
    (tmp_path / "device.ring").symlink_to("/dev/zero")
    rings, refused = open_rings(tmp_path, owners=frozenset({os.geteuid()}))
    assert list(rings) == ["real.ring"]
    assert sorted(refused) == ["device.ring", "folder.ring", "link.ring", "pipe.ring"]
    rings, refused = open_rings(tmp_path, owners=frozenset({os.geteuid() + 1}))
    assert rings == {}
    assert "belongs to user" in refused["real.ring"]


@pytest.mark.parametrize("name", ["../x.ring", "/etc/passwd", "", "..", "a\0b"])
def test_a_name_that_leaves_the_folder_is_refused(name: str, folder: int) -> None:
    with pytest.raises(HardwareError, match="no name"):
        open_ring(folder, name)


def test_a_missing_or_linked_folder_is_said(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    for name in ("gone", "link"):
        with pytest.raises(HardwareError, match="cannot be opened"):
            open_rings(tmp_path / name)


def test_the_name_of_a_new_ring_is_not_followed_where_it_is_a_link(folder: int, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / "net.ring").symlink_to(victim)
    (tmp_path / f".net.ring.{os.getpid()}").symlink_to(victim)
    os.close(create(folder, "net.ring", layout(), start=SECOND))
    assert victim.read_text() == "precious"
    assert not (tmp_path / "net.ring").is_symlink()


def test_a_name_that_cannot_be_had_leaves_nothing_behind(folder: int, tmp_path: Path) -> None:
    (tmp_path / "net.ring").mkdir()
    with pytest.raises(OSError, match="directory"):
        create(folder, "net.ring", layout(), start=SECOND)
    assert [path.name for path in tmp_path.iterdir()] == ["net.ring"]


@pytest.mark.parametrize("name", ["x" * 33, "a\nb"])
def test_a_resource_that_does_not_fit_is_refused(name: str, folder: int) -> None:
    with pytest.raises(HardwareError, match="does not fit"):
        create(folder, "net.ring", layout((Resource(name, "", "1", 1.0, False),)), start=SECOND)


def test_many_resources_get_a_shorter_ring() -> None:
    assert slots_for(3) == 65536
    many = slots_for(1000)
    assert 8000 < many < 9000
    assert layout(tuple(NIC[:1] * 1000), many).size < 70e6


def test_the_descriptors_begin_where_the_format_says(made: Made) -> None:
    head = os.pread(made.file, 4096, 0)
    assert struct.unpack_from("<8sIIQ", head) == (MAGIC, VERSION, 3, 8)
    assert head[DESCRIPTORS_AT:].startswith(b"nic_tx\0")
