"""Every PromQL example of docs/hardware.md and docs/runbook.md in a real Prometheus, on pages of other exporters.

The job llm-7b has ranks 0 and 1 on host-0 and 2 and 3 on host-1; rank 2 is the culprit. vit has one rank on each node,
talks by Ethernet and knows nothing of its GPUs. Both nodes serve the same recorded pages, changed where it is said.
"""

from __future__ import annotations

import math
import re
import urllib.parse
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from backfill import END, Page, backfill, page_of
from eroica_otel import names
from eroica_otel.model import Identity
from eroica_otel.publish.series import JobStatus, OpenFinding, job_points
from factories_agent import worked_page
from factories_central import finding, identity, report, status_points
from factories_nvml import Gpu
from servers import Server, prometheus

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests" / "golden"
PAGES = (ROOT / "docs" / "hardware.md", ROOT / "docs" / "runbook.md")
DCGM_UUID = "GPU-604ac76c-d9cf-fef3-62e9-d92044ab6e52"
SMI_UUID = "GPU-df6e7a7c-7314-46f8-abc4-b88b36dcf3aa"
UUIDS = ("GPU-0", "GPU-1", DCGM_UUID, SMI_UUID)
SLOTS = ("0000:01:00.0", "0000:45:00.0")
CORE = 'node_cpu_core_throttles_total{core="1",package="1"}'
SENT = 'node_infiniband_port_data_transmitted_bytes_total{device="mlx4_0",port="1"}'
DISCARDED = 'node_infiniband_port_discards_transmitted_total{device="mlx4_0",port="1"}'
OVERLIMITS = 'node_qdisc_overlimits_total{device="eth0",kind="pfifo_fast"}'
SPEED = 'node_network_speed_bytes{device="eth0"}'
TRANSFERS = 'node_pcidevice_current_link_transfers_per_second{bus="01",device="00",function="0",segment="0000"}'
UNCORRECTED = f'hw_errors_total{{error_type="uncorrected",host="host-1",hw_id="{DCGM_UUID}",hw_type="gpu"}}'

Answer = dict[tuple[str, str], float]


def llm(**values: float) -> Answer:
    """Return an answer about ranks of llm-7b: r0=..., r1=..."""
    return {("llm-7b", rank[1:]): value for rank, value in values.items()}


def vit(**values: float) -> Answer:
    return {("vit", rank[1:]): value for rank, value in values.items()}


ANSWERS: dict[str, Answer] = {
    # The page of dcgm-exporter says 139 MHz; the other three GPUs were given 1980, which is the median of the four.
    "At which clock, in MHz, does the GPU of each rank run?": llm(r0=1980, r1=1980, r2=139, r3=1980),
    "Only the culprit's GPU.": llm(r2=139),
    "Whose GPU runs at less than 0.9 of the median clock of its job, and at which share of it?": llm(r2=139 / 1980),
    # The page has DCGM's word for "not supported"; rank 1's GPU was given 41 °C.
    "How warm, in °C, is the memory of each rank's GPU, where DCGM can read it?": llm(r1=41),
    "Whose GPU is held back by its power limit?": llm(r3=1),
    # Only rank 2's page names a pod. The rank is no label of this answer.
    "Which pods' GPUs belong to the job of the culprit, where workers know no UUID?": {("llm-7b", ""): 139},
    # Port 1 of mlx4_0 can 5e9 B/s; host-0 was given 4.5e9, host-1 1.25e9.
    "How much of its card's rate does each rank's node send?": llm(r0=0.9, r1=0.9, r2=0.25, r3=0.25),
    "Whose card discards packets, and how many a second?": llm(r2=2, r3=2),
    # The page says 1.25e8 B/s; host-0 was given ten times that.
    "Whose interface came up slower than the fastest of its job, and at which share of it?": vit(r1=0.1),
    "On whose interface is traffic shaped or policed?": vit(r1=100),
    "On whose node do cores throttle for heat, and how often a second?": llm(r2=0.5, r3=0.5) | vit(r1=0.5),
    "For which share of the time does a process on the culprit's node wait for a core?": llm(r2=0.4),
    # 01:00.0 runs at 8e9 of 1.6e10 transfers a second, all 4 lanes of 4; on host-0 it was given all of them.
    "Whose GPU is linked by less than its slot could? 0.5 = half the bandwidth.": llm(r2=0.5),
    "The same question about cores, with addresses as instances.": llm(r2=0.25, r3=0.25) | vit(r1=0.25),
    # The H200 was made to throttle for heat all the time, the H100 is held by its power limit, which is not asked for.
    "For which share of the last 10 s did heat or the power supply slow the GPU of each rank?": llm(r2=1),
    # As the two GPUs said under load.
    "How many watts does the GPU of each rank draw?": llm(r2=625.24, r3=588.39),
    "How warm, in °C, is the culprit's GPU?": llm(r2=52),
    # 0.01 a second, for the 600 s of which there are samples.
    "Whose GPU found errors in its memory that it could not correct, and how many in an hour?": llm(r2=6),
    # The H100 has rows that wait to be remapped.
    "Whose GPU is lost, or about to fail (rows of its memory wait to be replaced)?": llm(r3=1),
    # 10 GB/s over 18 links of 26.562 GB/s; 1.25 GB/s over a port of 100 Gbit/s.
    "How much of its NVLinks does the GPU of each rank use to send?": llm(r2=10 / (18 * 26.562), r3=0),
    "How much of its adapter does each rank's node use to send?": llm(r2=0.1, r3=0.1),
    "Which GPU, pod and node does the culprit of a hardware fault run on?": llm(r2=1),
    "Which ranks run on a node without an agent?": llm(r0=1, r1=1) | vit(r0=1),
}


