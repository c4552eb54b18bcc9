"""Who does more work of its own than its peers, and who changed: takes a scene, gives one Judgement per unit that
says something.

Excess: seconds per iteration above the median of the peers. Material: at least 5 % of the iteration, and far above
    the peers (1.4x, or beyond 6 noise levels and 6 spreads; CPU seconds 1.25x). Drift (Gamma): seconds per iteration
    above the own reference. Time without a core is taken off before a Python frame is blamed, because any frame can
    be the one that waits for a core.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from eroica_otel.localize.chance import Chance
from eroica_otel.localize.columns import Bools, Floats
from eroica_otel.localize.compare import by_group, median, peers_median, spread
from eroica_otel.localize.scene import Scene, to_workers
from eroica_otel.localize.seconds import OWN, Key, Seconds, measure, totals

_SCREEN = 0.8
"""A function whose largest share is below this part of what is material cannot be material."""


class Whole(NamedTuple):
    """What a function is part of, seconds per iteration above the peers and above the reference, [W] each."""

    excess: Floats
    drift: Floats


@dataclass(frozen=True, slots=True)
class Judgement:
    """One unit over all workers, seconds per iteration, [W].

    Attributes:
        peers: Median of the peers, NaN without any.
        excess: Above the peers, after time without a core is taken off (Python only).
        on_excess: CPU time above the peers, NaN unknown.
        on_peers: Median CPU time of the peers.
        material: Whether the excess counts.
        lacking: Whether the worker is as far BELOW its peers as would count above (healthy minority).
        split: Whether the worker's role splits evenly, so that nobody can say which half is right.
        drift: Gamma, NaN without a reference.
        drifted: Whether Gamma is large.
        steady: Whether Gamma is small.
        reference: Seconds in the reference, NaN without one.
        on_drift: Change of CPU time, NaN unknown.
        known_before: Whether any worker had the unit in the reference.
        name: Name of the function, "" where the unit spans several names.
        large: What counts as much, seconds per iteration.
    """

    key: Key
    now: Seconds
    peers: Floats
    excess: Floats
    on_excess: Floats
    on_peers: Floats
    material: Bools
    lacking: Bools
    split: Bools
    drift: Floats
    drifted: Bools
    steady: Bools
    reference: Floats
    on_drift: Floats
    known_before: bool
    name: str
    large: float

    @property
    def kind(self) -> str:
        """Kind of the unit, "" for all own work."""
        return self.key[1] if len(self.key) > 1 else ""

    @property
    def family(self) -> str:
        """Family of the unit, "" where it spans several."""
        return self.key[2] if len(self.key) > 2 else ""

    @property
    def interesting(self) -> bool:
        """Whether any stage of the verdict could use it; who lacks work is told of where there is no reference."""
        return bool(self.material.any() or self.split.any() or self.drifted.any())


def judge_units(scene: Scene) -> list[Judgement]:
    """Return the judgements of all units of own work that say something, most specific first."""
    wholes: dict[Key, Whole] = {}
    chance = Chance(scene)
    judged = (judge_unit(chance, key, _wholes(scene, key, wholes)) for key in _units(scene))
    alone = scene.reference is None
    return [judgement for judgement in judged if judgement.interesting or (alone and judgement.lacking.any())]


def _wholes(scene: Scene, key: Key, known: dict[Key, Whole]) -> list[Whole]:
    """What a function is part of: its name (other stacks reach it too) and its family (another kernel may
    do the same).
    """
    if key[0] not in ("function", "name"):
        return []
    name = scene.columns.functions[scene.columns.groups[key][0]].name
    keys: list[Key] = [("family", *key[1:3])]
    if key[0] == "function":
        keys.append(("name", *key[1:3], name))
    for whole in keys:
        if whole not in known:
            known[whole] = _whole(scene, whole)
    return [known[whole] for whole in keys]


def _whole(scene: Scene, key: Key) -> Whole:
    total = totals(scene.columns, key)
    before = None if scene.reference is None else totals(scene.reference, key)
    drift = np.full_like(total, np.nan) if before is None else total - to_workers(before, scene.position, scene.groups)
    return Whole(total - by_group(total, scene.groups, peers_median), drift)


def _units(scene: Scene) -> Iterator[Key]:
    """Keys of all units worth judging; a unit equal to its only member is left to the member."""
    groups = scene.columns.groups
    least = _SCREEN * scene.policy.material_ratio
    for level in ("function", "name", "family", "kind"):
        for key, functions in groups.items():
            own = scene.columns.functions[functions[0]].own
            if key[0] != level or not own or (level in ("name", "family") and len(functions) < 2):
                continue
            if level != "function" or scene.columns.largest[functions[0]] >= least:
                yield key
    yield OWN


def judge_unit(chance: Chance, key: Key, wholes: Sequence[Whole] = ()) -> Judgement:
    """Return one unit compared with the peers and with the reference.

    A difference counts only where ``wholes`` show at least half of it: a worker that reaches a function by another
    stack, or runs another kernel of the same family, does no more work than its peers.
    """
    scene = chance.scene
    now = measure(scene.columns, key)
    peers = by_group(now.most, scene.groups, peers_median)
    on_peers = by_group(now.on, scene.groups, peers_median)
    on_excess = now.on - on_peers
    raw = now.total - peers
    excess = raw
    if key[1:2] == ("python",):
        excess = without_delay(scene, raw, on_excess, scene.lost_excess, scene.idle_excess)
    elif np.isfinite(now.on).all():  # what a GPU does goes on while no stack can be read
        excess = without_delay(scene, raw, on_excess, scene.silence, scene.idle_excess)
    before = None if scene.reference is None else measure(scene.reference, key)
    drift, on_drift, noise, reference = _drift(scene, key, now, before)
    large = _large(scene, key, now)
    material = _material(chance, key, now, excess, on_excess, raw, _noise(scene, now, before, drift), large)
    lower = by_group(now.total, scene.groups, peers_median)
    lacking = _lacking(scene, now, lower, large)
    drifted = _compare(drift, np.fmax(large, scene.policy.noise_levels * noise))
    for whole in wholes:
        material &= _compare(whole.excess, scene.policy.explains_ratio * excess)
        lacking &= _compare(-whole.excess, scene.policy.explains_ratio * (lower - now.most))
        drifted &= _compare(whole.drift, scene.policy.explains_ratio * drift)
    return Judgement(
        key, now, peers, excess, on_excess, on_peers, material, lacking,
        split=_split(scene, material, lacking),
        drift=drift,
        drifted=drifted,
        steady=np.asarray(np.abs(drift) < scene.policy.drift_small_ratio * large, bool),
        reference=reference,
        on_drift=on_drift,
        known_before=before is not None and bool(before.present.any()),
        name=scene.columns.functions[scene.columns.groups[key][0]].name if key[0] in ("function", "name") else "",
        large=large,
    )  # fmt: skip


def _large(scene: Scene, key: Key, now: Seconds) -> float:
    """Return 5 % of the iteration; where the time is not a device's, no less than what two ranks differ by anyway."""
    share = scene.policy.material_ratio * scene.iteration
    by_device = key[1:2] in (("compute",), ("memory",)) and not np.isfinite(now.on).any()
    return share if by_device else max(share, scene.policy.material_least_seconds)


