"""Agreement over two nodes with two ranks each: network namespaces, one torchrun on each, the job's own store.

The job begins on one node; the other joins, loses its cable for a while, and sees rank 0 die with the store.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator

import pytest

from clusters import JOB, PATIENCE_SECONDS, RANKS, Cluster, same_window
from eroica_otel.commands.window import request
from eroica_otel.demo.nodes import nodes
from jobs import wait_until


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("nodes")
    with nodes(2, folder) as places:
        running = Cluster(places, folder)
        running.start(places[0])
        yield running


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
