"""The hardware of a worker as its trainer knows it: what is looked at when, what is missing, what the status says."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from eroica_otel import equipment
from eroica_otel.aside import Aside
from eroica_otel.config import WorkerConfig
from eroica_otel.equipment import SILENT, Equipment
from eroica_otel.hardware import herald
from eroica_otel.hardware.announce import SOCKET, Announcement
from eroica_otel.hardware.gpus import PART, Gpu
from eroica_otel.hardware.link import Link, OwnCounters

UUID = "GPU-11111111-2222-3333-4444-555555555555"


class Made:
    """An equipment and the failures that it counted."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, **options: Any) -> None:
        self.failures: list[tuple[str, str]] = []
        config = WorkerConfig.from_env({}, **options)
        self.equipment = Equipment({}, config, lambda stage, why: self.failures.append((stage, why)), clock)

    def opened(self, local_rank: int = 0) -> Callable[[], tuple[int, int] | None]:
        """A window whose devices have answered."""
        self.equipment.prepare(local_rank)
        looked()
        return self.equipment.open()


def looked() -> None:
    """Wait for the look at the devices."""
    for thread in threading.enumerate():
        if thread.name == "eroica-devices":
            thread.join(10)


def test_a_cpu_job_without_an_interface_says_so_and_samples_nothing() -> None:
    made = Made()
    assert made.opened()() is None
    assert made.equipment.missing == {"nic": "no network interface found: set EROICA_NIC"}
    assert made.equipment.told() == {"nic": "", "link": "", "gpu_uuid": "", "pci_bus_id": "", "gpus": ()}


def test_an_interface_with_a_speed_is_sampled_and_nothing_is_missing() -> None:
    made = Made(nic="lo", nic_mbit=800)
    read = made.opened()
    assert read() is not None
    assert (made.equipment.peak_bytes, made.equipment.missing) == (1e8, {})
    made.equipment.close()
    assert read() is None


def gpu_torch(monkeypatch: pytest.MonkeyPatch, backend: str = "nccl", **changes: Any) -> None:
    """Let the training use a GPU and have process groups."""
    properties = SimpleNamespace(name="H100", uuid=UUID, pci_domain_id=0, pci_bus_id=0x83, pci_device_id=0, **changes)
    cuda = SimpleNamespace(
        is_initialized=lambda: True, current_device=lambda: 0, device_count=lambda: 1,
        get_allocator_backend=lambda: "native", memory_reserved=lambda number: 1,
        get_device_properties=lambda number: properties,
    )  # fmt: skip
    distributed = SimpleNamespace(is_available=lambda: True, is_initialized=lambda: True, get_backend=lambda: backend)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
    monkeypatch.setitem(sys.modules, "torch.distributed", distributed)


