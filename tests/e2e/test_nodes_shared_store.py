"""Two nodes whose ranks meet in the launchers' own store, as torchrun has it by default: it outlives every restart.

So what an earlier attempt has left there (addresses of its ranks, standings, windows that were agreed on) is there when
the next one begins. A rank dies and a node leaves; none comes back, because torch 2.13 itself cannot take it in: its
launcher waits for the address of that store, which was told in the first round. In test_nodes.py, where the store is
rank 0's, one does.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from clusters import RANKS, Cluster, anew, asked_for, same_window
from eroica_otel.demo.nodes import nodes

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("shared")
    with nodes(2, folder) as places:
        running = Cluster(places, folder, shared=True)
        for place in places:
            running.start(place)
        yield running


def test_ranks_of_two_nodes_take_the_same_windows(cluster: Cluster) -> None:
    cluster.until(same_window, "the reference window")
    workers = asked_for(cluster, cluster.nodes[1])
    assert {worker.identity.world_size for worker in workers} == {RANKS}
    assert len({worker.identity.host for worker in workers}) == 2


def test_after_rank_0_has_died_the_windows_of_the_attempt_before_are_not_taken_again(cluster: Cluster) -> None:
    before = cluster.workers()
    os.kill(before[0].pid, signal.SIGKILL)
    anew(cluster, before, "the reference window of the restarted run")
    asked_for(cluster, cluster.nodes[1])


def test_the_node_that_is_left_when_the_other_has_gone_takes_windows_alone(cluster: Cluster) -> None:
    before = cluster.workers()
    cluster.leave(cluster.nodes[1])
    alone = anew(cluster, before, "the reference window of the node that is left", RANKS // 2)
    assert {worker.identity.host for worker in alone} == {"node-0"}
    asked_for(cluster, cluster.nodes[0])
