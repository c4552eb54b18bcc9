"""/metrics of the node agent: a golden page of recorded GPUs and a made-up node, and what single series say."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from eroica_hardware import names
from factories_agent import SECOND, AgentScene
from factories_hardware import Tree
from factories_nvml import Gpu, Recorded

GOLDEN = Path(__file__).parents[1] / "golden" / "agent" / "metrics.txt"
TX, RX, NVLINK_TX, NVLINK_RX = 197, 198, 138, 139
GPM = {1: 99.0, 2: 90.0, 3: 40.0, 5: 55.0, 10: 30.0, 20: 100.0, 21: 200.0, 60: 3000.0, 61: 4000.0}
OWN = re.compile(r"(eroica_hardware_(?:cpu_seconds_total|memory_bytes)\{[^}]*\} |[,{]version=\")[^\s\"]+")


def h200(uuid: str = "GPU-a") -> Gpu:
    gpu = Gpu("h200", uuid)
    gpu.fields = {TX: 0, RX: 0, NVLINK_TX: 0, NVLINK_RX: 0}
    gpu.energy_mj = 1
    return gpu


def node(path: Path) -> Tree:
    """A node with one Ethernet interface of 1 Gbit/s, a bridge, and one port of 100 Gbit/s."""
    tree = Tree(path / "machine")
    tree.interface("eth0", speed=1000, rx_dropped=5)
    tree.interface("cni0", speed=10000, device=False)
    counted = {"counters/port_xmit_data": 0, "counters/port_rcv_data": 0, "counters/symbol_error": 7}
    tree.port("mlx5_0", files=counted | {"hw_counters/np_cnp_sent": 3, "counters/port_xmit_packets": 11})
    tree.pci("0000:83:00.0", current_link_width="8")
    return tree


def work(scene: AgentScene, since: float) -> None:
    """Move 10 GB/s over NVLink, 1 GB/s over PCIe, 12.5 MB/s over Ethernet, 1.25 GB/s over the port; 600 W."""
    if round(since * 100) % 10:  # ten times a second is enough
        return
    gpu = scene.nvml.gpus[0]
    gpu.fields = {TX: round(1e9 * since), RX: round(2e9 * since), NVLINK_TX: round(1e10 / 1024 * since), NVLINK_RX: 0}
    gpu.energy_mj = 1 + round(600e3 * since)
    links = scene.tree.sys / "class"
    scene.tree.write(links / "net" / "eth0" / "statistics" / "tx_bytes", round(12.5e6 * since))
    scene.tree.write(
        links / "infiniband" / "mlx5_0" / "ports" / "1" / "counters" / "port_xmit_data", round(1.25e9 / 4 * since)
    )


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[AgentScene]:
    nvml = Recorded(h200(), Gpu("h200_mig", "GPU-m"))
    nvml.gpm = dict(GPM)
    made = AgentScene(
        tmp_path, nvml, "nvml", "nvml_state", "gpm", "rdma", "rdma_state", "net", "pcie", tree=node(tmp_path)
    )
    yield made
    made.close()


def rows(page: str) -> list[tuple[str, float]]:
    """Return series and value of each line; a comment is a series without a value."""
    pairs = ((line, "nan") if line.startswith("#") else line.rsplit(" ", 1) for line in page.splitlines())
    return [(name, float(value)) for name, value in pairs]


def test_the_golden_page(scene: AgentScene) -> None:
    """After 30 s of ``work``; what follows says where the numbers come from."""
    scene.go(30, lambda since: work(scene, since))
    found, golden = (rows(OWN.sub(r"\g<1>0", page)) for page in (scene.page(), GOLDEN.read_text("utf-8")))
    assert [name for name, _ in found] == [name for name, _ in golden]
    assert [value for _, value in found] == pytest.approx([value for _, value in golden], rel=1e-6, nan_ok=True)


def test_what_the_gpu_and_the_links_did(scene: AgentScene) -> None:
    scene.go(12, lambda since: work(scene, since))
    found = scene.series()
    gpu = 'host="node-1",hw_id="GPU-a",hw_type="gpu"'
    assert found[f"hw_gpu_memory_usage_bytes{{{gpu}}}"] == 32362 << 20
    assert found[f"hw_gpu_memory_limit_bytes{{{gpu}}}"] == 143771 << 20
    assert found[f"hw_gpu_memory_utilization_ratio{{{gpu}}}"] == pytest.approx(32362 / 143771)
    assert found[f"hw_power_watts{{{gpu}}}"] == 625.24
    assert found[f"hw_energy_joules_total{{{gpu}}}"] == pytest.approx(600 * 12, abs=700)  # asked for once a second
    ratios = {
        "nvlink_tx": 10e9 / (18 * 26.562e9),
        "nvlink_rx": 0.0,
        "pcie_tx": 1e9 / (16 * 32e9 * 128 / 130 / 8),
        "pcie_rx": 2e9 / (16 * 32e9 * 128 / 130 / 8),
        "sm_clock": 1.0,
    }
    for resource, ratio in ratios.items():
        of = f'device="GPU-a",host="node-1",resource="{resource}",source="nvml"'
        assert found[f"eroica_hardware_resource_ratio{{{of}}}"] == pytest.approx(ratio, rel=0.02), resource
    for source, device, resource, ratio in (
        ("gpm", "GPU-a", "sm", 0.9),
        ("gpm", "GPU-a", "dram", 0.3),
        ("net", "eth0", "nic_tx", 0.1),
        ("rdma", "mlx5_0/1", "rdma_tx", 0.1),
        ("pcie", "0000:83:00.0", "pcie_link_width", 0.5),
    ):
        of = f'device="{device}",host="node-1",resource="{resource}",source="{source}"'
        assert found[f"eroica_hardware_resource_ratio{{{of}}}"] == pytest.approx(ratio, rel=0.02), resource


def test_a_bridge_is_not_shown_beside_a_real_interface_and_loopback_never(tmp_path: Path) -> None:
    tree = node(tmp_path)
    shutil.rmtree(tree.sys / "class" / "net" / "eth0")
    tree.interface("lo", speed="-1", device=False)
    scene = AgentScene(tmp_path, Recorded(), "net", tree=tree)
    scene.go(2)
    devices = {match[1] for match in re.finditer(r'hw_id="([^"]*)"', scene.page())}
    scene.close()
    assert devices == {"cni0"}


def test_a_value_that_is_not_due_stays_for_a_minute_and_no_longer(scene: AgentScene) -> None:
    """The memory's size is asked for once a second; then the GPU answers all but this."""
    scene.go(5)
    scene.nvml.broken["nvmlDeviceGetMemoryInfo"] = 3
    used = 'hw_gpu_memory_usage_bytes{host="node-1",hw_id="GPU-a",hw_type="gpu"}'
    scene.go(4)  # no look at the devices until then
    assert scene.series()[used] == 32362 << 20
    scene.go(60)
    assert used not in scene.series()
    assert 'hw_power_watts{host="node-1",hw_id="GPU-a",hw_type="gpu"}' in scene.series()


