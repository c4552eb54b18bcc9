"""Rows of hooks.py -> iterations. Pure; learns what an iteration of this loop is (docs/method.md).

A *segment* is everything up to the last update before the next input (on ranks without inputs: from one update of the
counted optimizer to the next). Its signature is (inputs of the loader last used before the update, optimizers with
runs collapsed). The shortest period of segments that repeats ``repeats`` times is the iteration.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

LONGEST_PERIOD = 16
LONGEST_SEGMENT = 256
"""Updates after one input, after which inputs have ended and the loop is timed from update to update."""

Signature = tuple[int, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Iteration:
    """One learned iteration.

    Attributes:
        number: Updates of the counted optimizer when it ended; equal on all ranks.
        updates: How many of them are its own (5 where a critic is updated five times).
        start_ns: Start of its first input, or the update before it on ranks without inputs.
        duration_seconds: First input to last update; None without inputs.
        period_seconds: Start to start of the next.
        input_seconds: Time inside next().
        timed: False where the period means nothing: validation inside, or more updates than usual because the next
            input was fetched ahead.
        loop: How often a loop has been learned; two iterations with the same number belong to one loop.
        counted: How often the counted optimizer has been another one.
    """

    number: int
    updates: int
    start_ns: int
    duration_seconds: float | None
    period_seconds: float
    input_seconds: float
    timed: bool
    loop: int = 1
    counted: int = 1


@dataclass(slots=True)
class _Segment:
    start_ns: int
    before: int
    inputs: dict[int, int] = field(default_factory=dict)
    input_ns: int = 0
    last_loader: int = 0
    optimizers: set[int] = field(default_factory=set)
    last_update_ns: int = 0
    number: int = 0

    def signature(self) -> Signature:
        return (self.inputs.get(self.last_loader, 0), tuple(sorted(self.optimizers)))


class Learner:
    """Learns the iteration online and yields each one as soon as the next begins.

    Attributes:
        updates: Updates of the counted optimizer.
        irregular: Segments after learning that did not fit the learned iteration, and iterations that were not timed.
        cycle: The learned signatures; empty while learning.
    """

    def __init__(self, repeats: int = 10) -> None:
        self._repeats = repeats
        self._optimizers: dict[int, int] = {}
        self._segment: _Segment | None = None
        self._loaders_seen = False
        self._recent: deque[_Segment] = deque(maxlen=LONGEST_PERIOD * max(repeats, 1))
        self._pending: list[_Segment] = []
        self._unmatched = 0
        self._usual_updates = 0
        self._usual_loaders: list[int] = []
        self._counted = 0
        self._loops = 0
        self._counted_changes = 0
        self.updates = 0
        self.irregular = 0
        self.inputs_without_update = 0
        self.segments_without_match = 0
        self.cycle: tuple[Signature, ...] = ()

    @property
    def unmatched(self) -> bool:
        """Whether this loop is not recognised: many events, and no iteration in them.

        Inputs alone say so before the first update only: later they are an evaluation, or many micro-batches.
        """
        limit = 3 * LONGEST_PERIOD * self._repeats
        never = not self.updates and self.inputs_without_update >= 200
        return not self.cycle and (never or self.segments_without_match >= limit)

    def feed(self, rows: Iterable[tuple[int, int, int]]) -> list[Iteration]:
        """Take rows in order of time; return the iterations that they complete."""
        done: list[Iteration] = []
        for key, begin, end in rows:
            if not key:
                self._begin_afresh()
            elif begin < 0:
                done += self._update(key, ~begin, end)
            else:
                done += self._input(key, begin, end)
        return done

    def _input(self, key: int, begin: int, end: int) -> list[Iteration]:
        self._loaders_seen = True
        done: list[Iteration] = []
        segment = self._segment
        if segment is None or segment.optimizers:
            done = self._close(begin)
            segment = self._segment = _Segment(begin, self.updates)
        segment.inputs[key] = segment.inputs.get(key, 0) + 1
        segment.input_ns += end - begin
        segment.last_loader = key
        self.inputs_without_update += 1
        return done

    def _update(self, key: int, number: int, now: int) -> list[Iteration]:
        index = self._optimizers.setdefault(key, len(self._optimizers))
        before, self.updates = self.updates, number
        if number > before and key != self._counted:
            self._count_another(key)
        done: list[Iteration] = []
        if self._segment is None or (not self._loaders_seen and number > before):
            done = self._close(now)
            self._segment = _Segment(now, before)
        segment = self._segment
        segment.optimizers.add(index)
        segment.last_update_ns = now
        segment.number = number
        self.inputs_without_update = 0
        if self._loaders_seen and number - segment.before > LONGEST_SEGMENT:
            self._begin_afresh()
        return done

    def _count_another(self, key: int) -> None:
        """Learn anew: with the counted optimizer the training's loop has changed, or its model."""
        if self._counted:
            self._forget_loop()
        self._counted = key
        self._counted_changes += 1

    def _begin_afresh(self) -> None:
        """Learn anew, and whether there are inputs too."""
        self._forget_loop()
        self._segment = None
        self._loaders_seen = False

    def _forget_loop(self) -> None:
        self.cycle = ()
        self._recent.clear()
        self._pending = []
        self._unmatched = 0
        self.segments_without_match = 0

    def _close(self, now: int) -> list[Iteration]:
        """End the running segment at ``now``, where the next one starts."""
        segment = self._segment
        if segment is None or not segment.optimizers:
            return []
        self._recent.append(segment)
        if not self.cycle:
            self.segments_without_match += 1
            self._learn()
            return []
        self._pending.append(segment)
        return self._match(now)

    def _learn(self) -> None:
        signatures = [segment.signature() for segment in self._recent]
        for period in range(1, LONGEST_PERIOD + 1):
            window = signatures[-period * self._repeats :]
            if len(window) < period * self._repeats:
                return
            segments = list(self._recent)[-period * self._repeats :]
            # Without a counted update there is no number that ranks could agree on, nor a time for one.
            if window[period:] == window[:-period] and _updates(segments[-period:]) > 0:
                self._accept(segments, period)
                return

    def _accept(self, segments: list[_Segment], period: int) -> None:
        """Take the latest ``period`` segments for the iteration; what all repeats have is usual."""
        self._forget_loop()
        self.cycle = tuple(segment.signature() for segment in segments[-period:])
        self._usual_updates = _updates(segments[-period:])
        self._usual_loaders = [min(len(one.inputs) for one in segments[place::period]) for place in range(period)]
        self._loops += 1

    def _match(self, now: int) -> list[Iteration]:
        period = len(self.cycle)
        if len(self._pending) < period:
            return []
        group = self._pending[-period:]
        if tuple(segment.signature() for segment in group) != self.cycle:
            self.irregular += 1
            self._pending = self._pending[-(period - 1) :] if period > 1 else []
            self._count_unmatched(1)
            return []
        self._pending = []
        iteration = self._iteration(group, now)
        if iteration.timed:
            self._unmatched = 0
        else:
            self._count_unmatched(period)
        return [iteration]

    def _count_unmatched(self, segments: int) -> None:
        """Learn anew once much did not fit; what fits and can never be timed was learned from an odd moment."""
        self._unmatched += segments
        if self._unmatched > 3 * len(self.cycle) * self._repeats:
            self._forget_loop()

    def _iteration(self, group: list[_Segment], now: int) -> Iteration:
        first, last, updates = group[0], group[-1], _updates(group)
        usual = zip(group, self._usual_loaders, strict=True)
        timed = updates == self._usual_updates and all(len(one.inputs) <= loaders for one, loaders in usual)
        self.irregular += not timed
        return Iteration(
            number=last.number,
            updates=updates,
            start_ns=first.start_ns,
            duration_seconds=(last.last_update_ns - first.start_ns) / 1e9 if first.inputs else None,
            period_seconds=(now - first.start_ns) / 1e9,
            input_seconds=sum(segment.input_ns for segment in group) / 1e9,
            timed=timed,
            loop=self._loops,
            counted=self._counted_changes,
        )


def _updates(group: list[_Segment]) -> int:
    return group[-1].number - group[0].before


def signature_of(cycle: Any, optimizer: Any) -> str:
    """Return the key of the learned loop: its iteration and the first optimizer's parameters (number, total size)."""
    groups = getattr(optimizer, "param_groups", None) or []
    sizes = [parameter.numel() for group in groups for parameter in group.get("params", ())]
    inputs = "/".join(f"{count}in{len(optimizers)}step" for count, optimizers in cycle)
    return f"{inputs}-{len(sizes)}p-{sum(sizes)}"