def without_delay(scene: Scene, change: Floats, on_change: Floats, delay: Floats, whole: Floats) -> Floats:
    """Return ``change`` less the time without a core, which can only explain what was not CPU time.

    It is taken off once: where the worker's ``whole`` change is more than it explains, the rest belongs to a unit that
    is at least half of that rest.
    """
    idle = np.where(np.isfinite(on_change), change - np.fmax(on_change, 0), change)
    least = change - np.clip(delay, 0, np.fmax(idle, 0))
    rest = whole - delay
    with np.errstate(invalid="ignore"):
        holds = change >= scene.policy.explains_ratio * rest
    return np.where(holds, np.fmax(least, np.fmin(change, rest)), least).astype(np.float32)


def _compare(values: Floats, bound: Floats) -> Bools:
    with np.errstate(invalid="ignore"):
        return np.asarray(values >= bound, bool)


def _noise(scene: Scene, now: Seconds, before: Seconds | None, drift: Floats) -> Floats:
    """Noise per worker from the reference, else from the window itself where it is one.

    Where the median peer changed too, the unit is not what it was: its noise in the reference says nothing about it.
    """
    if before is None:
        return now.noise
    noise = to_workers(before.noise, scene.position, scene.groups)
    small = scene.policy.drift_small_ratio * scene.policy.material_ratio * scene.iteration
    for group in scene.groups:
        if not abs(median(drift[group])) < small:
            noise[group] = np.nan
    return noise


