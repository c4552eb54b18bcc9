"""Who is comparable with whom: takes columns, gives one peer role per worker.

The worker's own label wins. Where nobody named roles ("" or "all"), workers whose compute consists of other families
of functions are another role (a pipeline stage with the embedding, an expert). Python and communication never make a
role: there a fault shows.
"""

from __future__ import annotations

import numpy as np

from eroica_otel.localize.columns import Columns, Ints
from eroica_otel.localize.policy import Policy

UNNAMED = ("", "all")
_MAKES_ROLES = ("compute", "memory")


def peer_roles(columns: Columns, policy: Policy) -> tuple[str, ...]:
    """Return the peer role of each worker [W]; workers of one role are compared."""
    labels = [window.identity.role for window in columns.windows]
    unnamed = np.flatnonzero(np.array([label in UNNAMED for label in labels], bool))
    sets = _by_families(_shares(columns)[unnamed], policy)
    for worker, number in zip(unnamed, sets, strict=True):
        labels[worker] = (labels[worker] or "all") + (f"-{number}" if number else "")
    return tuple(labels)


def groups_of(roles: tuple[str, ...]) -> tuple[Ints, ...]:
    """Return the worker indices of each role, in the order of the roles' names."""
    inverse = np.unique(np.array(roles, dtype=str), return_inverse=True)[1].reshape(-1)
    order = np.argsort(inverse, kind="stable").astype(np.int64)
    return tuple(np.split(order, np.flatnonzero(np.diff(inverse[order])) + 1))


def _shares(columns: Columns) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """Share of each family in a worker's compute and memory time, [W, families]; NaN-free, zero rows without any."""
    families = [key for key in columns.groups if key[0] == "family" and key[1] in _MAKES_ROLES]
    table = np.zeros((len(columns.windows), len(families)))
    for at, key in enumerate(families):
        entries = columns.entries(columns.groups[key])
        table[:, at] = np.bincount(columns.worker[entries], columns.beta[entries], minlength=table.shape[0])
    total = table.sum(axis=1, keepdims=True)
    return np.asarray(np.divide(table, total, out=np.zeros_like(table), where=total > 0), np.float64)


def _by_families(shares: np.ndarray[tuple[int, ...], np.dtype[np.float64]], policy: Policy) -> Ints:
    """Number the sets by first appearance; two workers share one unless much of one's time is in families
    of neither.
    """
    result = np.full(shares.shape[0], -1, np.int64)
    number = 0
    while (result < 0).any():
        if number >= policy.role_limit:
            return np.zeros_like(result)
        first = shares[np.argmax(result < 0)]
        missing_there = np.where(first == 0, shares, 0).sum(axis=1)
        missing_here = np.where(shares == 0, first, 0).sum(axis=1)
        alike = (missing_there <= policy.role_ratio) & (missing_here <= policy.role_ratio)
        idle = shares.sum(axis=1) == 0
        result[(result < 0) & (alike | idle)] = number
        number += 1
    return _merge_single(result)


def _merge_single(numbers: Ints) -> Ints:
    """A set of one worker has no peers at all: it joins the largest set, so that it is compared rather than ignored."""
    counts = np.bincount(numbers) if numbers.size else np.zeros(0, np.int64)
    if counts.size < 2 or counts.max() < 2:
        return np.zeros_like(numbers)
    joined = np.where(counts[numbers] == 1, int(np.argmax(counts)), numbers)
    return np.unique(joined, return_inverse=True)[1].astype(np.int64)
