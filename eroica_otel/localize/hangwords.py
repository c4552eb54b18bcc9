"""Sentences about a hang: takes a scene and the ranks that are named, gives evidence and notes. Nothing is decided
here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from eroica_otel.localize.columns import ranks_text
from eroica_otel.localize.hangscene import HangScene, where
from eroica_otel.localize.sequence import Lag
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


def missing(scene: HangScene, culprits: Sequence[Stand], lags: Sequence[Lag]) -> list[str]:
    """Say by how many collectives ranks are behind, and where they stand instead."""
    lag, ranks = lags[0], [stand.rank for stand in culprits]
    ahead = f"{ranks_text(lag.waiters)} {_is(lag.waiters, 'has', 'have')} entered {lag.most:,} and"
    wait = _is(lag.waiters, "waits", "wait")
    group = f"process group {lag.group!r}" if lag.group else "a process group without a name"
    if lag.mutual:
        first = f"waits for ranks that wait for it: it has entered {lag.entered:,} collectives of {group}"
    elif culprits[0].in_frame:
        first = f"left out a collective of {group}: it has entered {lag.entered:,}"
    else:
        first = f"is behind in {group}: it has entered {lag.entered:,} collectives"
    place = [f"it {text}" for text in _stands(culprits)] if len(culprits) == 1 else _stands(culprits)
    cpu = [] if culprits[0].in_frame or not culprits[0].read else _cpu(culprits[0].window)
    return [f"{first}, {ahead} {wait}", *place, *cpu, *_waiting(scene, ranks)]


def unread(scene: HangScene, culprits: Sequence[Stand]) -> list[str]:
    """Say that no stack could be read."""
    ranks = [stand.rank for stand in culprits]
    text = f"no stack of {ranks_text(ranks)} could be read: it stands in a call that holds the interpreter"
    return [text, *_cpu(culprits[0].window), *_waiting(scene, ranks)]


def elsewhere(scene: HangScene, few: Sequence[Stand], many: Sequence[Stand], common: tuple[str, int]) -> list[str]:
    """Say that ranks are in another collective than the others."""
    group, number = common
    here = f"{ranks_text([s.rank for s in few])} {_is(few, 'waits', 'wait')} in {few[0].function}"
    there = f"{ranks_text([s.rank for s in many])} in {many[0].function}"
    text = f"{here}, {there}: collective {number:,} of process group {group!r} is not the same one on all ranks"
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
        group, number = common
        entered = f"collective {number:,} of process group {group!r} was entered by all and completed by none"
        return f"{text}; {entered}: look at the network and at the library between them"
    if len(scene.stands) < scene.expected:
        return f"{text}, and the others have not reported"
    return f"{text}, and nothing shows for whom"
