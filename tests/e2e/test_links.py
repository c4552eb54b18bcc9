"""A limited link, in what workers show: real nodes (namespaces joined by veth), real node agents.

Every node's link carries the same bytes in the same time, so that their mean says nothing; the 90th percentile of the
rate tells which edge of the ring is slow, and needs samples every 2 to 5 ms.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families

from eroica_otel import names
from eroica_otel.commands.window import request
from eroica_otel.demo.nodes import Node, nodes, workers_of
from eroica_otel.model import Point
from eroica_otel.status import Status
from jobs import value, wait_until

JOB = "wired"
NODES = 3
PULL_PORT = 9464
PEAK_MBIT, LIMITED_MBIT = 200, 50
SEPARATED = 0.65
"""What lies below this part of the best is told apart from it."""
PATIENCE_SECONDS = 180.0
SCRIPT = Path(__file__).with_name("wired.py")
Shown = Mapping[int, list[Point]]


class Wired:
    """A training over nodes, each with an agent of its own, and what its workers show."""

    def __init__(self, places: list[Node], folder: Path) -> None:
        self.nodes, self.folder = places, folder
        self.stop = folder / "stop"
        launcher = ["-m", "torch.distributed.run", "--nnodes", str(NODES), "--nproc-per-node", "1"]
        meeting = ["--rdzv-backend", "c10d", "--rdzv-endpoint", f"{places[0].address}:29500", "--rdzv-id", JOB]
        for node in places:
            node.limit(PEAK_MBIT)
            shared = str(node.folder.with_name(f"shared-{node.host}"))
            agent = ["-m", "eroica_hardware", "--dir", shared, "--sources", "net", "--listen", "none"]
            node.start([sys.executable, *agent, "--nic-mbit", str(PEAK_MBIT)], {}, folder / f"agent-{node.host}.log")
            script = [*launcher, *meeting, "--local-addr", node.address, str(SCRIPT), "--stop", str(self.stop)]
            settings = self._environment() | {"EROICA_HARDWARE_DIR": shared}
            node.start([sys.executable, *script], settings, folder / f"{node.host}.log")

    @staticmethod
    def _environment() -> dict[str, str]:
        return {
            "EROICA_TRAINING_JOB": JOB,
            "EROICA_NIC": "eth0",
            "EROICA_NIC_MBIT": str(PEAK_MBIT),
            "EROICA_WINDOW_SECONDS": "5",
            "EROICA_RECENT_ITERATIONS": "10",
            "EROICA_LEARN_REPEATS": "4",
            "EROICA_REFERENCE": "0",
            "EROICA_DEGRADED_RATIO": "10",  # windows are asked for
            "OTEL_METRICS_EXPORTER": "prometheus",
            "OTEL_EXPORTER_PROMETHEUS_HOST": "0.0.0.0",
            "OTEL_EXPORTER_PROMETHEUS_PORT": str(PULL_PORT),
            "OMP_NUM_THREADS": "1",
        }

    def workers(self) -> list[Status]:
        """Return what the ranks say of themselves, by rank."""
        return workers_of(self.nodes)

    def node(self, rank: int) -> Node:
        host = self.workers()[rank].identity.host
        return next(node for node in self.nodes if node.host == host)

    def shown(self) -> Shown:
        """Return what each rank shows, by rank."""
        return {worker.identity.rank: scrape(self.node(worker.identity.rank)) for worker in self.workers()}

    def window(self) -> Shown:
        """Have a window taken and return what the ranks show of it."""
        before = max(value(points, names.WINDOW_ID.name, reason="manual") for points in self.shown().values())
        request(self.nodes[0].folder, JOB)

        def taken() -> bool:
            ids = {value(points, names.WINDOW_ID.name, reason="manual") for points in self.shown().values()}
            return len(ids) == 1 and ids.pop() > before

        self.until(taken, "a window of all ranks")
        return self.shown()

    def until(self, reached: object, what: str) -> None:
        assert callable(reached)
        try:
            wait_until(reached, what, PATIENCE_SECONDS)
        except AssertionError as error:
            logs = "\n".join(path.read_text(errors="replace")[-3000:] for path in sorted(self.folder.glob("*.log")))
            raise AssertionError(f"{error}\n{self.workers()}\n{logs}") from None


def scrape(node: Node) -> list[Point]:
    try:
        with urlopen(f"http://{node.address}:{PULL_PORT}/metrics", timeout=10) as answer:
            text = answer.read().decode()
    except (OSError, URLError):
        return []
    families = text_string_to_metric_families(text)
    return [Point(one.name, one.labels, one.value) for family in families for one in family.samples]


@pytest.fixture(scope="module")
def wired(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wired]:
    folder = tmp_path_factory.mktemp("wired")
    with nodes(NODES, folder) as places:
        running = Wired(places, folder)
        running.until(
            lambda: [worker.state for worker in running.workers()] == ["healthy"] * NODES, "the loop to be learned"
        )
        yield running


def of_collective(shown: Shown, metric: names.Metric, resource: str) -> dict[int, float]:
    """Return the largest value of the all-reduce, by rank."""
    return {
        rank: max(
            point.value
            for point in points
            if (point.name, point.labels.get("resource")) == (metric.name, resource)
            and "all_reduce" in point.labels["function"]
        )
        for rank, points in shown.items()
    }


def low(values: Mapping[int, float]) -> set[int]:
    """Return those whose value lies far below the best."""
    return {one for one, value in values.items() if value < SEPARATED * max(values.values())}


def edges(shown: Shown) -> dict[int, float]:
    """Return how fast each rank sends to the one before it, as a share of the link: of both ends the mean.

    In gloo's ring a rank sends to the one before it.
    """
    sent = of_collective(shown, names.PATTERN_PEAK, "nic_tx")
    received = of_collective(shown, names.PATTERN_PEAK, "nic_rx")
    return {rank: (sent[rank] + received[(rank - 1) % NODES]) / 2 for rank in sent}


def limit(node: Node, megabits: int, sending: bool, receiving: bool) -> None:
    """Limit one direction or both: what the node sends, at its own end of the cable; what it receives, at the other."""
    node.limit(PEAK_MBIT)
    burst = ["burst", "80000", "latency", "100ms"]  # as Node.limit has it
    inside, outside = ["-n", node.namespace, "qdisc", "replace", "dev", "eth0"], ["qdisc", "replace", "dev", node.link]
    for wanted, device in ((sending, inside), (receiving, outside)):
        if wanted:
            command = ["tc", *device, "root", "tbf", "rate", f"{megabits}mbit", *burst]
            subprocess.run(command, check=True, capture_output=True)


def test_links_of_one_speed_are_not_told_apart(wired: Wired) -> None:
    shown = wired.window()
    print(edges(shown), of_collective(shown, names.PATTERN_MU, "nic"))
    assert low(edges(shown)) == set()
    assert {value(points, names.RESOURCE_MISSING.name, resource="nic") for points in shown.values()} == {0}
    assert {value(points, names.FAILURES.name, stage="agent") for points in shown.values()} == {0}


@pytest.mark.parametrize(
    ("sending", "receiving"), [(True, True), (True, False), (False, True)], ids=["both", "sent", "received"]
)
def test_the_90th_percentile_tells_a_limited_link_and_the_mean_does_not(
    sending: bool, receiving: bool, wired: Wired
) -> None:
    slow = 1
    node = wired.node(slow)
    limit(node, LIMITED_MBIT, sending, receiving)
    try:
        shown = wired.window()
    finally:
        node.limit(PEAK_MBIT)
    print(edges(shown), of_collective(shown, names.PATTERN_MU, "nic"))
    # Its own edge, and that of the rank that sends to it.
    assert low(edges(shown)) == ({slow} if sending else set()) | ({(slow + 1) % NODES} if receiving else set())
    # The mean may differ on a busy machine, but not by the limit.
    assert slow not in low(of_collective(shown, names.PATTERN_MU, "nic"))
