"""Process groups whose collectives transfer slower than those of other groups: takes a scene, gives findings.

In a symmetric collective all members take the same time, so peers inside a group say nothing; other groups do, that
move as many bytes between as many ranks on as many hosts. The fastest call of any member is the transfer itself: nobody
waits for anybody in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from eroica_otel.localize.bare import finding_of, named
from eroica_otel.localize.causes import Facts, cause_of, refined
from eroica_otel.localize.columns import Doubles, Ints, ranks_text
from eroica_otel.localize.evidence import function_signs, said
from eroica_otel.localize.findings import scope_of
from eroica_otel.localize.scene import Scene
from eroica_otel.localize.wording import duration, percent
from eroica_otel.model import Finding

_LEAST_GROUPS = 3
"""Groups of one kind: of two nobody can say which is slow."""


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """One process group in one function.

    Attributes:
        function: Index of the function.
        members: Indices of its workers.
        fastest: Seconds of the fastest call of any member.
        seconds: Seconds per iteration of all calls, were all as fast.
    """

    function: int
    name: str
    members: tuple[int, ...]
    fastest: float
    seconds: float


class _Groups(NamedTuple):
    """All process groups, [G] each; ``of`` is the group of each row of ``rows`` of the calls."""

    rows: Ints
    of: Ints
    first: Ints
    fastest: Doubles
    seconds: Doubles
    kind: Ints


def group_findings(scene: Scene) -> list[Finding]:
    """Return one finding for each process group that is slower than the others of its kind."""
    return [_finding(scene, group, usual) for group, usual in slow_groups(scene)]


def slow_groups(scene: Scene) -> list[tuple[Group, float]]:
    """Return the slow groups, each with the median of the fastest calls of its kind."""
    groups = _groups(scene)
    if groups is None:
        return []
    many = np.bincount(groups.of) > 1  # a group of one rank moves nothing
    kinds = (np.flatnonzero(many & (groups.kind == kind)) for kind in range(int(groups.kind.max()) + 1))
    return [
        (_group(scene, groups, at), usual)
        for alike in kinds
        for at, usual in _slow(scene, groups.fastest[alike], groups.seconds[alike], alike)
    ]


def _slow(scene: Scene, fastest: Doubles, seconds: Doubles, alike: Ints) -> Iterator[tuple[int, float]]:
    if alike.size < _LEAST_GROUPS:
        return
    usual = float(np.median(fastest))
    slow = fastest > scene.policy.peers_factor * usual
    costs = seconds * (1 - usual / fastest) >= scene.policy.material_ratio * scene.iteration
    if 2 * slow.sum() < alike.size:
        yield from ((at, usual) for at in alike[slow & costs].tolist())


def _groups(scene: Scene) -> _Groups | None:
    """Return the groups whose transfers are told, None without any."""
    calls, workers = scene.columns.calls, scene.columns.workers
    if calls.count is None or calls.call_bytes is None or calls.fastest_seconds is None:
        return None
    with np.errstate(invalid="ignore"):
        told = (calls.call_bytes > 0) & (calls.count > 0) & (calls.fastest_seconds > 0)
    named = ~calls.group.among(("",))
    rows = np.flatnonzero(told & named & np.isfinite(calls.fastest_seconds * calls.call_bytes * calls.count))
    if not rows.size:
        return None
    worker, function = calls.worker[rows].astype(np.int64), calls.function[rows].astype(np.int64)
    names = len(calls.group.names)
    _, first, of = np.unique(function * names + calls.group.codes[rows], return_index=True, return_inverse=True)
    fastest = np.full(first.size, np.inf)
    np.minimum.at(fastest, of, calls.fastest_seconds[rows])
    hosts = np.unique(np.stack([of, workers.host.codes[worker].astype(np.int64)]), axis=1)[0]
    sizes, on = np.bincount(of), np.bincount(hosts, minlength=first.size)
    alike = np.stack([function[first], sizes, on, np.rint(calls.call_bytes[rows[first]]).astype(np.int64)])
    kind = np.unique(alike, axis=1, return_inverse=True)[1].reshape(-1)
    iterations = workers.iterations[worker[first]]
    return _Groups(rows, of, first, fastest, fastest * calls.count[rows[first]] / iterations, kind)


def _group(scene: Scene, groups: _Groups, at: int) -> Group:
    calls, rows = scene.columns.calls, groups.rows[groups.of == at]
    return Group(
        int(calls.function[rows[0]]), calls.group[int(rows[0])], tuple(sorted(calls.worker[rows].tolist())),
        float(groups.fastest[at]), float(groups.seconds[at]),
    )  # fmt: skip


def _finding(scene: Scene, group: Group, usual: float) -> Finding:
    others = group.seconds * usual / group.fastest
    excess = group.seconds - others
    signs = replace(function_signs(scene, group.function, group.members), excess=excess, others=others)
    cause = refined(cause_of(Facts(kind="communication"), scene.policy), signs, scene.policy)
    workers, ranks = scene.columns.workers, scene.columns.named(group.members)
    ratio = excess / scene.iteration
    evidence = (
        f"process group {group.name!r} of {ranks_text(ranks)}: its fastest call takes {duration(group.fastest)}, that "
        f"of other groups with as many ranks, hosts and bytes {duration(usual)}",
        *said(signs, cause),
        f"that is {percent(ratio)} of the iteration, and no rank has more work of its own than its peers",
    )
    severity = "critical" if ratio >= scene.policy.critical_ratio else "warning"
    known = cause.name != "unknown"
    values: dict[str, object] = {"kind": "communication", **named(scene, group.function), "evidence": evidence}
    return finding_of(
        cause, verdict="culprit", severity=severity if known else "info", confidence="high" if known else "low",
        scope=scope_of(workers, scene.roles, np.array(group.members)), ranks=ranks,
        hosts=workers.host.distinct(group.members), roles=workers.role.distinct(group.members),
        impact_ratio=ratio, impact_seconds=excess, **values,
    )  # fmt: skip
