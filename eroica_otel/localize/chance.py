"""What chance makes of healthy workers: takes a scene, gives for a unit who is beyond it.

Roles of many workers show themselves what these differ by. There a worker is beyond chance when it is
above its peers by more than the tail of what these differ by, or when it is so after what lasts is taken off: a worker
that took longer in the reference too is expected to do so. The tail is that of all functions of the role, and of the
unit's own as far as its workers are many; who may be a culprit is left out of it. In a role of few what lasts is all
that can be known.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from eroica_otel.localize.columns import Bools, Floats, Ints
from eroica_otel.localize.compare import median, peers_median, shared_peers, spread
from eroica_otel.localize.scene import Scene, to_workers
from eroica_otel.localize.seconds import Key, totals
from eroica_otel.localize.tails import Tail, chance_of, known, tail_of, tail_of_one

_WORKERS = 16_384
"""Workers of a role from whom a tail is taken."""
_KEPT = 0.5
"""Part of a difference that is expected to last, in roles too small to show it; chosen: half of the variance does."""
_FUNCTION = 0.01
"""Share of the iteration from which on a function of the median worker counts for the tail of all."""


class Beyond(NamedTuple):
    """Who is beyond chance and how many spreads above the peers that is, NaN in roles of few workers; [W] each."""

    who: Bools
    spreads: Floats


class _Differing(NamedTuple):
    """What the workers of a role differ by in one unit, seconds per iteration, [n]: above their median, and the part of
    that which was so before (0 without a reference of every worker); the spread of the first, and of the rest.
    """

    above: Floats
    lasting: Floats
    spread: float
    new_spread: float

    @property
    def new(self) -> Floats:
        """What is left, above its median: where halves differ for good, all are far from the median of both."""
        rest = self.above - self.lasting
        return np.asarray(rest - np.float32(median(rest)), np.float32)


class _Tails(NamedTuple):
    rows: Ints
    now: Tail | None
    new: Tail | None


@dataclass(frozen=True, slots=True)
class Chance:
    """Chance in one scene; what takes long is worked out where it is asked for."""

    scene: Scene
    tails: dict[int, _Tails] = field(default_factory=dict)

    def beyond(self, key: Key, total: Floats, excess: Floats, off: Floats, asked: Bools) -> Beyond:
        """Return which of the workers that are asked for are beyond chance; all of them in roles of few.

        Args:
            total: Seconds per iteration of the unit, [W].
            excess: What of it is above the peers, time without a core taken off, [W].
            off: What was taken off, [W].
        """
        policy = self.scene.policy
        result = Beyond(asked.copy(), np.full(total.shape, np.nan, np.float32))
        before = self._before(key)
        for number, group in enumerate(self.scene.groups):
            if group.size >= policy.spread_peers and asked[group].any():
                tails = self._tails(number)
                apart = _differing(total[group], None if before is None else before[group], policy.noise_least_ratio)
                levels = self._spreads(apart.above, apart.spread, tails.now, tails.rows)
                who = excess[group] > levels * apart.spread
                if before is not None:
                    levels_new = self._spreads(apart.new, apart.new_spread, tails.new, tails.rows)
                    who |= apart.new - off[group] > levels_new * apart.new_spread
                result.who[group] &= who
                result.spreads[group] = levels
        return result

    def lasting(self, key: Key, noise: Floats) -> Floats:
        """Return what of the excess is expected of a worker of a role of few, since it was longer before, [W]; 0 in
        others, and where that was so far above the peers that it was a finding.

        Args:
            noise: Noise in the reference, seconds per iteration, NaN unknown, [W].
        """
        policy, before = self.scene.policy, self._before(key)
        result = np.zeros(self.scene.size, np.float32)
        if before is None:
            return result
        for group in self.scene.groups:
            if group.size < policy.spread_peers:
                then = before[group]
                peers = peers_median(then)
                above = np.nan_to_num(np.fmax(then - peers, 0))
                steady = np.nan_to_num(np.fmax(noise[group], spread(then)), nan=np.inf)
                far = (above > (policy.peers_factor - 1) * peers) | (above > policy.noise_levels * steady)
                found = far & (above >= policy.material_ratio * self.scene.reference_iteration)
                result[group] = np.where(found, 0, np.float32(_KEPT) * above)
        return result

    def _spreads(self, values: Floats, apart: float, usual: Tail | None, rows: Ints) -> float:
        """Return how many spreads above the others one healthy worker of a million is."""
        least = self.scene.policy.peers_spreads
        normal = known(least, values.size)
        if usual is None or not apart > 0:
            return normal
        own = tail_of_one(values[rows] / np.float32(apart), usual)
        return max(normal, own.bound(chance_of(least)))

    def _before(self, key: Key) -> Floats | None:
        """Seconds of the unit in the reference of every worker; None where it is the medians of roles, or none."""
        scene = self.scene
        if scene.reference is None or (scene.reference.ranks < 0).any():
            return None
        return to_workers(totals(scene.reference, key), scene.position, scene.groups)

    def _tails(self, number: int) -> _Tails:
        if number not in self.tails:
            self.tails[number] = self._fitted(self.scene.groups[number])
        return self.tails[number]

    def _fitted(self, group: Ints) -> _Tails:
        """Tails of all functions of a role together."""
        scene = self.scene
        rows = shared_peers(group.size, _WORKERS, _WORKERS, int(scene.policy.sample_seed))
        everyone = list(self._functions(group[rows]))
        healthy = np.ones(rows.size, bool)
        least = scene.policy.material_ratio * scene.iteration
        levels = known(scene.policy.peers_spreads, group.size)
        for apart in everyone:
            healthy &= (apart.above < least) | (apart.above <= levels * apart.spread)
        now = [apart.above[healthy] / np.float32(apart.spread) for apart in everyone]
        new = [apart.new[healthy] / np.float32(apart.new_spread) for apart in everyone if apart.new_spread > 0]
        both = (tail_of(np.concatenate(values)) if values else None for values in (now, new))
        return _Tails(rows[healthy], *both)

    def _functions(self, workers: Ints) -> Iterator[_Differing]:
        """What these workers differ by in each function that takes a while and is not the same on most of them."""
        scene = self.scene
        least = _FUNCTION * scene.iteration
        for key, functions in scene.columns.groups.items():
            if key[0] != "function" or scene.columns.largest[functions[0]] < _FUNCTION:
                continue
            total = totals(scene.columns, key)[workers]
            if scene.columns.functions[functions[0]].own and median(total) >= least:
                before = self._before(key)
                apart = _differing(total, None if before is None else before[workers], scene.policy.noise_least_ratio)
                if apart.spread > 0:
                    yield apart


def _differing(now: Floats, before: Floats | None, least: float) -> _Differing:
    """Compare the workers of a role. What lasts is the part of the difference before that is expected now: the
    regression of now on before, its moments taken from MADs. The rest is known no better than to the share ``least``.
    """
    above, apart = now - np.float32(median(now)), spread(now)
    if before is None:
        return _Differing(above, np.zeros_like(above), apart, apart)
    then = spread(before)
    slope = (apart**2 + then**2 - spread(now - before) ** 2) / (2 * then**2) if then > 0 else 0.0
    lasting = np.float32(min(max(slope, 0.0), 1.0)) * (before - np.float32(median(before)))
    return _Differing(above, lasting, apart, max(spread(above - lasting), least * median(now)))
