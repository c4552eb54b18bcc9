"""From rings to the samples of a window: which device, which way, and every reason why there are none."""

from __future__ import annotations

import math
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eroica_hardware.readings import mean_share
from eroica_otel.errors import HardwareError
from eroica_otel.hardware.choice import STATES
from eroica_otel.hardware.gather import Gathered, Sought, gather
from eroica_otel.hardware.gathered import shares_of
from eroica_otel.hardware.ring import SUFFIX
from eroica_otel.hardware.shares import shares
from eroica_otel.model import GPU_RESOURCES
from eroica_otel.summarize.shares import held_use
from factories_rings import GPU, MS, every, leave, resource

NOW = time.monotonic_ns()
END = NOW - 1_000 * MS
START = END - 4_000 * MS
WIDE = (START - 600 * MS, END + 600 * MS)
OTHER = "GPU-99999999-2222-3333-4444-555555555555"


def sought(**changes: Any) -> Sought:
    usual = Sought(START, END, gpus=(GPU,), links=(), on_gpu=True)
    return replace(usual, **changes)


def found(folder: Path, now: int = NOW, **changes: Any) -> Gathered:
    return gather(folder, sought(**changes), lambda: now)


def test_without_a_folder_all_is_missing_and_the_reason_says_where_the_agent_should_be(tmp_path: Path) -> None:
    gathered = found(tmp_path / "none")
    assert gathered.shares == {}
    assert set(gathered.missing) == set(GPU_RESOURCES)
    assert set(gathered.missing.values()) == {f"no node agent serves {tmp_path}/none (EROICA_HARDWARE_DIR)"}


def test_a_cpu_job_wants_nothing_of_a_gpu(tmp_path: Path) -> None:
    assert set(found(tmp_path, on_gpu=False, gpus=()).missing) == set()


def test_shares_are_those_of_this_workers_gpu(tmp_path: Path) -> None:
    columns = [resource("sm_clock", gpu, "MHz", 2000.0) for gpu in (OTHER, GPU)]
    leave(tmp_path, "nvml", columns, every(1, *WIDE, 500.0, 1500.0), NOW)
    gathered = found(tmp_path)
    share = gathered.shares["sm_clock"]
    np.testing.assert_allclose(share.ratio, 0.75)
    assert share.time_ns[0] < START < END < share.time_ns[-1]
    assert np.isnan(share.peak_bytes)
    assert "sm_clock" not in gathered.missing
    assert gathered.missing["dram"] == f"the node agent does not sample it of {GPU}"


def test_the_share_of_the_window_in_which_the_clock_is_held_down(tmp_path: Path) -> None:
    columns = [resource(name, unit="1", peak=1.0) for name in STATES["gpu_slowdown"].columns]
    half = (START + END) // 2
    # read every 100 ms: hot in the second half, and the power brake for its last quarter, which is part of it
    rows = [(t, [0.0, float(t > half), float(t > END - 1_000 * MS), 0.0]) for t in range(START, END, 100 * MS)]
    leave(tmp_path, "nvml_state", columns, rows, NOW)
    assert found(tmp_path).states == {"gpu_slowdown": pytest.approx(0.5, abs=0.03)}
    assert found(tmp_path, on_gpu=False).states == {}
    assert found(tmp_path, gpus=(OTHER,)).states == {}
    assert found(tmp_path, gpus=()).states == {}


def test_what_was_hardly_read_says_nothing_of_the_clock(tmp_path: Path) -> None:
    columns = [resource("throttle_sw_power_cap", unit="1", peak=1.0)]
    leave(tmp_path, "nvml_state", columns, every(100, START, START + 500 * MS, 1.0), NOW)
    assert found(tmp_path).states == {}


