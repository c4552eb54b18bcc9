"""Links: which edge, which end, and when nobody can say."""

from __future__ import annotations

import pytest

from eroica_otel.localize.network import Network, network_of
from eroica_otel.localize.policy import Policy
from eroica_otel.tabled import workers_of
from factories_localize import Rank, rank, window_of

FULL = {"nic_tx": 0.95, "nic_rx": 0.95}


def ring(*changed: tuple[int, dict[str, float]], count: int = 4) -> list[Rank]:
    """Return ranks on a node each, all links at 95 % of their speed but the changed ones."""
    changes = dict(changed)
    return [rank(peaks=FULL | changes.get(at, {})) for at in range(count)]


def network(ranks: list[Rank]) -> Network:
    return network_of(workers_of(window_of(ranks) if ranks else []), Policy())


def test_healthy_links_score_alike() -> None:
    found = network(ring())
    assert [edge.score for edge in found.edges] == pytest.approx([1.0] * 4)
    assert not found.nodes
    assert not found.links


def test_a_node_limited_both_ways_has_two_slow_edges() -> None:
    # The ring sends from rank r to r - 1: node 2 is the receiver of 3 and the sender to 1, and both see its limit.
    limited = ring((2, {"nic_tx": 0.25, "nic_rx": 0.25}), (1, {"nic_rx": 0.25}), (3, {"nic_tx": 0.25}))
    found = network(limited)
    assert found.nodes == ("node-2",)
    assert not found.links
    assert found.lowest == pytest.approx(0.25 / 0.95, abs=1e-6)


@pytest.mark.parametrize("direction", [-1, 1], ids=["to the rank before", "to the rank after"])
def test_one_direction_is_a_link_whose_ends_cannot_be_told_apart(direction: int) -> None:
    receiver = 2 + direction
    found = network(ring((2, {"nic_tx": 0.3}), (receiver, {"nic_rx": 0.3})))
    assert not found.nodes
    assert [(edge.sender, edge.receiver) for edge in found.links] == [("node-2", f"node-{receiver}")]


def test_noise_on_the_edge_beside_a_slow_one_makes_no_culprit_of_the_node_between_them() -> None:
    """Seen on real nodes: one direction of node 3 at half its speed, the next edge at 86 %, and node 2 was named."""
    changed = ((3, {"nic_tx": 0.5}), (2, {"nic_rx": 0.5, "nic_tx": 0.82}), (1, {"nic_rx": 0.82}))
    found = network(ring(*changed))
    assert not found.nodes
    assert [(edge.sender, edge.receiver) for edge in found.links] == [("node-3", "node-2")]


def test_a_sender_that_looks_unharmed_does_not_hide_that_its_receiver_is_slow() -> None:
    """Seen on real nodes: both directions of node 0 limited, and node 1, which fills a queue before it, at 0.43."""
    rates = [(0.201, 0.213), (0.433, 0.474), (0.455, 0.402), (0.412, 0.209)]
    seen = [rank(peaks={"nic_tx": tx, "nic_rx": rx}) for tx, rx in rates]
    found = network(seen)
    assert found.nodes == ("node-0",)
    assert not found.links


def test_a_burst_above_the_speed_of_a_link_makes_no_other_link_slow() -> None:
    """Seen on a busy machine: a healthy window of 10 iterations, rates up to 1.37 of the speed."""
    rates = [(0.939, 1.031), (1.014, 0.960), (1.367, 1.262), (0.866, 0.822)]
    seen = [rank(peaks={"nic_tx": tx, "nic_rx": rx}) for tx, rx in rates]
    found = network(seen)
    # The ring sends to the rank before: 0 to 3 (0.939 and 0.822), 1 to 0, 2 to 1 (1 and 0.96), 3 to 2 (0.866 and 1).
    assert [edge.score for edge in found.edges] == pytest.approx([one / 0.99 for one in (0.8805, 1.0, 0.98, 0.933)])


def test_a_speed_that_was_told_too_low_hides_no_slow_link() -> None:
    limited = [(2.0, 2.0), (2.0, 0.6), (0.6, 0.6), (0.6, 2.0)]
    seen = [rank(peaks={"nic_tx": tx, "nic_rx": rx}) for tx, rx in limited]
    found = network(seen)
    assert found.nodes == ("node-2",)


def test_two_nodes_share_both_edges_so_only_links_are_named() -> None:
    found = network(ring((1, {"nic_tx": 0.3}), (0, {"nic_rx": 0.3}), count=2))
    assert not found.nodes
    assert [(edge.sender, edge.receiver) for edge in found.links] == [("node-1", "node-0")]


def test_ranks_of_one_node_count_once() -> None:
    ranks = [rank(peaks=FULL, host=f"host-{at // 2}") for at in range(6)]
    assert len(network(ranks).edges) == 3


@pytest.mark.parametrize(
    "ranks",
    [
        [rank(peaks={"nic_tx": 0.001}), rank(peaks={"nic_rx": 0.9})],
        [rank(), rank()],
        [rank(peaks=FULL, host="one"), rank(peaks=FULL, host="one")],
        [rank(peaks={"nic_tx": share, "nic_rx": share}) for share in (0.01, 0.001, 0.02)],
        [rank(peaks={"nic_tx": float("nan"), "nic_rx": 0.9}) for _ in range(3)],
        [],
    ],
    ids=["half", "none", "one host", "idle links", "nan", "no workers"],
)
def test_without_used_links_between_hosts_nothing_is_said(ranks: list[Rank]) -> None:
    assert not network(ranks).edges