def _material(
    chance: Chance, key: Key, now: Seconds, excess: Floats, on_excess: Floats, raw: Floats, noise: Floats, large: float
) -> Bools:
    scene, policy = chance.scene, chance.scene.policy
    # The lasting difference of healthy ranks is in what was measured, the wait for a core was taken off after.
    much = _compare(raw, np.float32(large)) & _compare(excess, np.float32(policy.material_ratio * scene.iteration))
    if not much.any():
        return much
    beyond = chance.beyond(key, now.total, excess, raw - excess, much)
    many, new = np.isfinite(beyond.spreads), excess - chance.lasting(key, noise)
    with np.errstate(invalid="ignore"):
        far = new > (policy.peers_factor - 1) * (now.total - raw)
        steady = np.where(many, noise, np.where(np.isfinite(noise), np.fmax(noise, _spreads(scene, now.total)), np.inf))
        levels = ~(new <= policy.noise_levels * steady)
        on_usual = np.where(many, beyond.spreads * _spreads(scene, now.on), 0)
        busy = (on_excess >= large) & (on_excess > np.fmax((policy.cpu_factor - 1) * (now.on - on_excess), on_usual))
    return np.asarray(much & (((far | levels) & beyond.who) | busy), bool)


def _spreads(scene: Scene, values: Floats) -> Floats:
    """Return for each worker what those of its role differ by, in standard deviations."""
    return by_group(values, scene.groups, lambda group: np.full(group.shape, spread(group), np.float32))


def _lacking(scene: Scene, now: Seconds, peers: Floats, large: float) -> Bools:
    with np.errstate(invalid="ignore"):
        less = peers - now.most >= large
        return np.asarray(less & (peers > scene.policy.peers_factor * now.most), bool)


def _split(scene: Scene, material: Bools, lacking: Bools) -> Bools:
    result = np.zeros(material.shape, bool)
    for group in scene.groups:
        for side in (material[group], lacking[group]):
            high = int(side.sum())
            if high and abs(2 * high - group.size) <= scene.policy.split_ratio * group.size:
                result[group] = True
    return result


def _drift(scene: Scene, key: Key, now: Seconds, before: Seconds | None) -> tuple[Floats, Floats, Floats, Floats]:
    """Return Gamma, the change of CPU time, the noise and the reference itself, all NaN without a reference."""
    if before is None:
        nothing = np.full(now.total.shape, np.nan, np.float32)
        return nothing, nothing, nothing, nothing
    reference = to_workers(before.total, scene.position, scene.groups)
    on_drift = now.on - to_workers(before.on, scene.position, scene.groups)
    drift = now.total - to_workers(before.most, scene.position, scene.groups)
    if key[1:2] == ("python",) or np.isfinite(now.on).all():  # what a GPU does never waits for a core
        drift = without_delay(scene, drift, on_drift, scene.lost_growth, scene.idle_growth)
    noise = to_workers(before.noise, scene.position, scene.groups)
    rough = to_workers(before.rough, scene.position, scene.groups)
    known = np.nan_to_num(noise) + scene.policy.noise_unknown_ratio * rough
    return drift, on_drift, np.fmax(known, scene.policy.noise_least_ratio * reference).astype(np.float32), reference