def test_a_dead_samplers_ring_is_not_shown(scene: AgentScene) -> None:
    scene.go(2)
    scene.now += 4 * SECOND
    assert not [name for name in scene.series() if name.startswith("hw_")]


def test_what_a_gpu_is(scene: AgentScene) -> None:
    scene.go(2)
    (row,) = (name for name in scene.series() if name.startswith("eroica_hardware_gpu_info") and "GPU-m" in name)
    assert dict(re.findall(r'(\w+)="([^"]*)"', row)) == {
        "host": "node-1",
        "hw_id": "GPU-m",
        "hw_type": "gpu",
        "hw_vendor": "NVIDIA",
        "hw_model": "NVIDIA H200",
        "hw_driver_version": "590.48.01",
        "pci_bus_id": "0000:83:00.0",
        "gpu": "1",
    }


def test_a_source_that_hangs_is_told_and_has_no_rate(scene: AgentScene) -> None:
    scene.go(5)
    rate = 'eroica_hardware_rate_hertz{host="node-1",source="net"}'
    hangs = 'eroica_hardware_missing{host="node-1",reason="it has not answered'
    assert scene.series()[rate] == pytest.approx(100, abs=2)
    assert not [name for name in scene.series() if name.startswith(hangs)]
    scene.now += 5 * SECOND  # nobody ticks
    assert scene.series()[rate] == 0
    assert len([name for name in scene.series() if name.startswith(hangs)]) == len(scene.samplers)


