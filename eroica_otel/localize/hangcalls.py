"""What only a flight recorder's dump tells of a hang: takes a scene with single calls, gives findings.

Which collective differs, whose device does not get through, who has not begun its side of a transfer. These rows stand
beside those that live windows share (hang.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from eroica_otel.localize import hangwords as words
from eroica_otel.localize.calls import ARROW, call_of, differences, ends_everywhere, transfers
from eroica_otel.localize.columns import ranks_text
from eroica_otel.localize.hangscene import HangScene, hang_finding
from eroica_otel.localize.sequence import lags, unfinished
from eroica_otel.model import Finding

_ELSEWHERE = (
    "find out where this rank stands: its log, its stack (py-spy dump), its process state; then compare its code path "
    "with the others'"
)
_DEVICE = "look at this rank's device and links: the kernel's log (Xid), its own log, memory errors, NVLink and NIC"


def behind(findings: Sequence[Finding]) -> list[Finding]:
    """Give ranks that are behind the advice for it: a dump does not tell where they are instead."""
    return [replace(finding, advice=_ELSEWHERE) for finding in findings]


def differing(scene: HangScene) -> list[Finding]:
    """Who called another collective than the many, or one of another size, as number N of one group."""
    stands = {stand.rank: stand for stand in scene.stands}
    found: list[Finding] = []
    named: set[int] = set()
    for each in differences(scene.calls or {}):
        (_, many), *few = each.sides
        count = sum(len(ranks) for _, ranks in few)
        if len(many) <= count or not named.isdisjoint(rank for _, ranks in few for rank in ranks):
            continue
        for what, ranks in few:
            named.update(ranks)
            evidence = words.differs(scene, each, what, ranks)
            found.append(hang_finding(scene, "hang_missing_rank", ranks, stands[ranks[0]], evidence, sure=False))
    return found


def held_up(scene: HangScene) -> list[Finding]:
    """Whose device does not get through a collective that needs all ranks, and that others got through."""
    open_ = [
        each
        for each in unfinished({stand.rank: stand.window.progress for stand in scene.stands})
        if ends_everywhere(call_of(scene.calls or {}, each.group, each.number))
    ]
    found: list[Finding] = []
    named: set[int] = set()
    for each in sorted(open_, key=lambda one: (-len(one.ranks), one.group)):
        ranks = [rank for rank in each.ranks if rank not in named]
        if ranks:
            named.update(ranks)
            evidence = words.unfinished(scene, each, ranks)
            # Not the function: it was left long ago, the device is where the rank does not get on.
            one = hang_finding(scene, "hang_missing_rank", ranks, None, evidence, sure=True)
            found.append(replace(one, advice=_DEVICE))
    return found


def transferring(scene: HangScene) -> list[Finding]:
    """Who has not begun its side of a transfer between two ranks; sure where it has nothing else to wait for."""
    stands = {stand.rank: stand for stand in scene.stands}
    found: list[Finding] = []
    for lag in lags(transfers(scene.calls or {})):
        if lag.mutual:
            return []
        name, _, ends = lag.group.rpartition(": ")
        sender, receiver = ends.split(ARROW)
        evidence = words.transfer(scene, lag.rank, name, (int(sender), int(receiver)))
        stand = stands[lag.rank]
        found.append(hang_finding(scene, "hang_missing_rank", [lag.rank], stand, evidence, sure=not stand.waits))
    return behind(found)


def idle(scene: HangScene) -> list[Finding]:
    """Who has no call that has not ended, while all others have."""
    mute = [stand for stand in scene.stands if not stand.waits]
    if not mute or 2 * len(mute) >= len(scene.stands):
        return []
    ranks = [stand.rank for stand in mute]
    text = f"{ranks_text(ranks)}: every collective that was entered has ended, and all others wait"
    evidence = [text, *words.called(scene, mute, "", 0)]
    return behind([hang_finding(scene, "hang_missing_rank", ranks, mute[0], evidence, sure=False)])
