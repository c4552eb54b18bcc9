"""Who arrived last at each collective: takes a scene, gives who waited for whom in it. Nobody is blamed here.

In a symmetric collective the worker that arrives last spends least time in it. Of one iteration that is an inference:
the next one may have another order.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from eroica_otel.localize.columns import Ints
from eroica_otel.localize.compare import median
from eroica_otel.localize.scene import Scene
from eroica_otel.localize.seconds import Key, totals
from eroica_otel.model import Victims

_MOST = 8
"""Collectives that are told of."""


def late_arrivals(scene: Scene) -> tuple[Victims, ...]:
    """Return for each collective in which much time was waited who waited for whom, the longest wait first.

    Late is who spends less than a fifth of the way from the least to the median of the group; a group is all ranks of
    one role that call the function in the same process groups.
    """
    found = [
        (gap, victims)
        for key in _collectives(scene)
        for group in _groups(scene, key)
        for gap, victims in _in_group(scene, key, group)
    ]
    found.sort(key=lambda one: -one[0])
    kept: dict[tuple[int, ...], Victims] = {}
    for _, victims in found:
        kept.setdefault(victims.waits_for, victims)
    return tuple(kept.values())[:_MOST]


def _collectives(scene: Scene) -> list[Key]:
    return [key for key in scene.columns.groups if key[0] == "name" and key[1] == "communication"]


def _groups(scene: Scene, key: Key) -> list[Ints]:
    """Workers that are together in this function, where there are enough of them to be compared."""
    columns, functions = scene.columns, scene.columns.groups[key]
    calls = columns.calls
    mine = np.isin(calls.function, functions)
    groups: dict[int, set[int]] = {}
    for worker, group in zip(calls.worker[mine].tolist(), calls.group.codes[mine].tolist(), strict=True):
        groups.setdefault(worker, set()).add(group)
    together: dict[tuple[str, frozenset[int]], list[int]] = {}
    for at in np.flatnonzero(columns.have(functions)).tolist():
        together.setdefault((scene.roles[at], frozenset(groups.get(at, ()))), []).append(at)
    least = scene.policy.fewest_peers
    return [np.array(group, np.int64) for group in together.values() if len(group) >= least]


def _in_group(scene: Scene, key: Key, group: Ints) -> Iterator[tuple[float, Victims]]:
    policy = scene.policy
    spent = totals(scene.columns, key)[group]
    least = float(spent.min())
    late = spent <= least + policy.late_ratio * (median(spent) - least)
    if late.all():
        return
    gap = median(spent[~late]) - least
    waiting = spent > least + policy.victim_ratio * gap
    if gap < policy.material_ratio * scene.iteration or not waiting.any():
        return
    name = scene.columns.functions[scene.columns.groups[key][0]].name
    yield gap, Victims(scene.columns.named(group[waiting]), name, scene.columns.named(group[late]))
