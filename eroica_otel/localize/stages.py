"""The verdict table: takes a scene and its judgements, gives cases in the written order. A later stage runs only when
no earlier one found.

Excess of a function, of a family, of a kind -> slow links -> change of some ranks -> change of all. Stopped processes
come before (stopped.py): their peers' numbers are whole without them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from eroica_otel.localize.causes import Cause, Facts, cause_of
from eroica_otel.localize.columns import Bools
from eroica_otel.localize.compare import median, spread
from eroica_otel.localize.excess import Judgement
from eroica_otel.localize.policy import Policy
from eroica_otel.localize.scene import Scene
from eroica_otel.localize.seconds import OWN

_SOME = 0.25
"""Share of a large role from which on those that changed widen what its workers differ by."""


@dataclass(frozen=True, slots=True)
class Case:
    """What one finding will be about.

    Attributes:
        workers: Indices of the culprits, empty where all changed alike.
        judgement: The unit that shows it.
        excess: Seconds per iteration of the unit.
        changed: True where the reference shows it and not the peers.
        beside: Other units in which the same fault shows.
        whole: Seconds per iteration of all that it makes longer, 0 where it is the unit.
    """

    cause: Cause
    workers: tuple[int, ...]
    judgement: Judgement
    excess: float
    changed: bool = False
    beside: tuple[Judgement, ...] = ()
    whole: float = 0.0

    @property
    def lost(self) -> float:
        """Seconds per iteration that its workers take longer by it."""
        return max(self.whole, self.excess)


def excess_cases(scene: Scene, judgements: Sequence[Judgement], skip: Collection[int]) -> list[list[Case]]:
    """Return for each worker that exceeds its peers one case per unit that shows it."""
    counted = [(judgement, _counted(judgement)) for judgement in judgements]
    workers = sorted({int(at) for _, mask in counted for at in np.flatnonzero(mask)} - set(skip))
    return [_of_worker(scene, worker, [judgement for judgement, mask in counted if mask[worker]]) for worker in workers]


def no_consensus(scene: Scene, judgements: Iterable[Judgement]) -> list[Judgement]:
    """Return the units on which a role splits evenly while no reference can say which half changed."""
    return [] if scene.reference is not None else [judgement for judgement in judgements if judgement.split.any()]


def _counted(judgement: Judgement) -> Bools:
    """In an even split only those count that changed: without a reference neither half is right."""
    return np.asarray(judgement.material & (~judgement.split | judgement.drifted), bool)


def _of_worker(scene: Scene, worker: int, judgements: Sequence[Judgement]) -> list[Case]:
    chosen = _named(judgements, lambda judgement: float(judgement.excess[worker]), scene.policy)
    cases = []
    for judgement in chosen:
        cause = cause_of(_facts(scene, judgement, worker), scene.policy)
        if judgement.key != OWN or cause.name == "cpu_starved":
            cases.append(Case(cause, (worker,), judgement, float(judgement.excess[worker])))
    return cases


def _facts(scene: Scene, judgement: Judgement, worker: int) -> Facts:
    peers = float(judgement.peers[worker])
    return Facts(
        kind=judgement.kind,
        family=judgement.family,
        iteration=scene.iteration,
        excess=float(judgement.excess[worker]),
        on_excess=float(judgement.on_excess[worker]),
        thread_excess=float(scene.thread_excess[worker]),
        peer_use=float(judgement.on_peers[worker]) / peers if peers > 0 else float("nan"),
        delay_excess=float(scene.delay_excess[worker]),
        throttle_excess=float(scene.throttle_excess[worker]),
    )


def _named(judgements: Sequence[Judgement], value: Callable[[Judgement], float], policy: Policy) -> list[Judgement]:
    """Return the most specific units that hold at least half of what their family, and then their kind, is too long."""
    chosen: list[Judgement] = []
    for kind in dict.fromkeys(judgement.kind for judgement in judgements if judgement.kind):
        of_kind = [judgement for judgement in judgements if judgement.kind == kind]
        parts = [
            _specific([judgement for judgement in of_kind if judgement.family == family], value, policy)
            for family in dict.fromkeys(judgement.family for judgement in of_kind if judgement.family)
        ]
        whole = [judgement for judgement in of_kind if judgement.key[0] == "kind"]
        if whole and max(map(value, parts), default=0.0) < policy.explains_ratio * value(whole[0]):
            parts = whole
        chosen += parts
    return chosen or [judgement for judgement in judgements if judgement.key == OWN]


def _specific(family: Sequence[Judgement], value: Callable[[Judgement], float], policy: Policy) -> Judgement:
    enough = policy.explains_ratio * max(map(value, family))
    for level in ("function", "name"):
        largest = max((j for j in family if j.key[0] == level), key=value, default=None)
        if largest is not None and value(largest) >= enough:
            return largest
    return max(family, key=value)


def some_changed(scene: Scene, judgements: Sequence[Judgement], skip: Collection[int]) -> list[Case]:
    """Return the cases in which some ranks changed and are now unlike the others, be they few or most (healthy
    minority).
    """
    units = [judgement for judgement in judgements if judgement.key != OWN and _apart(scene, judgement)]
    cases = []
    for judgement in _named(units, lambda unit: median(unit.drift[unit.drifted]), scene.policy):
        facts = _facts_of_some(scene, judgement)
        workers = tuple(int(at) for at in np.flatnonzero(_changed(scene, judgement)) if at not in skip)
        if workers:
            cases.append(Case(cause_of(facts, scene.policy), workers, judgement, facts.excess, changed=True))
    return cases


def _changed(scene: Scene, judgement: Judgement) -> Bools:
    """Return who changed, where some did for certain: also who changed by half as much as these, as far as that is
    beyond what the others did.
    """
    drift, half = judgement.drift, scene.policy.explains_ratio * median(judgement.drift[judgement.drifted])
    peers = scene.of_roles(np.flatnonzero(judgement.drifted).tolist())
    with np.errstate(invalid="ignore"):
        rest = drift[drift < half]
        bound = max(half, scene.policy.noise_levels * spread(rest)) if rest.size else half
        return judgement.drifted | (peers & (drift >= bound))


def _apart(scene: Scene, judgement: Judgement) -> bool:
    """Whether those that changed stand apart from those that did not: far above them, or where these are some, by more
    than what these changed by.
    """
    drifted, drift = judgement.drifted, judgement.drift
    changed = _changed(scene, judgement) if drifted.any() else drifted
    if not changed.any() or changed.all():
        return False
    role = scene.of_roles(np.flatnonzero(changed).tolist())
    if role.sum() >= scene.policy.spread_peers and changed.sum() < _SOME * role.sum():
        return False  # so few of many would be beyond chance if it were none
    rest = _unchanged(scene, changed)
    high, low = median(judgement.now.total[drifted]), median(judgement.now.total[rest])
    beyond = median(drift[drifted]) - median(drift[rest]) >= scene.policy.noise_levels * spread(drift[rest])
    far = high > scene.policy.peers_factor * low or (beyond and rest.sum() >= scene.policy.decisive_peers)
    return bool(high - low >= judgement.large and far)


def _unchanged(scene: Scene, drifted: Bools) -> Bools:
    """Return the others of their roles, all others where there are none: another role takes another time anyway."""
    peers = scene.of_roles(np.flatnonzero(drifted).tolist()) & ~drifted
    return peers if peers.any() else ~drifted


def _facts_of_some(scene: Scene, judgement: Judgement) -> Facts:
    high = _changed(scene, judgement)
    low = _unchanged(scene, high)

    def gap(values: np.ndarray[tuple[int, ...], np.dtype[np.float32]]) -> float:
        return median(values[high]) - median(values[low])

    rest = median(judgement.now.total[low])
    zero_if_unknown = np.nan_to_num(gap(scene.columns.delay * scene.columns.iteration))
    return Facts(
        kind=judgement.kind,
        family=judgement.family,
        iteration=scene.iteration,
        excess=min(gap(judgement.now.total), median(judgement.drift[high])),
        on_excess=gap(judgement.now.on),
        thread_excess=gap(scene.columns.cpu),
        peer_use=median(judgement.now.on[low]) / rest if rest > 0 else float("nan"),
        delay_excess=max(float(zero_if_unknown), 0.0),
        throttle_excess=max(float(np.nan_to_num(gap(scene.columns.throttle))), 0.0),
    )


def all_changed(scene: Scene, judgements: Sequence[Judgement]) -> list[Case]:
    """Return the cases in which the median rank changed and none stands apart: the whole job."""
    units = [j for j in judgements if j.key != OWN and 2 * j.drifted.mean() > 1 and median(j.drift) >= j.large]
    units = [judgement for judgement in units if not _apart(scene, judgement)]
    cases = []
    for judgement in _named(units, lambda unit: median(unit.drift), scene.policy):
        facts = Facts(
            kind=judgement.kind,
            family=judgement.family,
            iteration=scene.iteration,
            excess=median(judgement.drift),
            on_excess=median(judgement.on_drift),
            thread_excess=median(scene.thread_growth),
            everyone=True,
        )
        cases.append(Case(cause_of(facts, scene.policy), (), judgement, facts.excess, changed=True))
    return cases
