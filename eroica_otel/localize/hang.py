"""The verdict on a window in which nothing moved: takes blocked windows and what is known of the ranks, gives the
report.

The table of docs/method.md in its order: stopped, dead, pause, stalled save, missing by collective sequence, a
collective that does not complete there alone, stack not in a wait frame, unread, another collective than the others,
ahead of the others, never heard. Nobody is named without evidence. What only a flight recorder tells is in
hangcalls.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from eroica_otel.localize import hangcalls
from eroica_otel.localize import hangwords as words
from eroica_otel.localize.calls import Calls
from eroica_otel.localize.hangscene import HangScene, hang_finding, scene_of_hang, victims_of_hang
from eroica_otel.localize.policy import Policy
from eroica_otel.localize.presence import Presence
from eroica_otel.localize.sequence import ahead, common_collective, lags, unfinished
from eroica_otel.localize.stands import Stand, inside_loop, usual_frames
from eroica_otel.model import Finding, Report, WorkerWindow

_DEAD = "find out why this worker is gone: its log and exit code, the kernel's log (out of memory), its node's network"
_MOVING = ("learning", "healthy", "degraded")


def is_hang(windows: Sequence[WorkerWindow], policy: Policy) -> bool:
    """Return whether nothing moved in the window: reason blocked, or a hang inside a window of another reason."""
    if any(window.reason == "blocked" for window in windows):
        return True
    silent = [w.silent_seconds for w in windows if w.silent_seconds is not None]
    return bool(silent) and max(silent) >= policy.hang_least_seconds and not any(w.iterations > 0 for w in windows)


def judge_hang(
    base: Report,
    windows: Sequence[WorkerWindow],
    reference: Sequence[WorkerWindow],
    presence: Mapping[int, Presence],
    policy: Policy,
    calls: Calls | None = None,
) -> Report:
    """Return the verdict on a hang.

    Args:
        base: The report without a verdict.
        windows: One per rank.
        reference: Healthy windows of the job, () without; their stacks tell what belongs to the training loop.
        presence: What is known of ranks beside their windows.
        policy: Thresholds.
        calls: Single collectives by rank, of a flight recorder; None of a live window.
    """
    scene = scene_of_hang(windows, presence, base.workers_expected, policy, calls)
    found = list(_proven(scene))
    note = "" if found else _no_hang(scene, reference)
    if not note and not any(finding.confidence == "high" for finding in found):
        found += _shown(scene, reference)
    if not found and not note:
        note = _not_enough(scene)
    victims = tuple(one for finding in found for one in victims_of_hang(scene, finding, found))
    notes = (*((note,) if note else ()), *base.notes)
    return replace(base, findings=tuple(found), victims=victims, notes=notes)


def _proven(scene: HangScene) -> Iterator[Finding]:
    """Yield what the state of a process proves, whatever the stacks show."""
    stopped = [stand for stand in scene.stands if stand.stopped]
    if stopped:
        yield hang_finding(
            scene, "process_stopped", [s.rank for s in stopped], None, words.stopped(scene, stopped), sure=True
        )
        return
    dead = scene.gone + (scene.ended if scene.outstanding else ())
    if dead:
        others = [stand for stand in scene.stands if stand.read or stand.window.progress]
        sure = all(stand.waits or _pauses(stand, scene.policy) for stand in others) and len(dead) < scene.expected
        evidence = words.dead(scene, dead)
        yield replace(hang_finding(scene, "hang_missing_rank", dead, None, evidence, sure=sure), advice=_DEAD)


def _no_hang(scene: HangScene, reference: Sequence[WorkerWindow]) -> str:
    """Return why this is no hang: a pause, the end of the training, or a loop that was left; "" where it is one."""
    pausing = [stand for stand in scene.stands if _pauses(stand, scene.policy)]
    if pausing or scene.paused:
        return words.pause(scene, pausing)
    if scene.ended and not scene.outstanding:
        return words.ended(scene)
    if scene.stands and all(stand.state in _MOVING for stand in scene.stands):
        return words.moves(scene)
    usual = usual_frames(reference)
    left = [s for s in scene.stands if s.read and usual and not inside_loop(s, usual)]
    if left and len(left) == len(scene.stands) and not any(stand.waits for stand in scene.stands):
        return words.left(scene, left)
    return ""


def _pauses(stand: Stand, policy: Policy) -> bool:
    """Whether the rank pauses on purpose; who says itself that it is blocked has passed the limit of a pause."""
    if stand.pause is None:
        return False
    if stand.pause[0] == "debugger" or stand.state == "paused":
        return True
    return stand.state != "blocked" and (stand.window.silent_seconds or 0.0) < policy.pause_most_seconds


def _shown(scene: HangScene, reference: Sequence[WorkerWindow]) -> list[Finding]:
    """Return what the first row of the table finds that finds anything."""
    rows: tuple[Callable[[HangScene], list[Finding]], ...] = (
        _stalled, _missing, _unfinished, _in_python, _unread, _elsewhere, _ahead, _unheard,
    )  # fmt: skip
    if scene.calls is not None:
        rows = (
            hangcalls.differing, hangcalls.held_up, _missing, hangcalls.transferring, hangcalls.idle, _elsewhere,
            _ahead, _unheard,
        )  # fmt: skip
    for row in rows:
        found = row(scene)
        if found:
            return found
    return _everybody(scene, reference) if scene.calls is None else []


def _blamable(scene: HangScene) -> list[Stand]:
    return [stand for stand in scene.stands if not _pauses(stand, scene.policy)]


def _stalled(scene: HangScene) -> list[Finding]:
    saving = [stand for stand in _blamable(scene) if stand.pause is not None and stand.pause[0] == "save"]
    writing = [stand for stand in saving if not stand.in_frame]
    return [
        hang_finding(scene, "checkpoint_stall", [s.rank for s in same], same[0], words.stalled(scene, same), sure=True)
        for same in _together(writing)
    ]


def _missing(scene: HangScene) -> list[Finding]:
    """Who is behind by sequence: in code that is no wait it hangs there, else it left a collective out.

    Of ranks that wait for each other the few are named, who went another way than the many.
    """
    waiting = [stand.rank for stand in scene.stands if stand.in_frame]
    found = lags({stand.rank: stand.window.progress for stand in scene.stands if stand.window.progress}, waiting)
    by_rank = {lag.rank: lag for lag in found}
    mutual = any(lag.mutual for lag in found)
    behind = [stand for stand in scene.stands if stand.rank in by_rank]
    places = _together(behind)
    many = max(places, key=len, default=[])
    result = []
    for same in places:
        if mutual and same is many and 2 * len(many) > len(behind) > len(many):
            continue
        own = same[0].read and not same[0].in_frame and not mutual and scene.calls is None
        mine = [by_rank[stand.rank] for stand in same]
        # Where most are behind and in no code of their own, the few ahead may as well have called one too many.
        either = not own and len(found) > len({rank for lag in found for rank in lag.waiters})
        evidence = words.missing(scene, same, mine, either=either)
        cause = "hang_in_python" if own else "hang_missing_rank"
        result.append(
            hang_finding(scene, cause, [s.rank for s in same], same[0], evidence, sure=not mutual and not either)
        )
    return result if scene.calls is None else hangcalls.behind(result)


def _unfinished(scene: HangScene) -> list[Finding]:
    """Who has not got through a collective that others of its group got through, where nobody is missing.

    A broadcast ends early on its root, and the window does not tell which collective it is: low confidence.
    """
    stands = {stand.rank: stand for stand in scene.stands}
    for each in unfinished({rank: stand.window.progress for rank, stand in stands.items() if stand.window.progress}):
        if len(each.ranks) < len(each.others):
            evidence = words.unfinished(scene, each, each.ranks)
            return [hang_finding(scene, "hang_missing_rank", each.ranks, stands[each.ranks[0]], evidence, sure=False)]
    return []


def _in_python(scene: HangScene) -> list[Finding]:
    own = [stand for stand in _blamable(scene) if stand.read and not stand.waits]
    if not own or not any(stand.waits for stand in scene.stands):
        return []
    return [
        hang_finding(scene, "hang_in_python", [s.rank for s in same], same[0], words.in_python(scene, same), sure=True)
        for same in _together(own)
    ]


def _unread(scene: HangScene) -> list[Finding]:
    """Who reports but shows no stack while all others wait stands in a call that holds the interpreter."""
    mute = [stand for stand in scene.stands if not stand.read and not stand.waits]
    others = [stand for stand in scene.stands if stand not in mute]
    if not mute or not others or len(mute) >= len(others) + 1 or not all(stand.waits for stand in others):
        return []
    ranks = [stand.rank for stand in mute]
    return [hang_finding(scene, "hang_in_python", ranks, None, words.unread(scene, mute), sure=False)]


def _elsewhere(scene: HangScene) -> list[Finding]:
    """Who is in another collective than the many, where all have entered equally many of the same group."""
    stands = [stand for stand in scene.stands if stand.in_frame]
    common = common_collective({stand.rank: stand.window.progress for stand in stands})
    if common is None or len(stands) < max(scene.expected, 3):
        return []
    places = _together(stands)
    many = max(places, key=len)
    if 2 * len(many) <= len(stands) or len(places) == 1:
        return []
    return [
        hang_finding(
            scene, "hang_missing_rank", [s.rank for s in few], few[0], words.elsewhere(scene, few, many, common),
            sure=False,
        )
        for few in places
        if few is not many
    ]  # fmt: skip


def _ahead(scene: HangScene) -> list[Finding]:
    """Who has entered more or fewer than the many, where all wait for the same collective of one group."""
    stands = {stand.rank: stand for stand in scene.stands}
    found = ahead({rank: stand.window.progress for rank, stand in stands.items() if stand.window.progress})
    if found is None or len(stands) < scene.expected:
        return []
    evidence = words.ahead(found)
    return [hang_finding(scene, "hang_missing_rank", found.ranks, stands[found.ranks[0]], evidence, sure=False)]


def _unheard(scene: HangScene) -> list[Finding]:
    """Who never delivered while all that did wait; where most never did, deliveries are what is missing."""
    few = len(scene.unheard) > 0 and 2 * len(scene.places()) > scene.expected
    if not few or not scene.stands or not all(stand.waits for stand in scene.stands):
        return []
    evidence = words.unheard(scene)
    found = hang_finding(scene, "hang_missing_rank", scene.unheard, None, evidence, sure=False)
    return [replace(found, advice=_DEAD)]


def _everybody(scene: HangScene, reference: Sequence[WorkerWindow]) -> list[Finding]:
    """Nobody waits: all ranks stand in the same thing that the training loop calls."""
    usual = usual_frames(reference)
    inside = [stand for stand in scene.stands if stand.read and inside_loop(stand, usual)]
    if not inside or len(inside) < scene.expected or any(stand.waits for stand in scene.stands):
        return []
    return [
        hang_finding(scene, "hang_in_python", [s.rank for s in same], same[0], words.in_python(scene, same), sure=False)
        for same in _together(inside)
    ]


def _together(stands: Sequence[Stand]) -> list[list[Stand]]:
    """Return the stands by the place at which they are, in the order of their ranks."""
    places: dict[tuple[str, ...], list[Stand]] = {}
    for stand in stands:
        places.setdefault(stand.stack, []).append(stand)
    return list(places.values())


def _not_enough(scene: HangScene) -> str:
    waiting = [stand for stand in scene.stands if stand.waits]
    if not scene.stands:
        return "not enough evidence: no worker reported a usable window"
    if not waiting:
        return words.nobody_waits(scene)
    common = common_collective({stand.rank: stand.window.progress for stand in scene.stands})
    return words.all_wait(scene, waiting, common)