@pytest.mark.parametrize(("backend", "asked"), [("nccl", "nccl"), ("undefined", "nccl"), ("gloo", "gloo")])
def test_the_port_is_looked_for_by_backend_gpu_and_local_rank(
    backend: str, asked: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpu_torch(monkeypatch, backend)
    seen: list[tuple[Any, ...]] = []

    def rdma_link(*arguments: Any) -> Link:
        seen.append(arguments[1:])
        return Link("mlx5_3", "mlx5_3/1", rdma=True)

    monkeypatch.setattr(equipment, "rdma_link", rdma_link)
    made = Made(nic="lo")
    made.opened(3)
    assert seen == [("lo", asked, "0000:83:00.0", 3)]
    told = {"nic": "mlx5_3", "link": "mlx5_3/1", "gpu_uuid": UUID, "pci_bus_id": "0000:83:00.0", "gpus": (UUID,)}
    assert made.equipment.told() == told
    assert made.equipment.missing == {"nic": "mlx5_3/1 has no counters of bytes: set EROICA_NIC"}


def test_a_part_of_a_gpu_is_told_as_missing_and_asked_of_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(equipment, "gpus_of", lambda *_: (Gpu(UUID, "", UUID, part=True),))
    made = Made()
    made.opened()
    assert made.equipment.told()["gpus"] == ()
    assert {made.equipment.missing[name] for name in ("sm_clock", "sm", "dram", "pcie", "nvlink")} == {PART}


@pytest.mark.parametrize(
    "error", [RuntimeError("CUDA error: an illegal memory access"), AttributeError("no such name")]
)
def test_what_torch_raises_reaches_nobody(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> tuple[Gpu, ...]:
        raise error

    monkeypatch.setattr(equipment, "gpus_of", fails)
    made = Made(nic="lo", nic_mbit=800)
    assert made.opened()() is not None
    assert made.equipment.told()["nic"] == "lo"
    made.equipment.close()


def test_the_training_threads_gpu_is_asked_of_torch_alone_and_is_the_first_in_the_next_window(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gpu_torch(monkeypatch)
    cuda: Any = sys.modules["torch"].cuda
    monkeypatch.setattr(cuda, "device_count", lambda: 2)
    monkeypatch.setattr(cuda, "current_device", lambda: 1)
    asked = list[int]()
    known = cuda.get_device_properties(0)

    def properties(number: int) -> Any:
        asked.append(number)
        return known

    monkeypatch.setattr(cuda, "get_device_properties", properties)
    made = Made(nic="lo")
    made.opened()
    made.opened()
    assert asked == [0, 1, 1, 0]


def test_a_device_that_never_answers_holds_up_no_window_and_is_told_as_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As the file of a port whose firmware hangs: opening this one waits until somebody writes."""
    pipe = tmp_path / "state"
    os.mkfifo(pipe)
    made = Made(nic="lo", nic_mbit=800)

    def hangs(*_: object) -> None:
        pipe.read_text()

    monkeypatch.setattr(equipment, "rdma_link", hangs)
    made.equipment.prepare(0)
    assert made.equipment.open()() is None
    assert made.equipment.missing == {"nic": SILENT}
    assert made.equipment.peak_bytes is None
    made.equipment.close()
    assert made.failures == []
    made.equipment.prepare(0)
    assert [stage for stage, _ in made.failures] == ["devices"]
    read = made.equipment.open()
    made.equipment.close()
    pipe.write_text("4: ACTIVE")
    looked()
    assert read() is None  # it came too late, and what it opened is closed
    monkeypatch.setattr(equipment, "rdma_link", lambda *_: None)
    assert made.opened()() is not None
    made.equipment.close()


def test_counters_that_hang_after_they_were_opened_are_given_up_and_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Reading waits until somebody writes into the pipe; two seconds later that is too long."""
    pipe = tmp_path / "port_rcv_data"
    os.mkfifo(pipe)
    file = os.open(pipe, os.O_RDWR)
    now = [100.0]
    made = Made(clock=lambda: now[0], nic="lo", nic_mbit=800)
    read = made.opened()
    monkeypatch.setattr(OwnCounters, "read", lambda _: (int(os.read(file, 8)), 0))
    aside = Aside(read, "hangs")
    aside.ask()
    while made.equipment._asked is None:
        time.sleep(0.001)
    assert made.equipment.missing == {}
    now[0] += 2
    assert made.equipment.missing == {"nic": SILENT}
    made.equipment.close()
    made.equipment.prepare(0)
    assert [stage for stage, _ in made.failures] == ["devices"]
    assert read() is None
    os.write(file, b"7")
    assert aside.answer(10) == (7, 0)
    assert made.equipment.missing == {}
    aside.close()
    made.equipment.close()
    os.close(file)


def announced(monkeypatch: pytest.MonkeyPatch, made: Made, refusal: str, seconds: float = 7.0) -> list[Announcement]:
    """Have a window announced to an agent that answers with ``refusal``; return what it heard."""
    heard: list[Announcement] = []

    def announce(path: Path, said: Announcement, owners: object) -> str:
        heard.append(said)
        return refusal

    monkeypatch.setattr("eroica_otel.hardware.announce.announce", announce)
    made.equipment.announce(4, 1_764_430_000, seconds)
    made.equipment.close()
    for thread in threading.enumerate():
        if thread.name == "eroica-herald":
            thread.join(10)
    return heard


def test_a_window_is_announced_in_the_name_of_this_process_for_a_minute_at_most(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made = Made(hardware_dir=str(tmp_path))
    (said,) = announced(monkeypatch, made, "", 300.0)
    assert (said.rank, said.window, said.seconds) == (4, 1_764_430_000, 60.0)
    assert said.pid == int(Path("/proc/self").resolve().name)
    assert made.failures == []


def test_a_refusal_is_counted_and_the_absence_of_an_agent_is_none(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made = Made(hardware_dir=str(tmp_path))
    announced(monkeypatch, made, "refused: announced a moment ago")
    ((stage, why),) = made.failures
    assert stage == "agent"
    assert why.startswith("window 1764430000 is sampled at the steady rate: refused: announced a moment ago")
    announced(monkeypatch, made, "announce.sock cannot be opened: No such file or directory")
    assert len(made.failures) == 1


def test_without_a_shared_folder_nobody_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert announced(monkeypatch, Made(hardware_dir=""), "") == []
    assert announced(monkeypatch, Made(hardware_dir=str(tmp_path / "none")), "") == []


def test_an_agent_that_does_not_answer_holds_up_nobody_and_the_next_window_is_not_announced_meanwhile(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    held, heard = threading.Event(), list[int]()

    def announce(path: Path, said: Announcement, owners: object) -> str:
        heard.append(said.window)
        held.wait(30)
        return ""

    monkeypatch.setattr("eroica_otel.hardware.announce.announce", announce)
    told = herald.Herald(str(tmp_path), lambda stage, why: None)
    told.announce(0, 1, 5.0)
    told.announce(0, 2, 5.0)
    told.end()
    held.set()
    assert told._thread is not None
    told._thread.join(10)
    told.announce(0, 3, 5.0)
    told.end()
    told._thread.join(10)
    assert heard == [1, 3]


def repeated(
    monkeypatch: pytest.MonkeyPatch, folder: Path, seconds: float, times: int, then: Callable[[int], float]
) -> list[tuple[float, float]]:
    """Return (when, for how long) of the first ``times`` announcements; ``then`` tells how far the clock goes on."""
    now, heard = [0.0], list[tuple[float, float]]()
    told = herald.Herald(str(folder), lambda stage, why: None, lambda: now[0], 0.001)

    def announce(path: Path, said: Announcement, owners: object) -> str:
        heard.append((now[0], said.seconds))
        if len(heard) == times:
            told.end()
        now[0] += then(len(heard))
        return ""

    monkeypatch.setattr("eroica_otel.hardware.announce.announce", announce)
    told.announce(0, 1, seconds)
    assert told._thread is not None
    told._thread.join(10)
    assert not told._thread.is_alive()
    return heard


def test_a_long_window_is_announced_again_before_a_minute_is_over(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """And for a while more where it outlasts what was expected."""
    heard = repeated(monkeypatch, tmp_path, 130.0, 4, lambda number: 50.0)
    assert heard == [(0.0, 60.0), (50.0, 60.0), (100.0, 30.0), (150.0, 15.0)]


def test_an_agent_that_begins_anew_in_a_window_hears_of_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def anew(number: int) -> float:
        (tmp_path / f"socket-{number}").touch()
        (tmp_path / f"socket-{number}").rename(tmp_path / SOCKET)
        return 2.0

    assert repeated(monkeypatch, tmp_path, 30.0, 2, anew) == [(0.0, 30.0), (2.0, 28.0)]


def test_a_window_that_was_announced_to_its_end_is_not_announced_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    heard = list[float]()

    def announce(path: Path, said: Announcement, owners: object) -> str:
        heard.append(said.seconds)
        return ""

    monkeypatch.setattr("eroica_otel.hardware.announce.announce", announce)
    clock = iter([0.0, 0.0, 0.0, *[19.9] * 1000])
    looks = list[float]()

    def passing() -> float:
        looks.append(next(clock))
        if len(looks) == 20:
            told.end()
        return looks[-1]

    told = herald.Herald(str(tmp_path), lambda stage, why: None, passing, 0.001)
    told.announce(0, 1, 20.0)
    assert told._thread is not None
    told._thread.join(10)
    assert heard == [20.0]
