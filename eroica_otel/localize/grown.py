"""What all ranks wait for longer than in the reference while nobody's own work explains it: takes a scene, gives one
finding about communication or about calls that wait for the device.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from eroica_otel.localize.bare import COMMUNICATION, SYNC, finding_of, largest_in, named
from eroica_otel.localize.causes import Cause, Facts, cause_of, refined
from eroica_otel.localize.compare import median
from eroica_otel.localize.evidence import function_signs, said
from eroica_otel.localize.findings import scope_of
from eroica_otel.localize.hostwords import LINK_FALLS, host_evidence
from eroica_otel.localize.policy import Policy
from eroica_otel.localize.scene import Scene
from eroica_otel.localize.seconds import measure
from eroica_otel.localize.signs import Signs
from eroica_otel.localize.wording import duration, iteration_evidence
from eroica_otel.model import Finding


def communication_grown(scene: Scene) -> Finding | None:
    """Return the finding for communication that grew on all ranks while no work and no link explains it."""
    policy = scene.policy
    growth, noise = median(scene.waiting_growth), median(scene.waiting_noise)
    if not _large(scene, growth, noise):
        return None
    largest = largest_in(scene, COMMUNICATION)
    # What one rank lacks a core for, or stands still for once, all others wait for.
    impact = max(min(growth - float(scene.lost_growth.max()), scene.growth), 0.0)
    ratio = impact / scene.iteration
    down = _down(scene)
    signs = Signs() if largest is None else function_signs(scene, largest, down)
    signs = replace(signs, kind="communication", excess=growth, others=median(scene.waiting) - growth)
    if down:  # of who else has a link that stays up, rates say nothing: all wait for those that do not
        signs = replace(signs, resource="")
    cause = _cause("communication", "", scene, growth, signs)
    least = policy.drift_unknown_ratio if cause.name == "unknown" else policy.material_ratio
    alarms = scene.degraded and ratio >= least
    evidence = (
        f"communication takes {duration(median(scene.waiting))} an iteration on the median rank, "
        f"{duration(growth)} more than in the reference window",
        iteration_evidence(scene),
        *said(signs, cause),
        *host_evidence(scene, down),
        "no rank has more work of its own than its peers, and no link is slower than the others where rates are known",
    )
    values: dict[str, object] = {"kind": "communication", **named(scene, largest), "evidence": evidence}
    return _about_all(cause, ratio, impact, _severity(ratio, policy, alarms), values | _whose(scene, down))


def _down(scene: Scene) -> tuple[int, ...]:
    """Return the workers whose link went down in the window, () where it is nobody's or most workers'."""
    falls = scene.columns.workers.host_use.get("link_down", np.zeros(0))
    with np.errstate(invalid="ignore"):
        found = np.flatnonzero(falls >= LINK_FALLS)
    return tuple(found.tolist()) if 2 * found.size < scene.size else ()


def _whose(scene: Scene, down: Sequence[int]) -> dict[str, object]:
    """Return the fields of a finding about some workers; {} where it is about all."""
    workers = scene.columns.workers
    if not down:
        return {}
    return {
        "verdict": "culprit", "scope": scope_of(workers, scene.roles, np.array(down)), "confidence": "high",
        "ranks": scene.columns.named(down), "hosts": workers.host.distinct(down), "roles": workers.role.distinct(down),
    }  # fmt: skip


def synchronisation_grown(scene: Scene) -> Finding | None:
    """Return the finding for calls that wait for the device, charged only while it does nothing, that grew on all."""
    if scene.reference is None:
        return None
    now, before = measure(scene.columns, SYNC), measure(scene.reference, SYNC)
    growth = median(now.total) - median(before.total)
    largest = largest_in(scene, SYNC)
    if largest is None or not _large(scene, growth, median(before.noise)):
        return None
    # Waiting that was waited for anyway is no loss: only what the iteration grew by counts.
    impact = max(min(growth, scene.growth), 0.0)
    ratio = impact / scene.iteration
    cause = _cause("host", "sync", scene, growth, function_signs(scene, largest))
    evidence = (
        f"waits for the device for {duration(median(now.total))} an iteration on the median rank, "
        f"{duration(median(before.total))} in the reference window",
        iteration_evidence(scene),
    )
    alarms = scene.degraded and ratio >= scene.policy.impact_least_ratio
    values: dict[str, object] = {**named(scene, largest), "evidence": evidence}
    return _about_all(cause, ratio, impact, _severity(ratio, scene.policy, alarms), values)


def _large(scene: Scene, growth: float, noise: float) -> bool:
    policy = scene.policy
    return growth >= max(policy.material_ratio * scene.iteration, policy.noise_levels * float(np.nan_to_num(noise)))


def _cause(kind: str, family: str, scene: Scene, growth: float, signs: Signs) -> Cause:
    facts = Facts(kind=kind, family=family, iteration=scene.iteration, excess=growth, everyone=True)
    return refined(cause_of(facts, scene.policy), signs, scene.policy)


def _severity(ratio: float, policy: Policy, alarms: bool) -> str:
    return ("critical" if ratio >= policy.critical_ratio else "warning") if alarms else "info"


def _about_all(cause: Cause, ratio: float, seconds: float, severity: str, values: dict[str, object]) -> Finding:
    about: dict[str, object] = {"verdict": "job", "scope": "job", "confidence": "low", "severity": severity}
    return finding_of(cause, impact_ratio=ratio, impact_seconds=seconds, **about | values)
