"""What the demo tells while it runs: one line whenever something changed."""

from __future__ import annotations

import time
from collections.abc import Callable

from eroica_otel import names
from eroica_otel.demo.stage import RANKS, Stage
from eroica_otel.status import Status


class Story:
    """Tells on one line what the ranks and the localizer do; repeats nothing."""

    def __init__(
        self, stage: Stage, write: Callable[[str], object], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._stage = stage
        self._write = write
        self._clock = clock
        self._begin = clock()
        self._last = ""
        self._told = 0.0

    def say(self, text: str) -> None:
        """Tell ``text`` now."""
        self._write(f"[{self._clock() - self._begin:4.0f} s] {text}\n")

    def tell(self) -> None:
        """Tell where things stand, if that is news or five seconds have passed."""
        workers = self._stage.workers()
        text = self._describe(workers)
        key = text.split(";")[0]
        if key != self._last or self._clock() - self._told >= 5:
            self._last, self._told = key, self._clock()
            self.say(text)

    def _describe(self, workers: list[Status]) -> str:
        if not workers:
            return "starting 4 training processes"
        states = " ".join(f"{worker.identity.rank}:{worker.state}" for worker in workers)
        doing = next((worker.activity for worker in workers if worker.activity), "")
        received = self._received()
        parts = [f"ranks {states}", doing, received, _speed(workers[0])]
        return "; ".join(part for part in parts if part)

    def _received(self) -> str:
        seen = [int(p.value) for p in self._stage.series() if p.name == names.LOCALIZER_SEEN.name]
        return f"patterns received {seen[0]}/{RANKS}" if seen else ""


def _speed(worker: Status) -> str:
    if worker.recent_seconds is None:
        return f"{worker.iterations} iterations"
    text = f"{worker.iterations} iterations, {worker.recent_seconds * 1000:.0f} ms each"
    if worker.ratio is not None and worker.baseline_seconds is not None:
        text += f" ({worker.ratio:+.0%} against {worker.baseline_seconds * 1000:.0f} ms)"
    return text