def test_of_a_counter_each_sample_tells_of_the_time_that_follows_it(tmp_path: Path) -> None:
    columns = [resource(f"nvlink_{way}", unit="By", peak=1e9, counter=True) for way in ("tx", "rx")]
    # 0.4 and 0.1 of the peak, and in the second half of the window nothing
    half = (START + END) // 2
    rows = [(t, [4e8 * min(t, half) / 1e9, 1e8 * min(t, half) / 1e9]) for t in range(*WIDE, 5 * MS)]
    leave(tmp_path, "nvml", columns, [(t, [v - rows[0][1][n] for n, v in enumerate(vs)]) for t, vs in rows], NOW)
    shares = found(tmp_path).shares
    sent, received = shares["nvlink_tx"], shares["nvlink_rx"]
    busy = sent.time_ns < half - 5 * MS
    np.testing.assert_allclose(sent.ratio[busy], 0.4, rtol=1e-6)
    np.testing.assert_allclose(received.ratio[busy], 0.1, rtol=1e-6)
    assert not sent.ratio[sent.time_ns >= half].any()
    assert sent.peak_bytes == 1e9


def test_a_unit_of_mebibytes_is_told_in_bytes(tmp_path: Path) -> None:
    columns = [resource(f"gpm_nvlink_{way}", unit="MiBy/s", peak=1000.0) for way in ("tx", "rx")]
    leave(tmp_path, "gpm", columns, every(110, *WIDE, 250.0, 500.0), NOW)
    shares = found(tmp_path).shares
    assert shares["nvlink_tx"].peak_bytes == 1000 * (1 << 20)
    np.testing.assert_allclose(shares["nvlink_rx"].ratio, 0.5)


def test_the_finest_way_that_tells_enough_is_taken(tmp_path: Path) -> None:
    # Of a driver that only has rates, asked once a second, most of a window is not known.
    slow = [resource(f"pcie_{way}", unit="By/s", peak=1e9) for way in ("tx", "rx")]
    leave(tmp_path, "nvml", slow, every(1500, *WIDE, 9e8, 9e8), NOW)
    fine = [resource(f"gpm_pcie_{way}", unit="MiBy/s", peak=1000.0) for way in ("tx", "rx")]
    leave(tmp_path, "gpm", fine, every(110, *WIDE, 100.0, 100.0), NOW)
    np.testing.assert_allclose(found(tmp_path).shares["pcie_tx"].ratio, 0.1)


def test_a_dcgm_exporter_that_renews_its_numbers_once_a_second_is_enough_and_one_that_takes_half_a_minute_is_not(
    tmp_path: Path,
) -> None:
    columns = [resource("sm_clock", unit="MHz", peak=2000.0), resource("dram", unit="1", peak=1.0)]
    wide = (START - 2_000 * MS, END + 500 * MS)
    leave(tmp_path, "dcgm", columns, every(1000, *wide, 1500.0, 0.5), NOW)
    shares = found(tmp_path).shares
    np.testing.assert_allclose(shares["sm_clock"].ratio, 0.75)
    np.testing.assert_allclose(shares["dram"].ratio, 0.5)
    leave(tmp_path, "dcgm", columns, [(START - 1_900 * MS, [1500.0, 0.5]), (END + 400 * MS, [500.0, 0.5])], NOW)
    # What a sample tells holds for 2 s at most, of the 4.
    assert found(tmp_path).missing["sm_clock"] == "only 50% of the window was sampled"


def test_what_is_said_to_be_sampled_finely_is_not_believed_once_a_second(tmp_path: Path) -> None:
    leave(tmp_path, "gpm", [resource("dram")], every(1000, START - 400 * MS, END + 500 * MS, 50.0), NOW)
    assert "of the window was sampled" in found(tmp_path).missing["dram"]


def test_values_that_are_not_due_are_left_out_and_their_sample_holds(tmp_path: Path) -> None:
    rows = [(t, [50.0 if n % 10 == 0 else math.nan]) for n, t in enumerate(range(*WIDE, 10 * MS))]
    leave(tmp_path, "gpm", [resource("sm")], rows, NOW)
    share = found(tmp_path).shares["sm"]
    np.testing.assert_allclose(np.diff(share.time_ns), 100 * MS)
    np.testing.assert_allclose(share.ratio, 0.5)


