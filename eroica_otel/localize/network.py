"""Which link is slow: takes the 90th percentiles of link rates per host, gives scores of edges and who is at fault.

In a ring every member moves the same bytes in the same time, so means say nothing; the 90th percentile of the rate
does. A link slow in one direction shows at both of its ends, so edges are judged: the sender's tx with the receiver's
rx.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from eroica_otel.localize.policy import Policy
from eroica_otel.model import WorkerWindow

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


def network_of(windows: Sequence[WorkerWindow], policy: Policy) -> Network:
    """Return the network as the workers' link rates show it, empty where fewer than two hosts have rates of both
    directions.
    """
    names, rates = _rates(windows)
    if len(names) < 2:
        return Network()
    edges = _ring(names, rates)
    best = sorted((edge.score for edge in edges), reverse=True)[:2]
    top = float(np.mean(best))
    if top < policy.link_used_ratio:
        return Network()
    scored = tuple(replace(edge, score=edge.score / top, lower=edge.lower / top) for edge in edges)
    slow = _slow(scored, policy)
    nodes = _nodes(slow, len(names))
    links = tuple(edge for edge in slow if edge.sender not in nodes and edge.receiver not in nodes)
    return Network(scored, nodes, links)


def _rates(windows: Sequence[WorkerWindow]) -> tuple[list[str], np.ndarray[tuple[int, ...], np.dtype[np.float64]]]:
    """Hosts in the order of their first rank and their (tx, rx) [hosts, 2]; a worker's rate is its largest over
    patterns.
    """
    found: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for window in windows:
        pair = (_rate(window, TX), _rate(window, RX))
        if math.isfinite(sum(pair)):
            found[window.identity.host].append(pair)
    return list(found), np.array([np.median(np.array(pairs), axis=0) for pairs in found.values()]).reshape(-1, 2)


def _rate(window: WorkerWindow, way: str) -> float:
    rates = [p.peaks.get(way, math.nan) for p in window.patterns if p.kind == "communication"]
    return max((rate for rate in rates if math.isfinite(rate) and rate >= 0), default=math.nan)


def _ring(names: list[str], rates: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> list[Edge]:
    """Edges of the ring in the direction in which senders and receivers agree best (gloo sends to the rank before)."""
    count = len(names)
    at = np.arange(count)
    # Nothing is faster than its link: what a burst out of a full bucket shows above that must not make others slow.
    # Where most are faster, it is the speed that was told too low.
    rates = np.minimum(rates, max(1.0, float(np.median(rates))))
    directions = ((at - 1) % count, (at + 1) % count)
    to = min(directions, key=lambda receiver: float(np.abs(rates[:, 0] - rates[receiver, 1]).sum()))
    ends = [(rates[s, 0], rates[r, 1]) for s, r in zip(at, to, strict=True)]
    return [
        Edge(names[s], names[r], float(np.mean(pair)), float(min(pair)))
        for s, r, pair in zip(at, to, ends, strict=True)
    ]


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
    ends = [end for edge in slow for end in (edge.sender, edge.receiver)]
    return tuple(sorted(name for name in set(ends) if ends.count(name) == 2))
