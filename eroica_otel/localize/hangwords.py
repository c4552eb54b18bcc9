"""Sentences about a hang: takes a scene and the ranks that are named, gives evidence and notes. Nothing is decided
here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from eroica_otel.localize.calls import Difference, call_of
from eroica_otel.localize.columns import ranks_text
from eroica_otel.localize.hangscene import HangScene, where
from eroica_otel.localize.sequence import Ahead, Lag, Unfinished
from eroica_otel.localize.stands import Stand
from eroica_otel.localize.wording import percent
from eroica_otel.model import WorkerWindow

_DOES = {
    "save": ("saves a checkpoint", "save a checkpoint"),
    "evaluation": ("runs an evaluation", "run an evaluation"),
    "debugger": ("is held in a debugger", "are held in a debugger"),
    "compilation": ("compiles", "compile"),
}

_PAUSES = ("pauses on purpose", "pause on purpose")


def seconds(length: float | None) -> str:
    """Return "34 s", "3.0 s" or "an unknown time"."""
    if length is None or not math.isfinite(length):
        return "an unknown time"
    return f"{length:.0f} s" if length >= 10 else f"{length:.1f} s"


def _is(ranks: Sequence[object], one: str, many: str) -> str:
    return one if len(ranks) == 1 else many


def _waiting(scene: HangScene, culprits: Sequence[int]) -> list[str]:
    """Say who waits, and in what."""
    waiting = [stand for stand in scene.stands if stand.waits and stand.rank not in culprits]
    if not waiting:
        return ["no other rank is seen to wait for it"] if scene.expected > 1 else []
    ranks = [stand.rank for stand in waiting]
    place = where(waiting)
    return [f"{ranks_text(ranks)} {_is(ranks, 'waits', 'wait')}{f' in {place}' if place else ' in a collective'}"]


def stopped(scene: HangScene, culprits: Sequence[Stand]) -> list[str]:
    """Say how long processes were in state T."""
    ranks = [stand.rank for stand in culprits]
    window = max((stand.window for stand in culprits), key=lambda each: each.stopped_seconds)
    process = _is(ranks, "its process was", "their processes were")
    text = f"{process} in state T (stopped) for {seconds(window.stopped_seconds)} of {seconds(window.seconds)}"
    return [text, *_waiting(scene, ranks)]


def dead(scene: HangScene, ranks: Sequence[int]) -> list[str]:
    """Say since when ranks are silent, or that they have ended."""
    texts = []
    gone = [rank for rank in ranks if rank in scene.gone]
    if gone:
        silences = [s for rank in gone if (s := scene.presence[rank].silent_seconds) is not None]
        length = f" for {seconds(min(silences))}" if silences else ""
        them = _is(gone, "it", "them")
        texts.append(f"{ranks_text(gone)} {_is(gone, 'is', 'are')} gone: nothing has come from {them}{length}")
    ended = [rank for rank in ranks if rank in scene.ended]
    if ended:
        they = f"{ranks_text(ended)} {_is(ended, 'has', 'have')} ended the training"
        texts.append(f"{they} while the others are in a collective that has not completed")
    return [*texts, *_waiting(scene, ranks)]


def unheard(scene: HangScene) -> list[str]:
    """Say who never delivered."""
    them = ranks_text(scene.unheard)
    text = f"nothing has ever come from {them}, while all ranks that deliver wait"
    if scene.calls is not None:
        text = f"there is no dump of {them}, while all ranks with one wait"
    return [text, *_waiting(scene, scene.unheard)]


def _stands(culprits: Sequence[Stand], *, samples: bool = True) -> list[str]:
    first = culprits[0]
    if not first.function:
        return []
    share = f" in {percent(min(stand.share for stand in culprits))} of the samples" if samples else ""
    return [f"{_is(culprits, 'stands', 'stand')} in {first.function}{share}"]


def _cpu(window: WorkerWindow) -> list[str]:
    cpu = window.cpu_seconds
    if cpu is None or not math.isfinite(cpu) or not window.seconds > 0:
        return []
    use = cpu / window.seconds
    what = "it computes" if use > 0.5 else "it waits for something outside" if use < 0.05 else "it is busy at times"
    used = f"{seconds(cpu)} of CPU time" if cpu >= 0.05 else "no CPU time"
    return [f"its training thread used {used} in {seconds(window.seconds)}: {what}"]


def in_python(scene: HangScene, culprits: Sequence[Stand]) -> list[str]:
    """Say where ranks stand that are in no wait frame."""
    ranks = [stand.rank for stand in culprits]
    held = _stands(culprits)
    text = f"{held[0]}, which is no wait for other ranks" if held else "stands in no wait frame"
    return [text, *_cpu(culprits[0].window), *_waiting(scene, ranks)]


def stalled(scene: HangScene, culprits: Sequence[Stand]) -> list[str]:
    """Say which save does not end."""
    frame = culprits[0].pause[1] if culprits[0].pause is not None else ""
    ranks = [stand.rank for stand in culprits]
    long = f"saves a checkpoint ({frame}) for longer than any save should take"
    return [long, *_stands(culprits), *_waiting(scene, ranks)]


def missing(scene: HangScene, culprits: Sequence[Stand], lags: Sequence[Lag], *, either: bool = False) -> list[str]:
    """Say by how many collectives ranks are behind, who is ahead, and where they stand instead.

    Args:
        either: Whether those ahead are so few that they may be the wrong ones.
    """
    lag, ranks = lags[0], [stand.rank for stand in culprits]
    ahead = f"{ranks_text(lag.waiters)} {_is(lag.waiters, 'has', 'have')} entered {lag.most:,} and"
    wait = _is(lag.waiters, "waits", "wait")
    if lag.mutual:
        first = f"waits for ranks that wait for it: it has entered {lag.entered:,} collectives of {group(lag.group)}"
    elif culprits[0].in_frame:
        first = f"left out a collective of {group(lag.group)}: it has entered {lag.entered:,}"
    else:
        first = f"is behind in {group(lag.group)}: it has entered {lag.entered:,} collectives"
    texts = [f"{first}, {ahead} {wait}"]
    if either:
        texts.append(
            f"or {ranks_text(lag.waiters)} entered one too many: {_is(lag.waiters, 'it is', 'they are')} ahead"
        )
    return [*texts, *_instead(scene, culprits, lag), *_waiting(scene, ranks)]


def _instead(scene: HangScene, culprits: Sequence[Stand], lag: Lag) -> list[str]:
    """Say where ranks that are behind stand, or, of a recorder, which collective they have not entered."""
    if scene.calls is not None:
        return called(scene, culprits, lag.group, lag.entered + 1)
    place = [f"it {text}" for text in _stands(culprits)] if len(culprits) == 1 else _stands(culprits)
    return place if culprits[0].in_frame or not culprits[0].read else [*place, *_cpu(culprits[0].window)]


def called(scene: HangScene, culprits: Sequence[Stand], name: str, number: int) -> list[str]:
    """Say which collective is missing, and from where ranks called one last, as far as a recorder tells."""
    call = call_of(scene.calls or {}, name, number)
    texts = [] if call is None else [f"what it has not entered is number {number:,}, {call.name}"]
    first = culprits[0]
    if first.stack:
        last = "the collective that it waits in" if first.in_frame else "its last collective"
        texts.append(f"{last} was called in {first.function}")
    return texts


def group(name: str) -> str:
    """Return "process group '0'"."""
    return f"process group {name!r}" if name else "a process group without a name"


def unfinished(scene: HangScene, which: Unfinished, ranks: Sequence[int]) -> list[str]:
    """Say that a collective does not end on some ranks alone."""
    call = call_of(scene.calls or {}, which.group, which.number)
    what = f"collective {which.number:,}{f' ({call.name})' if call is not None else ''} of {group(which.group)}"
    here = f"{ranks_text(ranks)}, which {_is(ranks, 'has', 'have')} entered it"
    text = f"{what} has completed on {ranks_text(which.others)}, not on {here}"
    why = "its device or its network does not get through what it was given"
    return [text, why, *_from(scene, ranks), *_waiting(scene, ranks)]


def ahead(found: Ahead) -> list[str]:
    """Say who has entered more, or fewer, than the many while all wait for the same."""
    one = _is(found.ranks, "is", "are")
    side = "ahead" if found.entered > found.most else "behind"
    text = (
        f"{ranks_text(found.ranks)} {one} {side} in {group(found.group)}: {_is(found.ranks, 'it has', 'they have')} "
        f"entered {found.entered:,} collectives, {ranks_text(found.others)} {_is(found.others, 'has', 'have')} "
        f"{found.most:,}"
    )
    return [text, f"all of them wait for number {found.number:,}, so they may not have called the same one"]


def differs(scene: HangScene, which: Difference, what: str, ranks: Sequence[int]) -> list[str]:
    """Say which collective is another one on some ranks."""
    (usual, many), *_ = which.sides
    text = (
        f"collective {which.number:,} of {group(which.group)} is {what} on {ranks_text(ranks)} and {usual} on "
        f"{ranks_text(many)}: these never meet"
    )
    return [text, *_from(scene, ranks), *_waiting(scene, ranks)]


def _from(scene: HangScene, ranks: Sequence[int]) -> list[str]:
    """Say from where ranks called what they wait in, as far as a recorder tells."""
    place = next((stand for stand in scene.stands if stand.rank in ranks and stand.stack), None)
    known = scene.calls is not None and place is not None and place.in_frame
    return [f"the collective that it waits in was called in {place.function}"] if known and place is not None else []


def split(which: Difference) -> str:
    """Say which collective is another one on ranks of which no side is the larger."""
    sides = ", ".join(f"{what} on {ranks_text(ranks)}" for what, ranks in which.sides)
    name = group(which.group)
    return f"not enough evidence: collective {which.number:,} of {name} is {sides}; either side may be the wrong one"


def transfer(scene: HangScene, rank: int, name: str, ends: tuple[int, int]) -> list[str]:
    """Say who has not begun its side of a transfer."""
    sender, receiver = ends
    does, other = ("receive from", sender) if rank == receiver else ("send to", receiver)
    text = f"has not begun to {does} rank {other}, which waits for it (a transfer in {group(name)})"
    stand = next(stand for stand in scene.stands if stand.rank == rank)
    return [text, *called(scene, [stand], "", 0), *_waiting(scene, [rank])]


def standing(name: str, members: Mapping[int, tuple[int, int | None]]) -> str:
    """Return "process group '0': ranks 0 to 2 have entered 42 and seen 41 complete; rank 3 has entered 41"."""
    alike: dict[tuple[int, int | None], list[int]] = {}
    for rank, counts in members.items():
        alike.setdefault(counts, []).append(rank)
    texts = []
    for (entered, done), ranks in sorted(alike.items(), key=lambda item: (-item[0][0], item[1])):
        seen = f" and seen {done:,} complete" if done is not None and done < entered else ""
        texts.append(f"{ranks_text(ranks)} {_is(ranks, 'has', 'have')} entered {entered:,}{seen}")
    return f"{group(name)}: {'; '.join(texts)}"


def unread(scene: HangScene, culprits: Sequence[Stand]) -> list[str]:
    """Say that no stack could be read."""
    ranks = [stand.rank for stand in culprits]
    text = f"no stack of {ranks_text(ranks)} could be read: it stands in a call that holds the interpreter"
    return [text, *_cpu(culprits[0].window), *_waiting(scene, ranks)]


def elsewhere(scene: HangScene, few: Sequence[Stand], many: Sequence[Stand], common: tuple[str, int]) -> list[str]:
    """Say that ranks are in another collective than the others."""
    name, number = common
    here = f"{ranks_text([s.rank for s in few])} {_is(few, 'waits', 'wait')} in {few[0].function}"
    there = f"{ranks_text([s.rank for s in many])} in {many[0].function}"
    text = f"{here}, {there}: collective {number:,} of {group(name)} is not the same one on all ranks"
    return [text]


def pause(scene: HangScene, pausing: Sequence[Stand]) -> str:
    """Return "rank 0 saves a checkpoint (torch.serialization:save); the others wait for it"."""
    ranks = sorted({*(stand.rank for stand in pausing), *scene.paused})
    shown = next((stand.pause for stand in pausing if stand.pause is not None), None)
    does = _is(ranks, *_PAUSES) if shown is None else f"{_is(ranks, *_DOES.get(shown[0], _PAUSES))} ({shown[1]})"
    others = len(ranks) < scene.expected
    return f"{ranks_text(ranks)} {does}" + (f"; the others wait for {_is(ranks, 'it', 'them')}" if others else "")


def ended(scene: HangScene) -> str:
    """Say that the training has ended on some ranks and nobody waits for them in a collective."""
    they = f"{ranks_text(scene.ended)} {_is(scene.ended, 'has', 'have')}"
    return f"the training has ended: {they} finished, and no rank is in a collective that has not completed"


def moves(scene: HangScene) -> str:
    """Say that the training went on before it was judged."""
    ranks = [stand.rank for stand in scene.stands]
    return f"the training goes on: {ranks_text(ranks)} {_is(ranks, 'has', 'have')} events again since the window"


def left(scene: HangScene, stands: Sequence[Stand]) -> str:
    """Say that all ranks stand outside the training loop."""
    place = stands[0].function
    who = "the only rank stands" if scene.expected == 1 else "all ranks that report stand"
    return f"the training has left its loop: {who} in {place}, outside of it, and nobody waits in a collective"


def nobody_waits(scene: HangScene) -> str:
    """Return why nobody is named where nobody waits."""
    places = ", ".join(dict.fromkeys(stand.function for stand in scene.stands if stand.function)) or "unknown places"
    if len(places) > 200:
        places = f"{places[:200]} ..."
    if scene.expected == 1:
        return f"not enough evidence: the rank stands in {places}, which no earlier window shows as part of its loop"
    return f"not enough evidence: no rank is seen to wait for another; they stand in {places}"


def all_wait(scene: HangScene, waiting: Sequence[Stand], common: tuple[str, int] | None) -> str:
    """Return why nobody is named where all wait."""
    ranks = [stand.rank for stand in waiting]
    place = f" in {where(waiting)}" if where(waiting) else ""
    who = f"all {len(ranks)} ranks" if len(ranks) == scene.expected > 1 else ranks_text(ranks)
    text = f"not enough evidence: {who} {_is(ranks, 'waits', 'wait')}{place}"
    if common is not None and len(waiting) == scene.expected:
        name, number = common
        entered = f"collective {number:,} of {group(name)} was entered by all and completed by none"
        return f"{text}; {entered}: look at the network and at the library between them"
    if len(scene.stands) < scene.expected:
        return f"{text}, and the others have not reported"
    return f"{text}, and nothing shows for whom"
