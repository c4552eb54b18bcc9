"""mu and sigma of a GPU job's functions from the node agent's samples of its GPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eroica_otel.model import Capture, Pattern
from eroica_otel.summarize.pattern import summarize
from eroica_otel.traces import Samples
from factories_summarize import Row, capture, write_kineto

MS = 1_000_000
END = 100 * MS


def gpu_window(tmp_path: Path, **more: Any) -> Capture:
    """A kernel from 0 to 40 ms, a copy from 40 to 60 ms, an all-reduce from 60 to 100 ms."""
    rows = [
        Row("ampere_sgemm_128x64_tn", 0, 40 * MS, "kernel", 7),
        Row("Memcpy HtoD (Pageable -> Device)", 40 * MS, 60 * MS, "gpu_memcpy", 7),
        Row("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", 60 * MS, END, "kernel", 20),
    ]
    return capture(end=END, trace=write_kineto(tmp_path / "t.json", rows), gpu=True, **more)


def levels(*values: float, peak: float = float("nan")) -> Samples:
    """One value for each 20 ms of the window, sampled every millisecond."""
    times = np.arange(0, END, MS, dtype=np.int64)
    return Samples(np.append(times, END), np.append(np.repeat(values, 20), values[-1]), peak)


def patterns(found: Capture, **device: Samples) -> dict[str, Pattern]:
    window = summarize(found, device=device)
    return {one.kind: one for one in window.patterns}


def test_each_kind_has_the_resource_that_it_should_be_using(tmp_path: Path) -> None:
    found = patterns(
        gpu_window(tmp_path),
        sm_clock=levels(1.0, 0.5, 0.2, 0.2, 0.2),
        sm=levels(0.1, 0.1, 0.1, 0.1, 0.1),
        dram=levels(0.9, 0.9, 0.3, 0.0, 0.0),
        pcie_tx=levels(0.0, 0.0, 0.1, 0.0, 0.0),
        pcie_rx=levels(0.0, 0.0, 0.8, 0.0, 0.0),
        nvlink_tx=levels(0.0, 0.0, 0.0, 0.7, 0.7, peak=9e11),
        nvlink_rx=levels(0.0, 0.0, 0.0, 0.6, 0.6, peak=9e11),
    )
    compute, memory, communication = found["compute"], found["memory"], found["communication"]
    assert [one.resource for one in (compute, memory, communication)] == ["sm_clock", "pcie", "nvlink"]
    assert [one.mu for one in (compute, memory, communication)] == pytest.approx([0.75, 0.8, 0.7])
    assert [one.sigma for one in (compute, memory, communication)] == pytest.approx([0.25, 0.0, 0.0], abs=1e-6)
    assert communication.peaks == pytest.approx({"nvlink": 0.7})


def test_time_of_which_nothing_is_known_takes_nothing_from_mu_and_peak(tmp_path: Path) -> None:
    unknown = float("nan")
    found = patterns(
        gpu_window(tmp_path),
        sm_clock=levels(0.8, unknown, 0.2, 0.2, 0.2),
        pcie_rx=levels(0.0, 0.0, unknown, 0.0, 0.0),
        nvlink_tx=levels(0.0, 0.0, 0.0, 0.7, unknown, peak=9e11),
    )
    assert found["compute"].mu == pytest.approx(0.8)
    assert found["compute"].sigma == pytest.approx(0.0, abs=1e-6)
    assert found["memory"].mu is None
    assert found["communication"].mu == pytest.approx(0.7)
    assert found["communication"].peaks == pytest.approx({"nvlink": 0.7})


def test_without_a_clock_the_activity_counts(tmp_path: Path) -> None:
    found = patterns(gpu_window(tmp_path), sm=levels(0.5, 0.5, 0.0, 0.0, 0.0))
    assert found["compute"].resource == "sm"
    assert found["compute"].mu == pytest.approx(0.5)
    assert (found["memory"].resource, found["memory"].mu) == ("", None)


def network(**more: Any) -> dict[str, Any]:
    """25 MB in the 40 ms of the all-reduce on a link of 1.25 GB/s: half of it."""
    nic = [(t * MS, max(0, t - 60) * 625_000, 0) for t in range(0, 101, 5)]
    return {"nic": nic, "nic_peak_bytes": 1.25e9, **more}


@pytest.mark.parametrize(
    ("peak", "resource", "mu"),
    [(450e9, "nvlink", 0.1), (1e9, "nic", 0.5), (float("nan"), "nic", 0.5)],
    ids=["nvlink carries more", "the network carries more", "nobody knows what nvlink carries"],
)
def test_communication_is_measured_on_the_link_that_carried_more(
    peak: float, resource: str, mu: float, tmp_path: Path
) -> None:
    link = levels(0.0, 0.0, 0.0, 0.1, 0.1, peak=peak)
    found = patterns(gpu_window(tmp_path, **network()), nvlink_tx=link, nvlink_rx=link)["communication"]
    assert found.resource == resource
    assert found.mu == pytest.approx(mu, rel=1e-3)
    assert found.peaks["nic_tx"] == pytest.approx(0.5)
    assert found.peaks["nvlink"] == pytest.approx(0.1)


def test_the_bus_is_no_link_of_the_collectives_where_the_network_is_sampled(tmp_path: Path) -> None:
    busy = levels(0.9, 0.9, 0.9, 0.9, 0.9, peak=1e12)
    found = patterns(gpu_window(tmp_path, **network()), pcie_tx=busy, pcie_rx=busy)["communication"]
    assert found.resource == "nic"


def test_a_step_of_the_clock_leaves_no_common_time(tmp_path: Path) -> None:
    found = patterns(gpu_window(tmp_path, realtime_offset_ns=(0, 2 * MS)), sm_clock=levels(1.0, 1.0, 1.0, 1.0, 1.0))
    assert {one.mu for one in found.values()} == {None}


def test_a_cpu_jobs_compute_is_that_of_its_core(tmp_path: Path) -> None:
    rows = [Row("aten::mm", 0, 40 * MS)]
    found = summarize(
        capture(end=END, trace=write_kineto(tmp_path / "t.json", rows)),
        device={"cpu": levels(0.5, 0.25, 0.0, 0.0, 0.0)},
    )
    (compute,) = [one for one in found.patterns if one.kind == "compute"]
    assert compute.resource == "cpu"
    assert compute.mu == pytest.approx(0.375)
