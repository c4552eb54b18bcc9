"""A window in which nothing moved, with all that judging it needs: takes windows and presences, gives a scene, and
findings and victims from it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from eroica_otel.localize.calls import Calls
from eroica_otel.localize.causes import BY_NAME
from eroica_otel.localize.policy import Policy
from eroica_otel.localize.presence import Presence
from eroica_otel.localize.sequence import outstanding
from eroica_otel.localize.stands import Stand, stand_of
from eroica_otel.model import Finding, Victims, WorkerWindow

NAMED_MOST = 1000
"""Missing ranks that one finding names."""
_NOBODY = Presence()


@dataclass(frozen=True, slots=True)
class HangScene:
    """One blocked window.

    Attributes:
        stands: One per rank that reported and has not finished since, by rank.
        presence: What is known of ranks beside their windows.
        expected: Workers the job should have.
        gone: Ranks that delivered once, report nothing now and are silent.
        unheard: Ranks that never delivered.
        ended: Ranks that have finished their training.
        paused: Ranks without a window that say that they pause.
        outstanding: A rank has entered a collective that has not completed.
        silent_seconds: Longest time since an event of the training, NaN unknown.
        calls: Single collectives by rank where a flight recorder's dump tells them; None of a live window. Then a
            stack is where a collective was called, and not where the rank stands now.
    """

    stands: tuple[Stand, ...]
    presence: Mapping[int, Presence]
    expected: int
    policy: Policy
    gone: tuple[int, ...]
    unheard: tuple[int, ...]
    ended: tuple[int, ...]
    paused: tuple[int, ...]
    outstanding: bool
    silent_seconds: float
    calls: Calls | None = None

    def places(self) -> dict[int, tuple[str, str]]:
        """Return host and role of each rank that is known, "" where they are not."""
        known = {rank: (each.host, each.role) for rank, each in self.presence.items() if rank < self.expected}
        reported = (stand.window.identity for stand in self.stands)
        return known | {who.rank: (who.host, who.role) for who in reported}


def scene_of_hang(
    windows: Sequence[WorkerWindow],
    presence: Mapping[int, Presence],
    expected: int,
    policy: Policy,
    calls: Calls | None = None,
) -> HangScene:
    """Return the scene of a window with one WorkerWindow per rank."""
    ordered = sorted(windows, key=lambda window: window.identity.rank)
    known = {rank: each for rank, each in sorted(presence.items()) if rank < expected}
    ended = tuple(rank for rank, each in known.items() if each.state == "finished")
    done = frozenset(ended)
    ordered = [window for window in ordered if window.identity.rank not in done]
    stands = tuple(stand_of(w, presence.get(w.identity.rank, _NOBODY).state, policy) for w in ordered)
    here = {stand.rank for stand in stands} | done
    absent = {rank: each for rank, each in known.items() if rank not in here}
    silences = [w.silent_seconds for w in ordered if w.silent_seconds is not None and math.isfinite(w.silent_seconds)]
    return HangScene(
        stands, presence, expected, policy,
        gone=tuple(rank for rank, each in absent.items() if each.gone)[:NAMED_MOST],
        # Without any presence nothing is known of who delivered when: absence says nothing then.
        unheard=tuple(islice((r for r in range(expected) if r not in known and r not in here), NAMED_MOST))
        if presence
        else (),
        ended=ended[:NAMED_MOST],
        paused=tuple(rank for rank, each in absent.items() if each.state == "paused")[:NAMED_MOST],
        outstanding=any(outstanding(window.progress) for window in ordered),
        silent_seconds=max(silences, default=math.nan),
        calls=calls,
    )  # fmt: skip


def hang_finding(
    scene: HangScene, cause: str, ranks: Sequence[int], stand: Stand | None, evidence: Sequence[str], *, sure: bool
) -> Finding:
    """Return the finding about ranks that hold up the whole job; ``stand`` is where they stand, None unknown.

    The whole iteration is lost while it lasts: impact 1.0, in seconds the time since the last event.
    """
    row = BY_NAME[cause]
    everyone = len(ranks) >= scene.expected > 1
    places = scene.places()
    own = [places[rank] for rank in ranks if rank in places]
    hosts = tuple(dict.fromkeys(host for host, _ in own if host))
    return Finding(
        verdict="job" if everyone else "culprit", cause=cause, domain=row.domain, severity="critical",
        confidence="high" if sure else "low", scope="job" if everyone else _scope(ranks, hosts, places),
        kind="python" if stand is not None and stand.function else "",
        function=stand.function if stand is not None else "",
        function_id=stand.function_id if stand is not None else "",
        stack=stand.stack if stand is not None else (),
        ranks=() if everyone else tuple(ranks), hosts=() if everyone else hosts,
        roles=() if everyone else tuple(dict.fromkeys(role for _, role in own if role)),
        impact_ratio=1.0, impact_seconds=scene.silent_seconds,
        expectation_distance=None, differential_distance=None, drift_distance=None,
        persistence="once", evidence=tuple(evidence), advice=row.advice,
    )  # fmt: skip


def _scope(ranks: Sequence[int], hosts: Collection[str], places: Mapping[int, tuple[str, str]]) -> str:
    """Return node where the culprits are all workers of hosts that have several, else worker."""
    there = sum(host in hosts for host, _ in places.values())
    return "node" if hosts and there == len(ranks) and len(ranks) > len(hosts) else "worker"


def victims_of_hang(scene: HangScene, finding: Finding, findings: Sequence[Finding]) -> Iterator[Victims]:
    """Yield the ranks that wait for a finding's ranks and are in no finding."""
    culprits = {rank for each in findings for rank in each.ranks}
    waiting = [stand for stand in scene.stands if stand.waits and stand.rank not in culprits]
    held = _held_up(scene, finding.ranks, waiting)
    if held and finding.ranks:
        yield Victims(tuple(stand.rank for stand in held), where(held), finding.ranks)


def _held_up(scene: HangScene, culprits: Sequence[int], waiting: Sequence[Stand]) -> list[Stand]:
    """Return who waits in a process group of a culprit, or in one of somebody who does, and so on: a standstill goes on
    from group to group. Who tells no groups may wait for anybody, and all may where those of a culprit are not known.
    """
    groups = {stand.rank: frozenset(stand.window.progress) for stand in scene.stands}
    if not all(groups.get(rank) for rank in culprits):
        return list(waiting)
    reached = frozenset().union(*(groups[rank] for rank in culprits))
    found: set[int] = set()
    while more := {s.rank for s in waiting if s.rank not in found and not groups[s.rank].isdisjoint(reached)}:
        found |= more
        reached = reached.union(*(groups[rank] for rank in more))
    return [stand for stand in waiting if stand.rank in found or not groups[stand.rank]]


def where(stands: Sequence[Stand]) -> str:
    """Return the function in which most of these ranks wait, "" unknown."""
    names = Counter(stand.function for stand in stands if stand.in_frame and stand.function)
    return names.most_common(1)[0][0] if names else ""