def test_of_several_gpus_in_one_process_the_mean_is_shown(tmp_path: Path) -> None:
    columns = [resource("sm_clock", gpu, "MHz", 2000.0) for gpu in (GPU, OTHER)]
    leave(tmp_path, "nvml", columns, every(1, *WIDE, 1000.0, 2000.0), NOW)
    np.testing.assert_allclose(found(tmp_path, gpus=(GPU, OTHER)).shares["sm_clock"].ratio, 0.75)


def test_a_gpu_that_the_agent_does_not_see_is_missing_also_beside_one_that_it_sees(tmp_path: Path) -> None:
    leave(tmp_path, "nvml", [resource("sm_clock", unit="MHz")], every(1, *WIDE, 100.0), NOW)
    assert "sm_clock" in found(tmp_path, gpus=(GPU, OTHER)).missing
    assert "sm_clock" in found(tmp_path, gpus=(OTHER,)).missing
    assert found(tmp_path, gpus=()).missing["sm_clock"] == "it is not known which GPU this process uses"


def test_a_dead_agents_ring_is_not_used_whether_it_ended_or_was_killed(tmp_path: Path) -> None:
    rows = every(1, *WIDE, 100.0)
    leave(tmp_path, "nvml", [resource("sm_clock")], rows, NOW, ended=True)
    assert found(tmp_path).missing["sm_clock"] == "the node agent has stopped, or its clock is another one"
    leave(tmp_path, "nvml", [resource("sm_clock")], rows, NOW)
    assert found(tmp_path, now=NOW + 4_000 * MS).shares == {}
    # Nor is one with another clock: a heartbeat of the future.
    leave(tmp_path, "nvml", [resource("sm_clock")], rows, NOW + 3_600_000 * MS)
    assert found(tmp_path).shares == {}


def test_a_source_that_fell_silent_in_the_window_is_missing_with_the_part_that_it_saw(tmp_path: Path) -> None:
    leave(tmp_path, "nvml", [resource("sm_clock")], every(1, START, START + 1_500 * MS, 100.0), NOW)
    # 1.5 s of 4, and the half second for which a sample may stand
    assert found(tmp_path).missing["sm_clock"] == "only 50% of the window was sampled"


def test_an_agent_that_began_in_the_middle_of_the_window_is_too_late(tmp_path: Path) -> None:
    leave(tmp_path, "nvml", [resource("sm_clock")], every(1, END - 100 * MS, END, 100.0), NOW)
    assert "only 15% of the window was sampled" in found(tmp_path).missing["sm_clock"]


def test_a_ring_of_the_past_tells_nothing_of_this_window(tmp_path: Path) -> None:
    leave(tmp_path, "nvml", [resource("sm_clock")], every(1, START - 9_000 * MS, START - 8_000 * MS, 100.0), NOW)
    assert "could not be read in the window" in found(tmp_path).missing["sm_clock"]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, -5.0])
def test_values_that_cannot_be_are_missing(value: float, tmp_path: Path) -> None:
    leave(tmp_path, "nvml", [resource("sm_clock")], every(1, *WIDE, value), NOW)
    assert "could not be read in the window" in found(tmp_path).missing["sm_clock"]


def test_a_share_never_exceeds_the_peak(tmp_path: Path) -> None:
    leave(tmp_path, "nvml", [resource("sm_clock")], every(1, *WIDE, 1e300), NOW)
    np.testing.assert_allclose(found(tmp_path).shares["sm_clock"].ratio, 1.0)


@pytest.mark.parametrize("peak", [math.nan, 0.0, -1.0])
def test_without_a_peak_there_is_no_share(peak: float, tmp_path: Path) -> None:
    leave(tmp_path, "dcgm", [resource("sm", peak=peak)], every(100, *WIDE, 50.0), NOW)
    assert found(tmp_path).missing["sm"] == f"the node agent does not sample it of {GPU}"


def test_a_hostile_folder_gives_reasons_and_no_error(tmp_path: Path) -> None:
    (tmp_path / f"nvml{SUFFIX}").symlink_to("/etc/passwd")
    os.mkfifo(tmp_path / f"gpm{SUFFIX}")
    (tmp_path / f"dcgm{SUFFIX}").write_bytes(b"EROICAR" * 1000)
    (tmp_path / f"rocm{SUFFIX}").mkdir()
    missing = found(tmp_path).missing
    assert set(missing) == set(GPU_RESOURCES)
    assert all(missing.values())


