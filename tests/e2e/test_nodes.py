"""Agreement over two nodes with two ranks each: network namespaces, one torchrun on each, the job's own store."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from eroica_otel.commands.window import request
from eroica_otel.demo.nodes import Node, nodes
from eroica_otel.demo.stage import free_port
from eroica_otel.status import Status, live_workers
from jobs import wait_until

JOB = "cluster"
RANKS = 4
PATIENCE_SECONDS = 120.0
SCRIPT = Path(__file__).with_name("cluster.py")


class Cluster:
    """A training over two nodes."""

    def __init__(self, places: list[Node], folder: Path) -> None:
        self.nodes = places
        self.stop = folder / "stop"
        self.log = folder / "log"
        self._port = free_port()

    def start(self) -> None:
        """Start the training's launcher on every node."""
        meeting = ["--rdzv-backend", "c10d", "--rdzv-endpoint", f"{self.nodes[0].address}:{self._port}"]
        for node in self.nodes:
            launcher = ["-m", "torch.distributed.run", "--nnodes", str(len(self.nodes)), "--nproc-per-node", "2"]
            options = ["--rdzv-id", JOB, *meeting, "--max-restarts", "20", "--local-addr", node.address]
            node.start(
                [sys.executable, *launcher, *options, str(SCRIPT), "--stop", str(self.stop)],
                {
                    "EROICA_TRAINING_JOB": JOB,
                    "EROICA_WINDOW_SECONDS": "2",
                    "EROICA_RECENT_ITERATIONS": "20",
                    "OTEL_METRICS_EXPORTER": "none",
                    "OMP_NUM_THREADS": "1",
                    "PYTHONUNBUFFERED": "1",
                    # Else torch puts what a restarted rank needs beside what the ranks of the earlier attempt left.
                    "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
                },
                self.log,
            )

    def workers(self) -> list[Status]:
        """Return what the ranks say of themselves, by rank."""
        found = [status for node in self.nodes for _, status in live_workers(node.folder)]
        return sorted(found, key=lambda status: status.identity.rank)

    def until(self, reached: Callable[[list[Status]], bool], what: str) -> None:
        """Wait until all ranks are there and ``reached``."""
        try:
            wait_until(lambda: len(workers := self.workers()) == RANKS and reached(workers), what, PATIENCE_SECONDS)
        except AssertionError as error:
            said = "\n".join(self.log.read_text(errors="replace").splitlines()[-60:])
            known = "\n".join(str(worker) for worker in self.workers())
            raise AssertionError(f"{error}\n{known}\n{said}") from None


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("nodes")
    with nodes(2, folder) as places:
        running = Cluster(places, folder)
        running.start()
        yield running


def captured(workers: list[Status], reason: str) -> set[tuple[int, int]]:
    """Return (window, how many of that reason were captured) of all ranks; one item when they agree."""
    return {(worker.window_id, worker.windows.get(f"{reason} skipped", 0)) for worker in workers}


def test_ranks_of_two_nodes_take_the_same_reference_window(cluster: Cluster) -> None:
    cluster.until(lambda workers: all(worker.window_id for worker in workers), "the reference window")
    workers = cluster.workers()
    assert {worker.window_id for worker in workers} == {workers[0].window_id}
    assert [worker.identity.host for worker in workers] == ["node-0", "node-0", "node-1", "node-1"]
    assert [worker.identity.local_rank for worker in workers] == [0, 1, 0, 1]
    assert sum(dict(worker.windows).get("reference skipped", 0) for worker in workers) == 0


def test_a_window_asked_for_on_one_node_is_taken_on_both(cluster: Cluster) -> None:
    before = cluster.workers()[0].window_id
    request(cluster.nodes[1].folder, JOB)
    cluster.until(lambda workers: all(worker.window_id > before for worker in workers), "the window that was asked for")
    assert len({worker.window_id for worker in cluster.workers()}) == 1


def test_after_the_cable_was_out_training_goes_on_and_so_do_windows(cluster: Cluster) -> None:
    before = cluster.workers()
    cluster.nodes[1].cut()
    stuck = [0, 0]

    def stands_still() -> bool:
        seen = [worker.iterations for worker in cluster.workers()]
        stuck.append(sum(seen))
        return stuck[-1] == stuck[-10 if len(stuck) > 10 else 0]

    wait_until(stands_still, "the collectives to stand still", PATIENCE_SECONDS)
    cluster.nodes[1].mend()
    at = max(worker.iterations for worker in before)
    cluster.until(lambda workers: min(w.iterations for w in workers) > at + 40, "training to go on")
    request(cluster.nodes[0].folder, JOB)
    window = max(worker.window_id for worker in before)
    cluster.until(lambda workers: all(worker.window_id > window for worker in workers), "a window after the cut")
    assert len({worker.window_id for worker in cluster.workers()}) == 1


def test_after_an_elastic_restart_the_windows_of_the_earlier_run_mean_nothing(cluster: Cluster) -> None:
    old = {worker.pid for worker in cluster.workers()}
    os.kill(cluster.workers()[3].pid, signal.SIGKILL)
    cluster.until(
        lambda workers: not old & {worker.pid for worker in workers} and all(worker.window_id for worker in workers),
        "the reference window of the restarted run",
    )
    workers = cluster.workers()
    assert max(worker.identity.restart for worker in workers) >= 1  # the launchers of two nodes may count differently
    assert len({worker.window_id for worker in workers}) == 1
    assert sum(sum(count for what, count in w.windows.items() if "skipped" in what) for w in workers) == 0


def test_a_job_that_ends_leaves_nothing_in_the_folders(cluster: Cluster) -> None:
    cluster.stop.write_text(str(max(worker.iterations for worker in cluster.workers()) + 20))
    wait_until(
        lambda: all(process.poll() == 0 for node in cluster.nodes for process in node.processes),
        f"the launchers to end; see {cluster.log}",
        PATIENCE_SECONDS,
    )
    wait_until(lambda: not any(list(node.folder.iterdir()) for node in cluster.nodes), "the helpers to clean up")
    here = subprocess.run(["pgrep", "-f", str(cluster.log.parent)], capture_output=True, check=False)
    assert here.stdout == b""