def questions() -> list[tuple[str, str]]:
    """Return the examples of the documents as (question, query); the question is the first line, a comment."""
    blocks = [
        block for page in PAGES for block in re.findall(r"```promql\n(.*?)```", page.read_text("utf-8"), re.DOTALL)
    ]
    found = [re.match(r"# (.+?)(?: \([^()]*\))?\n(.*)", block, re.DOTALL) for block in blocks]
    assert all(found), "an example begins with its question, as a comment"
    return [(match[1], match[2]) for match in found if match is not None]


def worker(who: Identity, **device: str) -> Page:
    """Return the page of a worker that knows this of its devices."""
    points = [
        point._replace(labels={**point.labels, **device}) if point.name == names.WORKER_INFO.name else point
        for point in status_points(who)
    ]
    return Page(page_of(points), {"job": "training", "instance": f"{who.host}:{9464 + who.local_rank}"})


def workers() -> Iterator[Page]:
    for rank, uuid in enumerate(UUIDS):
        who = identity(rank)
        yield worker(who, gpu_uuid=uuid, pci_bus_id=SLOTS[rank % 2], nic="mlx4_0", k8s_pod=f"llm-7b-{rank}")
    for rank in range(2):
        who = replace(identity(rank, training_job="vit", world_size=2, host=f"host-{rank}"), local_rank=2)
        yield worker(who, nic="eth0")


def localizer() -> Page:
    found = finding(ranks=(2,), hosts=("host-1",), cause="gpu_throttled", domain="hardware")
    opened = OpenFinding(found, 1, "degraded", (identity(2),), 3, "other")
    points = job_points(JobStatus("llm-7b", "vision", 4, (opened,), report()))
    return Page(page_of(points), {"job": "eroica", "instance": "localizer:9465"})


def dcgm() -> Iterator[Page]:
    """Yield the page of dcgm-exporter's README for each GPU, with the UUID of that GPU."""
    text = (GOLDEN / "dcgm" / "README-k8s-output.prom").read_text()
    for rank, uuid in enumerate(UUIDS):
        target = {"job": "dcgm", "instance": f"host-{rank // 2}:9400", "pod": f"dcgm-exporter-{rank // 2}"}
        own = text.replace(DCGM_UUID, uuid).replace('pod=""', 'pod="llm-7b-2"' if rank == 2 else 'pod=""')
        changed = {"SM_CLOCK": 1980.0, "MEMORY_TEMP": 41.0} if rank == 1 else {"SM_CLOCK": 1980.0}
        yield Page(own, target, {} if rank == 2 else dict(_series(own, changed)))