def test_rings_of_another_user_are_not_believed(tmp_path: Path) -> None:
    leave(tmp_path, "nvml", [resource("sm_clock")], every(1, *WIDE, 100.0), NOW)
    assert "sm_clock" in found(tmp_path).shares
    os.chown(tmp_path / f"nvml{SUFFIX}", 12345, 12345)
    assert found(tmp_path).missing["sm_clock"] == "nvml.ring belongs to user 12345"
    # Whoever owns the folder could put anything there anyway.
    os.chown(tmp_path, 12345, 12345)
    assert "sm_clock" in found(tmp_path).shares


def test_the_links_bytes_are_raw_under_each_name_that_is_found(tmp_path: Path) -> None:
    columns = [
        resource(f"nic_{way}", device, "By", 1.25e9, counter=True)
        for device in ("eth0", "eth0@4026")
        for way in ("tx", "rx")
    ]
    leave(tmp_path, "net", columns, every(2, *WIDE, 100.0, 200.0, 1e6, 3e6, rise=True), NOW)
    gathered = found(tmp_path, links=("eth0@4026", "eth1", "eth0"))
    assert [use.device for use in gathered.links] == ["eth0@4026", "eth0"]
    first = gathered.links[0]
    inside = np.diff(first.sent) / np.diff(first.time_ns) * 1e9
    np.testing.assert_allclose(inside, 1e6, rtol=1e-3)
    assert first.peak_bytes == 1.25e9
    assert first.sent.dtype == first.received.dtype == np.int64


def test_a_port_of_an_rdma_adapter_is_in_a_ring_of_its_own_and_may_have_no_peak(tmp_path: Path) -> None:
    columns = [resource(f"rdma_{way}", "mlx5_0/1", "By", math.nan, counter=True) for way in ("tx", "rx")]
    leave(tmp_path, "rdma", columns, every(5, *WIDE, 1e6, 2e6, rise=True), NOW)
    (use,) = found(tmp_path, links=("mlx5_0/1",)).links
    assert math.isnan(use.peak_bytes)
    assert use.received[-1] - use.received[0] == pytest.approx(
        2e6 * 5.0, rel=0.01
    )  # the window and half a second at either side


def test_a_wrapped_stretch_counts_nowhere_and_all_ways_to_a_share_agree() -> None:
    """A counter at 40 % of its peak that begins anew after a third, seen by the worker, the rings and /metrics."""
    given = resource("rdma_tx", "mlx5_0/1", "By", 100.0, counter=True)
    times = np.arange(31, dtype=np.int64) * 100 * MS
    values = np.arange(31).astype(np.float64) * 4
    values[10:] -= 38.0
    found = shares_of(given, times, values)
    assert np.isnan(found.ratio).tolist() == [number == 9 for number in range(31)]
    used, known = held_use(found.time_ns, found.ratio)
    assert used[-1] / known[-1] == pytest.approx(0.4)
    assert known[-1] == 29 * 100 * MS
    assert np.nanmean(shares(given, times, values)) == pytest.approx(0.4)
    assert mean_share(given, times, values) == pytest.approx(0.4)


def test_a_counter_that_only_goes_back_tells_nothing() -> None:
    given = resource("pcie_tx", unit="By", counter=True)
    with pytest.raises(HardwareError, match="only went back"):
        shares_of(given, np.array([0, 1, 2], np.int64) * MS, np.array([3.0, 2.0, 1.0]))


def test_every_file_is_closed_again(tmp_path: Path) -> None:
    leave(tmp_path, "nvml", [resource("sm_clock")], every(1, *WIDE, 100.0), NOW)
    leave(tmp_path, "gpm", [resource("sm")], [], NOW, ended=True)
    before = len(os.listdir("/proc/self/fd"))
    found(tmp_path)
    found(tmp_path / "none")
    assert len(os.listdir("/proc/self/fd")) == before
