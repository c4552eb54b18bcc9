"""The Kubernetes manifests: valid by the schemas of Kubernetes and prometheus-operator, and as good as their word."""

from __future__ import annotations

import copy
import re
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest

import eroica_otel
from eroica_hardware import check
from eroica_hardware.catalog import FAMILIES
from eroica_hardware.gpm import GpmSource
from eroica_hardware.nvml import NvmlSource
from eroica_hardware.options import OPTIONS, Options, resolve
from eroica_otel import identity
from eroica_otel.config import HARDWARE_DIRECTORY, WorkerConfig
from eroica_otel.hardware.interfaces import InterfaceSource
from eroica_otel.hardware.pcie import PcieSource
from eroica_otel.hardware.rdma import COUNTERS, HW_COUNTERS, RdmaSource, RdmaStateSource
from eroica_otel.hardware.source import Source
from factories_hardware import Tree
from factories_nvml import Gpu, Recorded
from manifests import FOLDER, NODE, POD, ROOT, containers, documents, environment, pod, ports, validate

AGENTS = (("daemonset", "agent"), ("sidecar", "hardware"))
RDMA_DATA = ("port_xmit_data", "port_rcv_data", "port_xmit_packets", "port_rcv_packets")
OURS = (*AGENTS, ("daemonset", "folder"))


def agent(file: str, name: str) -> Options:
    """Return what the agent of a manifest would do."""
    return resolve(Namespace(**dict.fromkeys(OPTIONS)), environment(containers(pod(file))[name]))


def changed(name: str, *path: str | int, key: str, value: Any) -> dict[str, Any]:
    """Return a copy of a document in which one value is another."""
    given = copy.deepcopy(documents()[name])
    place: Any = given
    for step in path:
        place = place[step]
    place[key] = value
    return given


@pytest.mark.parametrize("name", documents())
def test_a_manifest_is_valid(name: str) -> None:
    validate(documents()[name])


