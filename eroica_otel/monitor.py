"""The 1 Hz thread of a training process: learn, detect, ask for windows, say what is going on. Composition only."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from eroica_otel.agree.poller import Poller
from eroica_otel.agree.window import LATE_MOST, Standing
from eroica_otel.config import WorkerConfig
from eroica_otel.detect.degradation import Detector
from eroica_otel.model import Identity, Window
from eroica_otel.profile.watchdog import task_of
from eroica_otel.signals.hooks import Recorder, Row
from eroica_otel.signals.parallel import EVERYBODY, role_of
from eroica_otel.signals.progress import progress
from eroica_otel.signals.steps import Iteration, Learner, signature_of
from eroica_otel.standstill import Standstill
from eroica_otel.status import STATUS_FILE, Status, StatusWriter
from eroica_otel.trainer import Windows
from eroica_otel.wishes import Wishes

PROBE_AFTER = 10
AFTER_ITERATIONS = 20
AGENT_SECONDS = 1.0
"""Beyond the expected end of a window, for which the node agent is asked to sample fast."""
_NAN = float("nan")


class Guard(Protocol):
    """Where failures of the trainer's side are swallowed and counted (plugin.py)."""

    counts: Counter[str]

    def __call__(self, stage: str, call: Callable[[], None]) -> None: ...

    def failed(self, stage: str, text: str) -> None: ...


