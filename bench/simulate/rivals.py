"""Other ways to find who is unlike the others: takes windows, gives the workers that each would name.

The plain published rule compares each function by itself; the three of scikit-learn get each rank's seconds per
function, scaled to the same spread, and what they call noise or an outlier is named. None of them knows roles, so each
role is a data set of its own. scikit-learn is no dependency: ``pip install scikit-learn``.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eroica_otel.table import Table

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Rule = Callable[[Floats], NDArray[np.bool_]]
"""Patterns of the ranks of one role [W, functions, 3] -> which of them it names [W, functions] or [W, 1]."""

NEAR, PEERS = 0.4, 100
"""Distance beyond which two patterns differ, and sampled peers, as published."""


def published(patterns: Floats) -> NDArray[np.bool_]:
    """Name by median + 5 MAD of the share of 100 sampled peers that are further than 0.4 away; components are scaled
    by the largest, and nothing else is asked.
    """
    count = patterns.shape[0]
    peers = np.random.default_rng(0).choice(count, min(PEERS, count), replace=False)
    scaled = patterns / np.maximum(patterns.max(axis=0), 1e-9)
    delta = np.array([(np.abs(one - scaled[peers]).sum(axis=2) > NEAR).mean(axis=0) for one in scaled])
    middle = np.median(delta, axis=0)
    return np.asarray(delta > middle + 5 * np.median(np.abs(delta - middle), axis=0), bool)


def plain_mad(patterns: Floats) -> NDArray[np.bool_]:
    """Name by median + 5 MAD of beta itself."""
    beta = patterns[:, :, 0]
    middle = np.median(beta, axis=0)
    return np.asarray(beta > middle + 5 * np.median(np.abs(beta - middle), axis=0), bool)


def rules() -> dict[str, Rule]:
    """Return all of them by name; without scikit-learn its three are left out, and it says so."""
    own: dict[str, Rule] = {"published (Delta, 5 MAD)": published, "beta, 5 MAD": plain_mad}
    try:
        cluster, ensemble = (importlib.import_module(f"sklearn.{name}") for name in ("cluster", "ensemble"))
    except ImportError:
        print("DBSCAN, HDBSCAN and the isolation forest are left out: pip install scikit-learn")
        return own
    width = float(np.sqrt(12))
    return own | {
        "DBSCAN": _clustered(cluster.DBSCAN(eps=width, min_samples=5)),
        "HDBSCAN": _clustered(cluster.HDBSCAN(min_cluster_size=5, allow_single_cluster=True, copy=True)),
        "isolation forest": _clustered(ensemble.IsolationForest(random_state=0)),
    }


def _clustered(model: Any) -> Rule:
    def named(patterns: Floats) -> NDArray[np.bool_]:
        seconds = patterns[:, :, 0]
        scaled = (seconds - seconds.mean(axis=0)) / np.maximum(seconds.std(axis=0), 1e-9)
        return np.asarray(model.fit_predict(scaled) == -1, bool)[:, None]

    return named


def by_role(table: Table) -> list[tuple[Ints, Floats]]:
    """Return by role the rows of the workers and their patterns of own work, [W, functions, 3]; every function has one
    pattern of each worker.
    """
    own = [at for at, function in enumerate(table.functions) if function.own]
    columns = [column.reshape(len(table.functions), -1)[own] for column in (table.beta, table.mu, table.sigma)]
    patterns = np.stack(columns, axis=2).swapaxes(0, 1).astype(np.float64)
    codes = table.workers.role.codes
    rows = [np.flatnonzero(codes == code) for code in np.unique(codes)]
    return [(at, patterns[at]) for at in rows]