AGENT_OF_DAEMONSET = ("spec", "template", "spec", "containers", 0)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (
            changed("daemonset DaemonSet eroica-hardware", *AGENT_OF_DAEMONSET, key="volumeMount", value=[]),
            "volumeMount",
        ),
        (changed("daemonset DaemonSet eroica-hardware", *AGENT_OF_DAEMONSET, key="command", value="x"), "command"),
        (changed("sidecar Pod training", "spec", "volumes", 0, key="name", value=None), "name"),
        (changed("networkpolicy NetworkPolicy eroica-hardware", "spec", key="egress", value={}), "egress"),
        (
            changed("podmonitor PodMonitor eroica-workers", "spec", "podMetricsEndpoints", 0, key="port", value=1),
            "port",
        ),
        (
            changed("podmonitor PodMonitor eroica-workers", "spec", "podMetricsEndpoints", 0, key="ports", value="x"),
            "ports",
        ),
    ],
)
def test_the_schemas_would_tell_a_mistake(given: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        validate(given)


@pytest.mark.parametrize(("file", "name"), OURS)
def test_a_container_of_ours_may_do_no_more_than_it_has_to(file: str, name: str) -> None:
    given = pod(file)
    container = containers(given)[name]
    may = given["spec"].get("securityContext", {}) | container["securityContext"]
    assert not may.get("privileged", False)
    assert may["allowPrivilegeEscalation"] is False
    assert may["readOnlyRootFilesystem"] is True
    assert may["seccompProfile"] == {"type": "RuntimeDefault"}
    assert may["capabilities"]["drop"] == ["ALL"]
    # Root only where a folder is handed over, with the one capability for it.
    root = name == "folder"
    assert (may["runAsNonRoot"], may["runAsUser"]) == ((False, 0) if root else (True, 65532))
    assert may["capabilities"].get("add", []) == (["CHOWN"] if root else [])
    assert {"cpu", "memory"} <= container["resources"]["limits"].keys() & container["resources"]["requests"].keys()


@pytest.mark.parametrize("file", ["daemonset", "sidecar"])
def test_a_pod_shares_nothing_of_the_host_but_the_folder(file: str) -> None:
    spec = pod(file)["spec"]
    assert not {"hostPID", "hostNetwork", "hostIPC", "shareProcessNamespace"} & spec.keys()
    (volume,) = spec["volumes"]
    assert volume.keys() == {"name", "hostPath" if file == "daemonset" else "emptyDir"}
    assert all(
        [mount["name"] for mount in each["volumeMounts"]] == [volume["name"]] for each in containers(pod(file)).values()
    )


def test_the_daemonset_speaks_to_nobody_and_runs_on_gpu_nodes() -> None:
    spec = pod("daemonset")["spec"]
    assert spec["automountServiceAccountToken"] is False
    assert spec["nodeSelector"] == {"nvidia.com/gpu.present": "true"}
    assert spec["tolerations"] == [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]


def test_agent_and_workers_of_a_node_meet_in_the_default_folder() -> None:
    spec = pod("daemonset")["spec"]
    assert agent("daemonset", "agent").folder.as_posix() == HARDWARE_DIRECTORY
    assert spec["volumes"][0]["hostPath"] == {"path": HARDWARE_DIRECTORY, "type": "DirectoryOrCreate"}
    for container in containers(pod("daemonset")).values():
        assert [mount["mountPath"] for mount in container["volumeMounts"]] == [HARDWARE_DIRECTORY]
    may = spec["securityContext"]
    handed = f"{may['runAsUser']}:{may['runAsGroup']}"
    assert containers(pod("daemonset"))["folder"]["command"] == ["chown", handed, HARDWARE_DIRECTORY]


def test_agent_and_worker_of_a_pod_meet_in_a_folder_that_the_agent_makes() -> None:
    both = containers(pod("sidecar"))
    config = WorkerConfig.from_env(environment(both["train"]))
    folder = agent("sidecar", "hardware").folder
    assert config.hardware_dir == folder.as_posix()
    # The volume is root's and open to all: the agent makes a folder of its own in it, the training may only read.
    for name, reads in (("hardware", False), ("train", True)):
        (mount,) = both[name]["volumeMounts"]
        assert mount["mountPath"] == folder.parent.as_posix()
        assert mount.get("readOnly", False) is reads
    (beside,) = pod("sidecar")["spec"]["initContainers"]
    assert beside["restartPolicy"] == "Always"
    assert "livenessProbe" not in beside


def test_the_rings_of_a_large_node_have_room_in_the_volume_and_in_the_agents_memory(tmp_path: Path) -> None:
    """8 GPUs, 16 ports and, on the network of the host, 32 interfaces; while a ring is made anew it is there twice."""
    gpus = [Gpu("h200", f"GPU-{number}") for number in range(8)]
    for gpu in gpus:
        gpu.fields = {197: 0, 198: 0, 138: 0, 139: 0}
    nvml = Recorded(*gpus)
    nvml.gpm = dict.fromkeys(range(1, 80), 50.0)
    tree = Tree(tmp_path)
    counted = {f"counters/{name}": 0 for name in (*RDMA_DATA, *COUNTERS)}
    counted |= {f"hw_counters/{name}": 0 for name in HW_COUNTERS}
    for number in range(16):
        tree.port(f"mlx5_{number}", files=counted)
    for number in range(32):
        tree.interface(f"eth{number}")
        tree.pci(f"0000:{number:02x}:00.0")
    sources: tuple[Source, ...] = (
        *(NvmlSource(nvml, quick=quick) for quick in (True, False)),
        GpmSource(nvml),
        RdmaSource(tree.sys),
        RdmaStateSource(tree.sys),
        InterfaceSource(sys=tree.sys),
        PcieSource(tree.sys),
    )
    rows = [check.look(source.family, source, lambda _: None) for source in sources]
    assert all(row.resources > 30 for row in rows)
    sizes = [check.ring_bytes(row) for row in rows]
    room = 256 << 20
    assert sum(sizes) + max(sizes) < room
    assert pod("sidecar")["spec"]["volumes"] == [
        {"name": "hardware", "emptyDir": {"medium": "Memory", "sizeLimit": "256Mi"}}
    ]
    for file, name in AGENTS:
        assert containers(pod(file))[name]["resources"]["limits"]["memory"] == "512Mi"


def test_the_worker_of_the_pod_takes_its_options_and_the_name_of_the_node() -> None:
    given = environment(containers(pod("sidecar"))["train"])
    config = WorkerConfig.from_env(given)
    assert config.problems == ()
    assert config.pull == "node"
    assert identity.resolve(config, given, ["train.py"]).host == NODE
    assert identity.pod_of(given) == POD


@pytest.mark.parametrize(("file", "name"), AGENTS)
def test_the_agent_takes_its_options_and_the_name_of_the_node(file: str, name: str) -> None:
    options = agent(file, name)
    assert options.host == NODE
    assert ("net" in options.sources) is (file == "sidecar")
    assert {"nvml", "gpm", "rdma", "pcie", "pressure", "disk"} <= set(options.sources)
    assert options.address is not None
    assert ("eroica-hw", options.address.port) in ports(pod(file))


@pytest.mark.parametrize(("file", "name"), AGENTS)
def test_probes_ask_what_needs_no_password(file: str, name: str) -> None:
    container = containers(pod(file))[name]
    probes = [probe for key, probe in container.items() if key.endswith("Probe")]
    assert probes
    assert all(probe["httpGet"] == {"path": "/-/healthy", "port": "eroica-hw"} for probe in probes)


def test_what_is_scraped_is_there() -> None:
    pods = [pod("daemonset"), pod("sidecar")]
    asked = []
    for name, given in documents().items():
        if given["kind"] != "PodMonitor":
            continue
        wanted = given["spec"]["selector"]["matchLabels"]
        chosen = [each for each in pods if wanted.items() <= each["metadata"]["labels"].items()]
        (endpoint,) = given["spec"]["podMetricsEndpoints"]
        assert chosen, name
        assert all(endpoint["port"] in dict(ports(each)) for each in chosen)
        asked.append((endpoint["port"], len(chosen)))
    assert sorted(asked) == [("eroica", 1), ("eroica-hw", 2)]
    assert dict(ports(pod("sidecar")))["eroica"] == 9464


def test_only_the_daemonsets_pods_are_shut_off() -> None:
    policy = documents()["networkpolicy NetworkPolicy eroica-hardware"]["spec"]
    wanted = policy["podSelector"]["matchLabels"]
    assert wanted.items() <= pod("daemonset")["metadata"]["labels"].items()
    assert not wanted.items() <= pod("sidecar")["metadata"]["labels"].items()
    daemonset = documents()["daemonset DaemonSet eroica-hardware"]
    assert daemonset["spec"]["selector"]["matchLabels"] == wanted
    assert daemonset["metadata"]["namespace"] == "monitoring"
    assert [rule["port"] for rule in policy["ingress"][0]["ports"]] == ["eroica-hw"]


def test_what_is_run_is_a_command_of_ours_in_the_image_of_this_version() -> None:
    (section,) = re.findall(r"\[project\.scripts\]\n(.+?)\n\n", (ROOT / "pyproject.toml").read_text(), re.DOTALL)
    scripts = {line.partition(" = ")[0] for line in section.splitlines()}
    image = f"registry.example.com/eroica-hardware:{eroica_otel.__version__}"
    for file, name in OURS:
        container = containers(pod(file))[name]
        assert container["image"] == image
        assert container["command"][0] in ({"chown"} if name == "folder" else scripts)
    assert containers(pod("sidecar"))["train"]["command"][0] in scripts


def test_the_page_says_of_each_source_what_it_reads_and_what_it_needs() -> None:
    page = (ROOT / "docs" / "hardware.md").read_text("utf-8")
    for title in ("What the agent samples", "What it needs"):
        section = page.partition(f"## {title}\n")[2].partition("\n## ")[0]
        named = [
            name for row in re.findall(r"^\| (`.+?) \|", section, re.MULTILINE) for name in re.findall(r"`(\w+)`", row)
        ]
        assert len(named) == len(set(named)), title
        assert set(FAMILIES) <= set(named), title


def test_the_image_holds_the_agent_and_no_root() -> None:
    lines = (FOLDER / "Dockerfile").read_text("utf-8")
    (wheel,) = set(re.findall(r"eroica_otel-[^\s\"]+\.whl", lines.replace("eroica_otel-*.whl", "")))
    assert wheel == f"eroica_otel-{eroica_otel.__version__}-py3-none-any.whl"
    assert f'{wheel}[hardware]"' in lines
    assert "USER 65532:65532\nENTRYPOINT" in lines
    assert 'ENTRYPOINT ["eroica-hardware"]' in lines
    assert f"eroica-hardware:{eroica_otel.__version__} ." in lines