class Monitor:
    """Owns what one worker knows of its own training; ``tick`` is one round."""

    def __init__(
        self,
        recorder: Recorder,
        config: WorkerConfig,
        identity: Identity,
        folder: Path,
        windows: Windows,
        poller: Poller,
        guard: Guard,
        say: Callable[[str], None],
    ) -> None:
        self._recorder = recorder
        self._config = config
        self._identity = identity
        self._windows = windows
        self._poller = poller
        self._guard = guard
        self._say = say
        self._learner = Learner(config.learn_repeats)
        self._detector = self._new_detector()
        self.wishes = Wishes(config, folder)
        self.standstill = still = Standstill(config, folder, poller, windows.counts, say, windows.bell)
        recorder.place = lambda update: guard("place", lambda: still.where.see(update))
        self._status = StatusWriter(folder / STATUS_FILE)
        self._warned: set[str] = set()
        self._sound, self._described, self.finished = True, False, False
        self._loop = (0, 0)
        self._timed = self._paused = 0
        self._input_seconds = 0.0
        self._updates = 1
        self._last_update: float | None = None
        self._taken = 0
        self._after_window: Window | None = None
        self._before_seconds, self._after_periods = _NAN, list[float]()
        self._after: tuple[int, float] | None = None
        self.measured: Callable[[Mapping[str, str], list[tuple[float, float]]], None] = lambda labels, pairs: None

    def change(self, values: Mapping[str, Any]) -> None:
        """1 Hz thread: take other values of options that may change while the training runs (orders.py)."""
        self._config = self._windows.config = config = replace(self._config, **values)
        self._poller.window_seconds = config.window_seconds
        self.wishes.change(config)
        self._detector.ratio = config.degraded_ratio
        self.standstill.change(config)

    def tick(self) -> None:
        """One round: events -> iterations -> wish for a window -> status, which is written whatever else fails."""
        pairs: list[tuple[float, float]] = []
        self._sound = False
        rows = self._recorder.take()
        self._guard("monitor", lambda: self._advance(rows, pairs))
        self._guard("standstill", lambda: self._stand_still(rows))
        self._write(pairs)
        self._guard("meter", lambda: self.measured(self._identity.labels(), pairs))

    def _stand_still(self, rows: list[Row]) -> None:
        self.standstill.signature = self._windows.signature
        looks = self.standstill.tick(rows, bool(self._learner.cycle), self._identity)
        self._taken += looks
        if looks:
            self.wishes.looked(time.monotonic())

    def _advance(self, rows: list[Row], pairs: list[tuple[float, float]]) -> None:
        updates = self._learner.updates
        iterations = self._learner.feed(rows)
        self._recorder.attention = True  # once a second the thread of the updates is looked at
        if self._learner.updates > updates:
            self._last_update = time.time()
        pairs += [self._take(iteration) for iteration in iterations]
        if iterations:
            self._describe_loop()
        self._take_refusal()
        self._take_agreed()
        if (window := self._after_window) is not None:
            self._windows.limit(max(self._config.window_seconds, self._seconds(window.stop - window.start)))
        self._end_in_time()
        wish = self.wishes.reason
        self._poller.standing = self._standing()
        if self.wishes.reason != wish:
            self._poller.wake()
        self._sound = True

    def _take(self, iteration: Iteration) -> tuple[float, float]:
        """Count one iteration; return (duration, period), NaN where it must not be timed."""
        self._input_seconds += iteration.input_seconds
        if (iteration.loop, iteration.counted) != self._loop and self._learner.cycle:
            self._begin_loop(iteration)
        first = iteration.number - iteration.updates + 1
        excluded = any(first < one.stop and iteration.number >= one.start for one in self._windows.excluded)
        if excluded or not iteration.timed:
            return (_NAN, _NAN)
        if self.standstill.is_pause(iteration.period_seconds):
            self._paused += 1
            return (_NAN, _NAN)
        self._timed += 1
        self._updates = max(iteration.updates, 1)
        self._detector.add(iteration.period_seconds)
        self._measure_after(iteration)
        return (_NAN if iteration.duration_seconds is None else iteration.duration_seconds, iteration.period_seconds)

    def _new_detector(self) -> Detector:
        return Detector(self._config.recent_iterations, self._config.degraded_ratio)

    def _begin_loop(self, iteration: Iteration) -> None:
        """Another loop was learned, or another optimizer is counted: times of the one before say nothing about it."""
        counted, self._loop = self._loop[1], (iteration.loop, iteration.counted)
        optimizer = self._recorder.optimizer() if self._recorder.optimizer is not None else None
        signature, before = signature_of(self._learner.cycle, optimizer), self._windows.signature
        if signature == before and counted == iteration.counted:
            return
        self._detector, self._timed = self._new_detector(), 0
        self._after_window, self._described = None, False
        self.standstill.forget()
        self._windows.signature = signature
        if before not in ("", signature):
            self.wishes.begin()
            self._windows.measure_again()

    def _describe_loop(self) -> None:
        """Once learned: the role is known, for the rest of the run, and the loop is said."""
        if self._described or not self._learner.cycle or not self._timed:
            return
        self._described = True
        if not self._identity.role:
            self._identity = replace(self._identity, role=self._config.role or self._found_role())
        inputs = sum(count for count, _ in self._learner.cycle)
        steps = len(self._learner.cycle)
        if self._identity.rank == 0:
            self._say(f"iteration learned: {inputs} inputs, {steps} steps, {self._detector.recent_seconds:.3f} s")

    def _found_role(self) -> str:
        found = [EVERYBODY]
        self._guard("progress", lambda: found.append(role_of(sys.modules.get("torch.distributed"))))
        return found[-1]

    def _standing(self) -> Standing | None:
        if not self._learner.cycle or not self._timed:
            return None
        if self._windows.events_per_iteration is None:
            if self._timed >= PROBE_AFTER and not self._windows.busy:
                self._windows.probe(self._identity)
            return None
        now, windows, level = time.monotonic(), self._windows, self._detector.level
        steady = not (self.standstill.state or level.standing or level.ratio > self._config.degraded_ratio)
        again = windows.missed == "reference" and windows.late <= LATE_MOST
        self.wishes.look(now, busy=windows.busy, timed=self._timed, degraded=level.standing, steady=steady, again=again)
        return Standing(
            self._identity.rank,
            self._recorder.steps,
            self._detector.pace_seconds / self._updates,
            windows.most_iterations(),
            self.wishes.reason,
            now - self.wishes.since,
            self._taken + self._poller.offset,
            windows.late,
            steady,
        )

    def _take_refusal(self) -> None:
        """Count a window that was wished for and cannot be agreed on; wish for it again later."""
        why, self._poller.refusal = self._poller.refusal, ""
        reason, rank = self.wishes.reason, self._identity.rank
        if not why or not reason:
            return
        self._windows.counts[f"{reason} skipped"] += 1
        self.wishes.refused(time.monotonic())
        if rank == 0 or reason == "manual":
            self._warn("apart", f"{reason} window refused (rank {rank}): {why}")

    def _take_agreed(self) -> None:
        while self._poller.agreed and not self._windows.busy:
            window = self._poller.agreed.popleft()
            self._taken += 1
            self._announce(window)
            self._before_seconds, self._after_window, self._after_periods = self._detector.recent_seconds, window, []
            self.wishes.taken(window, time.monotonic(), self._before_seconds)
            seconds = self._seconds(window.stop - self._recorder.steps) + AGENT_SECONDS
            self._windows.take(window, self._identity, seconds)

    def _announce(self, window: Window) -> None:
        level, seconds = self._detector.level, self._seconds(window.stop - window.start)
        what = f"profiling iterations {window.start} to {window.stop} on {self._identity.world_size} ranks"
        why = f"{window.reason} window: "
        if window.reason == "degraded" and level.ratio == level.ratio:
            why = (
                f"iteration time {level.recent_seconds:.3f} s is {level.ratio:.0%} above "
                f"{level.baseline_seconds:.3f} s; "
            )
        if self._identity.rank == 0:
            self._say(f"{why}{what} (about {seconds:.0f} s)")

    def _seconds(self, updates: int) -> float:
        return updates * self._detector.pace_seconds / self._updates

    def _end_in_time(self) -> None:
        """Have a window that lasts longer than wanted end earlier, on all ranks at one iteration."""
        poller, window = self._poller, self._windows.agreed
        poller.running = window.id if window is not None else 0
        asked, poller.nearer = poller.nearer, self._windows.nearer_stop(self._config.window_seconds)
        if poller.nearer and not asked:
            poller.wake()
        if window is not None and poller.ended[0] == window.id:
            self._after_window = self._windows.shorten(*poller.ended) or self._after_window

    def _measure_after(self, iteration: Iteration) -> None:
        """Compare the iteration time after a window with the one before: a profiler may leave something behind."""
        window = self._after_window
        if window is None or iteration.number < window.stop:
            return
        self._after_periods.append(iteration.period_seconds)
        if len(self._after_periods) >= AFTER_ITERATIONS:
            after = sum(self._after_periods) / len(self._after_periods)
            if self._before_seconds > 0:
                self._after = (window.id, after / self._before_seconds)
            self._after_window = None

    def _state(self) -> str:
        """Return the state; "" where this round failed, because then nothing is known."""
        if self.finished:
            return "finished"
        if not self._sound:
            return ""
        if self._learner.unmatched:
            return "unmatched"
        if not self._learner.cycle:
            return "learning"
        return self.standstill.state or ("degraded" if self._detector.level.standing else "healthy")

    def _write(self, pairs: list[tuple[float, float]]) -> None:
        level = self._detector.level
        known = level.baseline_seconds == level.baseline_seconds
        state = self._state()
        if state == "unmatched":
            self._warn(
                "unmatched",
                "no repeating iteration found so far; unless this is an evaluation call eroica_otel.step() after each "
                "update (and eroica_otel.watch() around the input); nothing is profiled until then",
            )
        seen: list[tuple[dict[str, int], tuple[tuple[str, int, str], ...]]] = []
        self._guard("progress", lambda: seen.append(progress(sys.modules.get("torch.distributed"))))
        collectives, groups = seen[0] if seen else ({}, ())
        status = Status(
            identity=self._identity,
            pid=os.getpid(),
            state=state,
            activity=self.standstill.activity or self._windows.activity(),
            iterations=self._learner.updates,
            irregular=self._learner.irregular + self._paused,
            input_seconds=self._input_seconds,
            baseline_seconds=level.baseline_seconds if known else None,
            recent_seconds=self._detector.recent_seconds if self._timed else None,
            ratio=level.ratio if known else None,
            last_update_seconds=self._last_update,
            window_id=self._windows.last.id if self._windows.last is not None else 0,
            windows=dict(self._windows.counts),
            after=self._after,
            failures=self._failure_counts(),
            collectives=collectives,
            groups=groups,
            store_silent_seconds=self._poller.silent_seconds(),
            signature=self._windows.signature,
            **self._windows.equipment.told(),
            thread=self.standstill.where.thread,
            thread_task=task_of(self.standstill.where.thread),
            monitor_task=threading.get_native_id(),
            silent_seconds=self.standstill.silent_seconds,
        )
        self._status.write(status, pairs)

    def _failure_counts(self) -> dict[str, int]:
        counts = Counter(self._guard.counts)
        if self._poller.errors:
            counts["store"] += self._poller.errors
            self._warn(
                "store",
                f"the job's store does not answer ({self._poller.last_error}); windows cannot be agreed on until it "
                "does; training is not affected",
            )
        return dict(counts)

    def _warn(self, key: str, text: str) -> None:
        if key not in self._warned:
            self._warned.add(key)
            self._say(text)
