"""RDMA ports whose firmware takes its time: how often the agent reads each, on a clock that the firmware moves."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from eroica_otel.hardware.announce import Announcement
from eroica_otel.hardware.ringreader import open_ring
from factories_agent import SECOND, AgentScene
from factories_hardware import Tree
from factories_nvml import Recorded

ANSWER_NS = 300_000
PORTS = 8


def test_eight_ports_keep_200_hz_where_each_counter_takes_a_third_of_a_millisecond(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """16 counters take 4.8 ms of each 5 ms; the forty others of each port are read beside them, by another thread."""
    tree = Tree(tmp_path / "machine")
    for number in range(PORTS):
        tree.port(f"mlx5_{number}")
    scene = AgentScene(tmp_path, Recorded(), "rdma", tree=tree)
    real = os.pread

    def pread(file: int, most: int, position: int) -> bytes:
        if os.readlink(f"/proc/self/fd/{file}").startswith(str(tree.sys)):
            scene.now += ANSWER_NS
        return real(file, most, position)

    monkeypatch.setattr("os.pread", pread)
    scene.go(1)
    began = scene.now
    scene.windows.grant((0, 1), Announcement(0, 1, 1, 20.0), began)
    scene.go(2)
    ring = open_ring(scene.folder, "rdma.ring")
    samples = ring.read(began + SECOND // 2, scene.now)
    ring.close()
    scene.close()
    assert samples.values.shape[1] == 2 * PORTS
    for port in samples.values.T:
        known = samples.times[~np.isnan(port)]
        assert (scene.now - known[-1]) / SECOND <= 16 / 200 + 0.011  # the last batch is not written yet
        assert len(known) == pytest.approx(200 * (known[-1] - known[0]) / SECOND, rel=0.02)
        assert np.diff(known).max() <= 0.011 * SECOND