def test_how_late_samples_were_and_how_many_were_left_out_is_told(scene: AgentScene) -> None:
    """Each is 2 ms late, one of the first second 35 ms, so that three are left out; then one 7 ms and the rest 0."""
    (net,) = (one for one in scene.samplers if one.source.family == "net")
    whose = '{host="node-1",source="net"}'

    def tick(late_ms: int) -> None:
        scene.now += net.deadlines.wait(scene.now) + late_ms * 1_000_000
        net.tick()

    for number in range(350):
        tick(35 if number == 100 else 2)
    found = scene.series()
    assert found[f"eroica_hardware_missed_total{whose}"] == 3
    assert found[f"eroica_hardware_jitter_seconds{whose}"] == pytest.approx(0.002)
    assert found[f"eroica_hardware_jitter_most_seconds{whose}"] == pytest.approx(0.002)
    tick(7)
    for _ in range(60):
        tick(0)
    found = scene.series()
    # Of the 101 samples of that second 48 were 2 ms late.
    assert found[f"eroica_hardware_jitter_seconds{whose}"] == pytest.approx((48 * 2 + 7) / 101 / 1e3)
    assert found[f"eroica_hardware_jitter_most_seconds{whose}"] == pytest.approx(0.007)


def test_a_gpu_that_is_lost_is_told(scene: AgentScene) -> None:
    scene.go(2)
    scene.nvml.gpus[0].lost = True
    scene.go(1)
    reason = 'host="node-1",reason="gpu is lost",source="nvml",what="GPU-a"'
    assert scene.series()[f"eroica_hardware_missing{{{reason}}}"] == 1
    scene.go(70)
    left = {name.partition("{")[0] for name in scene.series() if name.startswith("hw_") and "GPU-a" in name}
    assert left == {"hw_status"}


def states(scene: AgentScene) -> dict[str, str]:
    """Return the state of each GPU."""
    rows = [name for name, value in scene.series().items() if name.startswith("hw_status") and value]
    found = [dict(re.findall(r'(\w+)="([^"]*)"', row)) for row in rows]
    return {labels["hw_id"]: labels["hw_state"] for labels in found}


def test_the_state_of_a_gpu_over_its_life(scene: AgentScene) -> None:
    scene.go(2)
    assert states(scene) == {"GPU-a": "ok", "GPU-m": "ok"}
    scene.nvml.gpus[0].said["Remapped Rows", "Pending"] = "Yes"
    scene.go(12)  # asked for every 10 s
    assert states(scene) == {"GPU-a": "predicted_failure", "GPU-m": "ok"}
    scene.nvml.gpus[1].lost = True
    for _ in range(3):  # before and after the devices are looked at anew, when it has no name any more
        scene.go(8)
        assert states(scene) == {"GPU-a": "predicted_failure", "GPU-m": "failed"}
    scene.nvml.driver = 9
    scene.go(8)
    assert states(scene) == {}
    scene.nvml.driver, scene.nvml.gpus[1].lost = 0, False
    scene.nvml.gpus[0].said["Remapped Rows", "Pending"] = "No"
    scene.go(25)
    assert states(scene) == {"GPU-a": "ok", "GPU-m": "ok"}
    scene.now += 5 * SECOND  # the driver hangs
    assert states(scene) == {}


def test_labels_and_types_are_those_of_the_table(scene: AgentScene) -> None:
    scene.go(12, lambda since: work(scene, since))
    page = scene.page()
    types = dict(re.findall(r"# TYPE (\S+) (\S+)", page))
    optional = {"network_io_direction", "device"}
    seen = set()
    for line in page.splitlines():
        if line.startswith("#"):
            continue
        name, _, labels = line.partition("{")
        known = names.BY_NAME[name]
        seen.add(name)
        assert types[name] == known.type
        given = set(re.findall(r'(\w+)="', labels))
        assert given <= set(known.labels), line
        assert set(known.labels) - given <= optional, line
    assert {metric.name for metric in names.ALL if metric.cpu_job} <= seen


def test_promtool_finds_nothing_to_say(scene: AgentScene) -> None:
    scene.go(12, lambda since: work(scene, since))
    done = subprocess.run(
        ["promtool", "check", "metrics"], input=scene.page(), capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
