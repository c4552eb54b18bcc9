"""Agreement over two nodes with two ranks each: network namespaces, one torchrun on each, the job's own store.

The job begins on one node; the other joins, loses its cable for a while, and sees rank 0 die with the store.
"""

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
PATIENCE_SECONDS = 180.0
SCRIPT = Path(__file__).with_name("cluster.py")


class Cluster:
    """A training over two nodes."""

    def __init__(self, places: list[Node], folder: Path) -> None:
        self.nodes = places
        self.stop = folder / "stop"
        self.log = folder / "log"
        self._port = free_port()

    def start(self, node: Node) -> None:
        """Start the launcher on a node; the job begins when one node is there, and takes others in."""
        meeting = ["--rdzv-backend", "c10d", "--rdzv-endpoint", f"{self.nodes[0].address}:{self._port}"]
        meeting += ["--rdzv-id", JOB, "--rdzv-conf", "last_call_timeout=5", "--local-addr", node.address]
        launcher = ["-m", "torch.distributed.run", "--nnodes", f"1:{len(self.nodes)}", "--nproc-per-node", "2"]
        node.start(
            [sys.executable, *launcher, *meeting, "--max-restarts", "20", str(SCRIPT), "--stop", str(self.stop)],
            {
                "EROICA_TRAINING_JOB": JOB,
                "EROICA_WINDOW_SECONDS": "2",
                "EROICA_RECENT_ITERATIONS": "20",
                "OTEL_METRICS_EXPORTER": "none",
                "OMP_NUM_THREADS": "1",
                "PYTHONUNBUFFERED": "1",
                # Else torch puts what a restarted rank needs beside what the ranks of the earlier attempt left: the
                # store is rank 0's, and new with each attempt.
                "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
            },
            self.log,
        )

    def workers(self) -> list[Status]:
        """Return what the ranks say of themselves, by rank."""
        found = [status for node in self.nodes for _, status in live_workers(node.folder)]
        return sorted(found, key=lambda status: status.identity.rank)

    def until(self, reached: Callable[[list[Status]], bool], what: str, ranks: int = RANKS) -> None:
        """Wait until all ranks are there and ``reached``."""
        try:
            wait_until(lambda: len(workers := self.workers()) == ranks and reached(workers), what, PATIENCE_SECONDS)
        except AssertionError as error:
            said = "\n".join(self.log.read_text(errors="replace").splitlines()[-60:])
            known = "\n".join(str(worker) for worker in self.workers())
            raise AssertionError(f"{error}\n{known}\n{said}") from None


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("nodes")
    with nodes(2, folder) as places:
        running = Cluster(places, folder)
        running.start(places[0])
        yield running


def same_window(workers: list[Status], after: int = 0) -> bool:
    """Return whether all ranks have captured one window as their latest, newer than ``after``.

    A rank that was late for one, on a busy machine, brings another.
    """
    return len({worker.window_id for worker in workers}) == 1 and workers[0].window_id > after


def test_ranks_of_two_nodes_take_the_same_reference_window_after_the_second_has_joined(cluster: Cluster) -> None:
    cluster.until(lambda alone: all(worker.iterations > 20 for worker in alone), "one node to train", ranks=2)
    alone = cluster.workers()
    assert {worker.identity.world_size for worker in alone} == {2}
    cluster.start(cluster.nodes[1])
    cluster.until(same_window, "the reference window")
    workers = cluster.workers()
    assert not {worker.pid for worker in alone} & {worker.pid for worker in workers}
    assert {worker.identity.world_size for worker in workers} == {RANKS}
    assert [worker.identity.host for worker in workers] == ["node-0", "node-0", "node-1", "node-1"]
    assert [worker.identity.local_rank for worker in workers] == [0, 1, 0, 1]


def test_a_window_asked_for_on_one_node_is_taken_on_both(cluster: Cluster) -> None:
    before = cluster.workers()[0].window_id
    request(cluster.nodes[1].folder, JOB)
    cluster.until(lambda workers: same_window(workers, before), "the window that was asked for")


def test_while_the_cable_is_out_both_sides_say_so_and_after_it_training_goes_on_and_so_do_windows(
    cluster: Cluster,
) -> None:
    before = cluster.workers()
    cluster.nodes[1].cut()
    cluster.until(lambda workers: {worker.state for worker in workers} == {"blocked"}, "both sides to say blocked")
    workers = cluster.workers()
    # The store is rank 0's: its own node hears it answer, the other has not for as long as the cable is out.
    assert [worker.store_silent_seconds < 5 for worker in workers] == [True, True, False, False]
    assert all("no event for" in worker.activity for worker in workers)
    cluster.nodes[1].mend()
    at = max(worker.iterations for worker in before)
    cluster.until(lambda workers: min(w.iterations for w in workers) > at + 40, "training to go on")
    request(cluster.nodes[0].folder, JOB)
    window = max(worker.window_id for worker in before)
    cluster.until(lambda workers: same_window(workers, window), "a window after the cut")


def test_a_dead_rank_0_takes_the_store_along_and_the_restarted_run_agrees_anew(cluster: Cluster) -> None:
    old, last = {worker.pid for worker in cluster.workers()}, cluster.workers()[0].window_id
    os.kill(cluster.workers()[0].pid, signal.SIGKILL)
    cluster.until(
        lambda workers: not old & {worker.pid for worker in workers} and same_window(workers),
        "the reference window of the restarted run",
    )
    workers = cluster.workers()
    assert max(worker.identity.restart for worker in workers) >= 1  # the launchers of two nodes may count differently
    assert workers[0].window_id > last


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
