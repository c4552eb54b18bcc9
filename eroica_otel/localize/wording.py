"""Sentences of evidence: takes numbers in seconds and shares, gives text with units. Nothing is decided here."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

import numpy as np

from eroica_otel.localize.blame import Blame, waits_in
from eroica_otel.localize.columns import Bools, Floats, Ints, ranks_text
from eroica_otel.localize.compare import median
from eroica_otel.localize.excess import Judgement
from eroica_otel.localize.scene import Scene


def duration(seconds: float) -> str:
    """Return "0.4 ms", "46 ms" or "1.2 s"."""
    if not math.isfinite(seconds):
        return "an unknown time"
    if abs(seconds) >= 1:
        return f"{seconds:.1f} s"
    milliseconds = seconds * 1000
    if abs(milliseconds) < 0.05:
        return "0 ms"
    return f"{milliseconds:.0f} ms" if abs(milliseconds) >= 9.95 else f"{milliseconds:.1f} ms"


def percent(share: float) -> str:
    """Return "22 %" or "1.8 %"."""
    if not math.isfinite(share):
        return "an unknown share"
    return f"{100 * share:.0f} %" if abs(share) >= 0.0995 or share == 0 else f"{100 * share:.1f} %"


def between(values: Floats) -> str:
    """Return "61 to 64 ms", or one duration where both ends read alike."""
    low, high = duration(float(values.min())), duration(float(values.max()))
    if low == high:
        return low
    number, _, unit = low.partition(" ")
    return f"{number} to {high}" if high.endswith(f" {unit}") else f"{low} to {high}"


def work_evidence(scene: Scene, judgement: Judgement, workers: Sequence[int]) -> tuple[str, ...]:
    """Say how long the unit takes on the culprits, on their peers and in the reference, and where it is spread over
    many.
    """
    at = list(workers)
    others = others_of(scene, workers)
    total, on = median(judgement.now.total[at]), median(judgement.now.on[at])
    peers, on_peers = median(judgement.now.total[others]), median(judgement.now.on[others])
    if math.isfinite(on) and on >= 0.5 * total:
        first = f"own CPU time {duration(on)} an iteration, its peers {duration(on_peers)}"
    elif math.isfinite(on):
        first = f"takes {duration(total)} an iteration ({duration(on)} of it on the CPU), its peers {duration(peers)}"
    else:
        first = f"takes {duration(total)} an iteration, its peers {duration(peers)}"
    return (f"{first}{_before(judgement, at)}", *_in_loader(judgement), *_spread_over(scene, judgement, workers))


def _in_loader(judgement: Judgement) -> tuple[str, ...]:
    return ("runs in a process of the DataLoader, whose batch the training waits for",) * (judgement.family == "loader")


def others_of(scene: Scene, workers: Sequence[int]) -> Bools:
    """Return who has a role of these workers and is none of them, [W]."""
    return np.asarray(scene.of_roles(workers) & ~scene.mask(workers), bool)


def _before(judgement: Judgement, at: Sequence[int]) -> str:
    reference = median(judgement.reference[list(at)])
    if not math.isfinite(reference):
        return ""
    if not judgement.known_before:
        return "; absent in the reference window"
    return f"; {duration(reference)} in the reference window"


def beside_evidence(scene: Scene, units: Sequence[Judgement], workers: Sequence[int]) -> tuple[str, ...]:
    """Say in what else the same fault shows, on the culprit that it makes longest, or on all."""
    if not workers:
        return tuple(
            f"the same shows in {_called(unit)}: {duration(median(unit.now.total))} an iteration on the median rank"
            f"{_before(unit, range(scene.size))}"
            for unit in units
        )
    at, others = np.array(workers), others_of(scene, workers)
    found = []
    for unit in units:
        total = unit.now.total
        worst = int(at[np.argmax(total[at])])
        where = f" on rank {scene.columns.ranks[worst]}" if at.size > 1 else ""
        spent = f"{duration(float(total[worst]))} an iteration, its peers {duration(median(total[others]))}"
        found.append(f"the same fault shows in {_called(unit)}{where}: {spent}")
    return tuple(found)


def _called(unit: Judgement) -> str:
    """Return what a unit is called: its function, or the family or kind that it is the sum of."""
    sums = {"family": f"the family {unit.family}", "kind": f"the kind {unit.kind}"}
    return unit.name or sums.get(unit.key[0], "all own work")


def _spread_over(scene: Scene, judgement: Judgement, workers: Sequence[int]) -> tuple[str, ...]:
    level = judgement.key[0]
    if level in ("function", "name"):
        return ()
    what = {"family": f"family {judgement.family}", "kind": f"kind {judgement.kind}"}.get(level, "all own work")
    return (f"this is the sum of {what}: no single function explains it",)


def everyone_evidence(scene: Scene, judgement: Judgement) -> tuple[str, ...]:
    """Say how a unit changed on all workers against the reference."""
    now, before = median(judgement.now.total), median(judgement.reference)
    was = f"{duration(before)} in the reference window" if judgement.known_before else "absent in the reference window"
    cpu = median(judgement.now.on)
    on = f" ({duration(cpu)} of it on the CPU)" if math.isfinite(cpu) else ""
    return (
        f"takes {duration(now)} an iteration on the median rank{on}; {was}",
        iteration_evidence(scene),
        *_in_loader(judgement),
        *_spread_over(scene, judgement, ()),
    )


def iteration_evidence(scene: Scene) -> str:
    """Say how the iteration changed."""
    return (
        f"an iteration takes {duration(scene.iteration)}, {duration(scene.reference_iteration)} in the reference window"
    )


def core_evidence(scene: Scene, workers: Sequence[int]) -> tuple[str, ...]:
    """Say how long the culprits and their peers were without a core, nothing where it is unknown."""
    at, others = list(workers), others_of(scene, workers)
    texts = []
    for what, column in (("throttled", scene.columns.throttle), ("without a core", scene.columns.delay)):
        mine, theirs = median(column[at]), median(column[others])
        if math.isfinite(mine) and math.isfinite(theirs):
            texts.append(f"{what} {percent(mine)} of the window, its peers {percent(theirs)}")
    return tuple(texts)


def waiting_evidence(scene: Scene, workers: Sequence[int], blame: Blame, culprits: Collection[int]) -> tuple[str, ...]:
    """Say who waits for whom, or why the waiting does not confirm."""
    if not math.isfinite(blame.gap):
        return ("no other rank's waiting can be compared, so nothing confirms it",)
    others = ~scene.mask(culprits)
    mine, theirs = scene.columns.ranks[list(workers)], scene.columns.ranks[others]
    numbers = (
        f"{ranks_text(mine)} {_verb(mine)} {between(scene.waiting[list(workers)])}{_where(scene, others)}, "
        f"{ranks_text(theirs)} {_verb(theirs)} {between(scene.waiting[others])}"
    )
    if blame.confirms:
        return (f"the others wait for {'it' if len(mine) == 1 else 'them'}: {numbers}",)
    gap = f"{duration(blame.gap)}, {percent(blame.gap / scene.iteration)} of the iteration"
    return (f"the waiting does not confirm it (gap {gap}): {numbers}",)


def _where(scene: Scene, waiting: Bools) -> str:
    """Name where they wait; the time that is told holds the wait frames too."""
    where = waits_in(scene, waiting)
    frames = scene.columns.groups.get(("family", "python", "wait"), ())
    beside = any(scene.columns.functions[at].name != where for at in frames)
    return f" in {where}{' and wait frames' if beside else ''}" if where else ""


def _verb(ranks: Ints) -> str:
    return "waits" if len(ranks) == 1 else "wait"