def _series(text: str, wanted: dict[str, float]) -> Iterator[tuple[str, float]]:
    for line in text.splitlines():
        for name, value in wanted.items():
            if line.startswith(f"DCGM_FI_DEV_{name}{{"):
                yield line.rsplit(" ", 1)[0], value


def nodes() -> Iterator[Page]:
    """Yield the page of node_exporter's own tests for both nodes, and for host-1 by its address once more."""
    text = (GOLDEN / "node_exporter" / "e2e-output.prom").read_text()
    waiting = "node_pressure_cpu_waiting_seconds_total"
    yield Page(
        text,
        {"job": "node", "instance": "host-0:9100"},
        {SPEED: 1.25e9, TRANSFERS: 1.6e10},
        {SENT: 4.5e9, waiting: 0.01},
    )
    yield Page(
        text,
        {"job": "node", "instance": "host-1:9100"},
        growth={SENT: 1.25e9, waiting: 0.4, DISCARDED: 2.0, OVERLIMITS: 100.0, CORE: 0.5},
    )
    # The collector uname is not on the recorded page, because it tells of the machine that it was recorded on.
    named = text + 'node_uname_info{nodename="host-1",sysname="Linux"} 1\n'
    yield Page(named, {"job": "address", "instance": "10.0.0.2:9100"}, growth={CORE: 0.25})


def smi() -> Page:
    text = (GOLDEN / "nvidia_gpu_exporter" / "METRICS.prom").read_text()
    return Page(text, {"job": "smi", "instance": "host-1:9835"})


def agent(folder: Path) -> Page:
    """Return the page of the agent on host-1 after 12 s, with two recorded GPUs and a port."""
    hot, other = Gpu("h200", DCGM_UUID), Gpu("h100", SMI_UUID)
    hot.said["Clocks Event Reasons", "HW Thermal Slowdown"] = "Active"
    other.said["Clocks Event Reasons", "SW Power Cap"] = "Active"
    other.said["Remapped Rows", "Pending"] = "Yes"
    return Page(
        worked_page(folder, hot, other), {"job": "hardware", "instance": "host-1:9466"}, growth={UNCORRECTED: 0.01}
    )


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("joins")
    backfill(folder, [*workers(), localizer(), *dcgm(), *nodes(), smi(), agent(folder)])
    with prometheus(folder) as running:
        yield running


def ask(server: Server, query: str) -> list[dict[str, Any]]:
    asked = urllib.parse.urlencode({"query": query, "time": END})
    return list(server.get(f"/api/v1/query?{asked}")["data"]["result"])


def test_every_example_has_a_question_and_an_answer() -> None:
    assert sorted(question for question, _ in questions()) == sorted(ANSWERS)


@pytest.mark.parametrize("question", ANSWERS)
def test_an_example_answers_its_question(question: str, server: Server) -> None:
    found = ask(server, dict(questions())[question])
    answer = {(row["metric"]["training_job"], row["metric"].get("rank", "")): float(row["value"][1]) for row in found}
    assert len(answer) == len(found), "one series for each rank"
    assert answer.keys() == ANSWERS[question].keys()
    for key, value in ANSWERS[question].items():
        assert math.isclose(answer[key], value, rel_tol=1e-6), key


def test_the_answers_name_rank_and_device(server: Server) -> None:
    (row,) = ask(server, dict(questions())["Only the culprit's GPU."])
    told = row["metric"]
    assert (told["rank"], told["host"], told["gpu_uuid"], told["pci_bus_id"]) == ("2", "host-1", DCGM_UUID, SLOTS[0])


def test_a_restart_and_two_ranks_on_one_gpu_do_no_harm(tmp_path: Path) -> None:
    again = [worker(identity(2), gpu_uuid=DCGM_UUID, restart=restart) for restart in ("0", "1")]
    beside = worker(identity(3), gpu_uuid=DCGM_UUID)
    backfill(tmp_path, [*again, beside, *dcgm()])
    with prometheus(tmp_path) as running:
        found = ask(running, dict(questions())["At which clock, in MHz, does the GPU of each rank run?"])
    told = sorted((row["metric"]["rank"], row["metric"]["restart"], row["value"][1]) for row in found)
    assert told == [("2", "0", "139"), ("2", "1", "139"), ("3", "0", "139")]
