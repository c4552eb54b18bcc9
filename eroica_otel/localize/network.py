"""Which link is slow: takes the 90th percentiles of link rates per host, gives scores of edges and who is at fault.

In a ring every member moves the same bytes in the same time, so means say nothing; the 90th percentile of the rate
does. A link slow in one direction shows at both of its ends, so edges are judged: the sender's tx with the receiver's
rx.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from eroica_otel.localize.policy import Policy
from eroica_otel.table import Doubles, Ints, Workers

TX, RX = "nic_tx", "nic_rx"


@dataclass(frozen=True, slots=True)
class Edge:
    """One direction between two neighbours of the ring.

    Attributes:
        score: Mean of the rates at its two ends over that of the best two edges.
        lower: The same of the lower end alone.
    """

    sender: str
    receiver: str
    score: float
    lower: float


@dataclass(frozen=True, slots=True)
class Network:
    """All edges, and what is slow: nodes with two slow edges, and slow edges that no such node explains."""

    edges: tuple[Edge, ...] = ()
    nodes: tuple[str, ...] = ()
    links: tuple[Edge, ...] = ()

    @property
    def lowest(self) -> float:
        """Smallest score, NaN without edges."""
        return min((edge.score for edge in self.edges), default=math.nan)

    def deficit(self, node: str) -> float:
        """Return the sum of (1 - score) over the edges of a node."""
        return sum(1 - edge.score for edge in self.edges if node in (edge.sender, edge.receiver))


def network_of(workers: Workers, policy: Policy) -> Network:
    """Return the network as the workers' link rates show it, empty where fewer than two hosts have rates of both
    directions.
    """
    names, rates = _rates(workers)
    if len(names) < 2:
        return Network()
    receivers, scores, lowers = _ring(rates)
    top = float(np.mean(np.sort(scores)[-2:]))
    if top < policy.link_used_ratio:
        return Network()
    scored = tuple(
        Edge(sender, names[receiver], score, lower)
        for sender, receiver, score, lower in zip(
            names, receivers.tolist(), (scores / top).tolist(), (lowers / top).tolist(), strict=True
        )
    )
    slow = _slow(scored, policy)
    nodes = _nodes(slow, len(names))
    beside = frozenset(nodes)
    links = tuple(edge for edge in slow if edge.sender not in beside and edge.receiver not in beside)
    return Network(scored, nodes, links)


def _rates(workers: Workers) -> tuple[list[str], Doubles]:
    """Hosts in the order of their first rank and the medians of their workers' (tx, rx), [hosts, 2]."""
    unknown = np.full(len(workers), np.nan)
    pairs = np.stack([workers.peaks.get(way, unknown) for way in (TX, RX)], axis=1)
    known = np.flatnonzero(np.isfinite(pairs.sum(axis=1)))
    hosts, first, host = np.unique(workers.host.codes[known], return_index=True, return_inverse=True)
    counts = np.bincount(host, minlength=hosts.size)
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]]).astype(np.int64)
    rates = np.zeros((hosts.size, 2))
    for way in range(2):
        values = pairs[known, way]
        values = values[np.lexsort((values, host))]
        rates[:, way] = (values[starts + (counts - 1) // 2] + values[starts + counts // 2]) / 2
    order = np.argsort(first)
    return [workers.host.names[code] for code in hosts[order].tolist()], rates[order]


def _ring(rates: Doubles) -> tuple[Ints, Doubles, Doubles]:
    """Receiver of each host in the direction in which senders and receivers agree best (gloo sends to the rank before),
    and of each edge the mean and the lower of the rates at its ends, [hosts] each.
    """
    count = rates.shape[0]
    at = np.arange(count)
    # Nothing is faster than its link: what a burst out of a full bucket shows above that must not make others slow.
    # Where most are faster, it is the speed that was told too low.
    rates = np.minimum(rates, max(1.0, float(np.median(rates))))
    directions = ((at - 1) % count, (at + 1) % count)
    to = min(directions, key=lambda receiver: float(np.abs(rates[:, 0] - rates[receiver, 1]).sum()))
    sent, received = rates[:, 0], rates[to, 1]
    return to, (sent + received) / 2, np.minimum(sent, received)


def _slow(edges: Sequence[Edge], policy: Policy) -> list[Edge]:
    """Edges below the limit that lose at least half of what the slowest loses: what a fault and some noise make of the
    edge beside it is no fault of its own, and would make the node between the two a culprit.

    What an edge loses is told by its lower end: a sender fills queues in bursts, and looks nearly unharmed by a
    receiver that is slow.
    """
    slow = [edge for edge in edges if edge.score < policy.link_ratio]
    most = max((1 - edge.lower for edge in slow), default=0.0)
    return [edge for edge in slow if 1 - edge.lower >= 0.5 * most]


def _nodes(slow: list[Edge], count: int) -> tuple[str, ...]:
    """Nodes whose two edges are both slow; two hosts share both edges, so there nobody can say which of them it is."""
    if count < 3:
        return ()
    ends = Counter(end for edge in slow for end in (edge.sender, edge.receiver))
    return tuple(sorted(name for name, count in ends.items() if count == 2))
