"""Who is comparable with whom: takes columns, gives one peer role per worker.

The worker's own label wins. Where nobody named roles ("" or "all"), workers whose compute consists of other families
of functions are another role (a pipeline stage with the embedding, an expert). Python and communication never make a
role: there a fault shows.
"""

from __future__ import annotations

import numpy as np

from eroica_otel.localize.columns import Columns, Doubles, Ints
from eroica_otel.localize.policy import Policy
from eroica_otel.table import Words

UNNAMED = ("", "all")
_MAKES_ROLES = ("compute", "memory")


def peer_roles(columns: Columns, policy: Policy) -> Words:
    """Return the peer role of each worker [W]; workers of one role are compared."""
    labels = columns.workers.role
    unnamed = np.flatnonzero(labels.among(UNNAMED))
    if not unnamed.size:
        return labels
    sets = _by_families(_shares(columns, unnamed), policy)
    known = {name: at for at, name in enumerate(labels.names)}
    names = ["all" + (f"-{number}" if number else "") for number in range(int(sets.max()) + 1)]
    codes = labels.codes.copy()
    codes[unnamed] = np.array([known.setdefault(name, len(known)) for name in names], np.int32)[sets]
    return Words(tuple(known), codes)


def groups_of(roles: Words) -> tuple[Ints, ...]:
    """Return the worker indices of each role, in the order of the roles' names."""
    place = {name: at for at, name in enumerate(sorted(roles.names))}
    inverse = np.array([place[name] for name in roles.names], np.int32)[roles.codes]
    order = np.argsort(inverse, kind="stable").astype(np.int64)
    return tuple(np.split(order, np.flatnonzero(np.diff(inverse[order])) + 1))


def _shares(columns: Columns, workers: Ints) -> Doubles:
    """Share of each family in these workers' compute and memory time, [n, families]; NaN-free, zero rows without
    any.
    """
    families = [key for key in columns.groups if key[0] == "family" and key[1] in _MAKES_ROLES]
    table = np.zeros((workers.size, len(families)))
    for at, key in enumerate(families):
        table[:, at] = columns.shares(columns.groups[key])[workers]
    total = table.sum(axis=1, keepdims=True)
    return np.asarray(np.divide(table, total, out=table, where=total > 0), np.float64)


def _by_families(shares: Doubles, policy: Policy) -> Ints:
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
