"""Agreement over two nodes with two ranks each: network namespaces, one torchrun on each, the job's own store.

The job begins on one node; the other joins with a rank that learns late, loses its cable for a while, sees rank 0 die
with the store, leaves and comes back.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator

import pytest

from clusters import JOB, PATIENCE_SECONDS, RANKS, Cluster, anew, asked_for, same_window
from eroica_otel.commands.window import request
from eroica_otel.demo.nodes import nodes
from eroica_otel.status import Status
from jobs import wait_until


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("nodes")
    with nodes(2, folder) as places:
        running = Cluster(places, folder)
        running.start(places[0])
        yield running


def one_learns_late(workers: list[Status]) -> bool:
    """Whether all ranks but the last one know their loop, and have for long enough to want the reference window."""
    *others, late = workers
    return {one.state for one in others} == {"healthy"} and late.state != "healthy" and late.iterations > 100


def test_ranks_of_two_nodes_wait_for_one_that_learns_late_and_take_the_same_reference_window(cluster: Cluster) -> None:
    cluster.until(lambda alone: all(worker.iterations > 20 for worker in alone), "one node to train", ranks=2)
    alone = cluster.workers()
    assert {worker.identity.world_size for worker in alone} == {2}
    cluster.irregular.write_text("3")
    cluster.start(cluster.nodes[1])
    cluster.until(one_learns_late, "three ranks of two nodes to want a window that the fourth cannot take")
    assert {worker.window_id for worker in cluster.workers()} == {0}
    cluster.irregular.unlink()
    cluster.until(same_window, "the reference window")
    workers = cluster.workers()
    assert not {worker.pid for worker in alone} & {worker.pid for worker in workers}
    assert {worker.identity.world_size for worker in workers} == {RANKS}
    assert [worker.identity.host for worker in workers] == ["node-0", "node-0", "node-1", "node-1"]
    assert [worker.identity.local_rank for worker in workers] == [0, 1, 0, 1]


def test_a_window_asked_for_on_one_node_is_taken_on_both(cluster: Cluster) -> None:
    asked_for(cluster, cluster.nodes[1])


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
    before = cluster.workers()
    os.kill(before[0].pid, signal.SIGKILL)
    workers = anew(cluster, before, "the reference window of the restarted run")
    assert max(worker.identity.restart for worker in workers) >= 1  # the launchers of two nodes may count differently


@pytest.mark.long
def test_a_node_that_leaves_and_one_that_comes_back_each_begin_anew(cluster: Cluster) -> None:
    before = cluster.workers()
    cluster.leave(cluster.nodes[1])
    alone = anew(cluster, before, "the reference window of the node that is left", RANKS // 2)
    assert {worker.identity.host for worker in alone} == {"node-0"}
    alone = asked_for(cluster, cluster.nodes[0])
    cluster.start(cluster.nodes[1])
    both = anew(cluster, alone, "the reference window of both nodes")
    assert {worker.identity.host for worker in both} == {"node-0", "node-1"}
    asked_for(cluster, cluster.nodes[1])


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
