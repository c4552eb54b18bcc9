"""Two nodes whose ranks meet in the launchers' own store, as torchrun has it by default.

There is no restart here: that store keeps the addresses of the ranks before it, so that torch 2.13 itself, also without
the plugin, cannot connect those of two nodes again ("Gloo connectFullMesh failed"). test_nodes.py restarts with a store
of rank 0's, test_hang.py on one node with the launcher's.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from clusters import JOB, RANKS, Cluster, same_window
from eroica_otel.commands.window import request
from eroica_otel.demo.nodes import nodes

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("shared")
    with nodes(2, folder) as places:
        running = Cluster(places, folder, fewest=2, shared=True)
        for place in places:
            running.start(place)
        yield running


def test_ranks_of_two_nodes_take_the_same_windows(cluster: Cluster) -> None:
    cluster.until(same_window, "the reference window")
    workers = cluster.workers()
    assert {worker.identity.world_size for worker in workers} == {RANKS}
    assert len({worker.identity.host for worker in workers}) == 2
    before = workers[0].window_id
    request(cluster.nodes[1].folder, JOB)
    cluster.until(lambda workers: same_window(workers, before), "the window that was asked for")
