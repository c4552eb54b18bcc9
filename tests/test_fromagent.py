"""What a window has from the node agent and what from the worker itself; rings as an agent leaves them."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eroica_otel.fromagent import NO_CPU, Sampled, is_same, with_agent
from eroica_otel.hardware.gather import LinkUse
from eroica_otel.hardware.netns import own_name
from eroica_otel.model import GPU_RESOURCES, Capture
from factories_rings import GPU, MS, every, leave, resource
from factories_summarize import capture
from factories_worker import status

NOW = time.monotonic_ns()
END = NOW - 1_000 * MS
START = END - 2_000 * MS
WIDE = (START - 600 * MS, END + 600 * MS)
RATE = (5e6, 2e6)


def own(step_ms: float = 5, begin: int = 0, **more: Any) -> Capture:
    """A window in which the worker sampled its link itself, 5 and 2 MB/s from byte 1,000 on."""
    rows = every(step_ms, *WIDE, *RATE, rise=True)
    nic = [(t, begin + round(tx), begin + round(rx)) for t, (tx, rx) in rows]
    cpu = [(t, 0) for t in range(START, END, MS)]
    usual: dict[str, Any] = {"nic_peak_bytes": 1e7, "missing": {}}
    return capture(start=START, end=END, nic=nic, samples=cpu, **usual | more)


def of_agent(folder: Path, step_ms: float, *devices: str, begin: int = 0, peak: float = 1e7) -> None:
    columns = [resource(f"nic_{way}", device, "By", peak, counter=True) for device in devices for way in ("tx", "rx")]
    rows = [(t, [begin + v for v in values]) for t, values in every(step_ms, *WIDE, *RATE * len(devices), rise=True)]
    leave(folder, "net", columns, rows, NOW)


def sampled(folder: Path, captured: Capture, **changes: Any) -> Sampled:
    usual: dict[str, Any] = {"nic": "eth0", "link": "eth0", "pid": 7}
    return with_agent(captured, status(**usual | changes), str(folder), lambda: NOW)


def test_the_agents_samples_of_the_link_are_taken_where_they_are_finer(tmp_path: Path) -> None:
    of_agent(tmp_path, 2, "eth0")
    found = sampled(tmp_path, own(5))
    # Not all of them: at another rate sigma would be another.
    assert set(np.diff(found.capture.nic_ns)) == {4 * MS}
    assert found.missing == {}


def test_the_workers_own_are_kept_where_the_agent_was_not_asked_to_hurry(tmp_path: Path) -> None:
    of_agent(tmp_path, 10, "eth0")
    captured = own(5)
    assert sampled(tmp_path, captured).capture is captured


def test_an_agent_that_ended_in_the_window_leaves_the_workers_own(tmp_path: Path) -> None:
    columns = [resource(f"nic_{way}", "eth0", "By", 1e7, counter=True) for way in ("tx", "rx")]
    leave(tmp_path, "net", columns, every(1, WIDE[0], END - 200 * MS, *RATE, rise=True), NOW)
    captured = own(5)
    assert sampled(tmp_path, captured).capture is captured


def test_an_interface_of_the_same_name_elsewhere_is_another_one(tmp_path: Path) -> None:
    of_agent(tmp_path, 2, "eth0", begin=100_000_000)
    captured = own(5)
    assert sampled(tmp_path, captured).capture is captured


@pytest.mark.parametrize(("begin", "taken"), [(0, True), (100_000_000, False)])
def test_an_interface_that_the_agent_saw_in_the_workers_namespace_is_taken_where_its_counters_fit(
    begin: int, taken: bool, tmp_path: Path
) -> None:
    columns = [resource(f"nic_{way}", own_name("eth0"), "By", math.nan, counter=True) for way in ("tx", "rx")]
    rows = [(t, [begin + v for v in values]) for t, values in every(2, *WIDE, *RATE, rise=True)]
    leave(tmp_path, "netns", columns, rows, NOW)
    captured = own(5)
    assert (sampled(tmp_path, captured).capture is not captured) == taken


def test_without_samples_of_its_own_a_worker_believes_a_name_that_can_be_no_other_only(tmp_path: Path) -> None:
    nothing = own(5, nic_ns=np.zeros(0, np.int64), nic_tx=np.zeros(0, np.int64), nic_rx=np.zeros(0, np.int64))
    of_agent(tmp_path, 2, "eth0")
    assert sampled(tmp_path, nothing).capture is nothing
    columns = [resource(f"rdma_{way}", "mlx5_0/1", "By", 1.25e10, counter=True) for way in ("tx", "rx")]
    leave(tmp_path, "rdma", columns, every(5, *WIDE, *RATE, rise=True), NOW)
    missing = {"nic": "mlx5_0/1 has no counters of bytes: set EROICA_NIC"}
    bare = own(
        5, nic_ns=nothing.nic_ns, nic_tx=nothing.nic_tx, nic_rx=nothing.nic_rx, nic_peak_bytes=None, missing=missing
    )
    found = sampled(tmp_path, bare, nic="mlx5_0", link="mlx5_0/1")
    assert set(np.diff(found.capture.nic_ns)) == {5 * MS}
    assert found.capture.nic_peak_bytes == 1.25e10
    assert found.missing == {}


def test_counters_of_one_interface_lie_between_those_read_before_and_after() -> None:
    captured = own(5)
    times = captured.nic_ns[10:-10] + 2 * MS
    between = [
        np.interp(times, captured.nic_ns, counter).astype(np.int64) for counter in (captured.nic_tx, captured.nic_rx)
    ]
    assert is_same(captured, LinkUse("eth0", times, between[0], between[1], 1e7), "eth0")
    assert not is_same(captured, LinkUse("eth0", times, between[1], between[0], 1e7), "eth0")
    assert not is_same(captured, LinkUse("eth0", times + 10_000_000 * MS, between[0], between[1], 1e7), "eth0")


def test_a_reading_in_which_somebody_was_stopped_now_and_then_does_not_make_it_another_link() -> None:
    captured = own(5)
    times = np.arange(START, END, 2 * MS, dtype=np.int64)  # 1,000
    bytes_per_ms = 5e3, 2e3
    sent, received = ((1_000 + (times - WIDE[0]) / MS * rate).astype(np.int64) for rate in bytes_per_ms)

    def late(which: slice) -> LinkUse:
        stopped = sent.copy()
        stopped[which] -= int(40 * bytes_per_ms[0])  # read 40 ms before the time it is given
        return LinkUse("eth0", times, stopped, received, 1e7)

    assert is_same(captured, late(slice(0, 0)), "eth0")
    assert is_same(captured, late(slice(100, 800, 100)), "eth0")  # 7 of 1,000
    assert not is_same(captured, late(slice(100, 900, 40)), "eth0")  # 20 of 1,000


def test_a_gpu_jobs_window_has_what_its_gpu_did(tmp_path: Path) -> None:
    leave(tmp_path, "nvml", [resource("sm_clock", unit="MHz", peak=2000.0)], every(1, *WIDE, 1500.0), NOW)
    leave(tmp_path, "gpm", [resource("dram"), resource("sm")], every(110, *WIDE, 30.0, 90.0), NOW)
    found = sampled(tmp_path, own(gpu=True), gpus=(GPU,))
    assert set(found.shares) == {"sm_clock", "dram", "sm"}
    assert set(found.missing) == {"pcie", "nvlink"}


def test_without_an_agent_a_gpu_job_says_what_is_missing_and_a_cpu_job_misses_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "none"
    found = sampled(folder, own(gpu=True), gpus=(GPU,))
    assert found.shares == {}
    assert set(found.missing) == set(GPU_RESOURCES)
    assert set(found.missing.values()) == {f"no node agent serves {folder} (EROICA_HARDWARE_DIR)"}
    assert sampled(folder, own()).missing == {}


def test_with_no_folder_at_all_nobody_is_asked() -> None:
    captured = own(gpu=True, missing={"nic": "no speed"})
    found = with_agent(captured, status(), "")
    assert found.capture is captured
    assert found.shares == {}
    assert found.missing["nic"] == "no speed"
    assert found.missing.keys() == {"nic", *GPU_RESOURCES}


@pytest.mark.parametrize("why", ["the GPU is cut into instances (MIG)"])
def test_what_the_trainer_says_of_a_resource_wins(why: str, tmp_path: Path) -> None:
    found = sampled(tmp_path, own(gpu=True, missing={"sm": why}))
    assert found.missing["sm"] == why


def test_a_training_thread_without_a_clock_of_its_own_is_told(tmp_path: Path) -> None:
    assert sampled(tmp_path, capture(start=START, end=END)).missing["cpu"] == NO_CPU
    assert "cpu" not in sampled(tmp_path, own()).missing
