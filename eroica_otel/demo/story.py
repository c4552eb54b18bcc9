"""What the demo tells while it runs: one line whenever something changed."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

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
        self._seen = 0

    def say(self, text: str) -> None:
        """Tell ``text`` now."""
        self._write(f"[{self._clock() - self._begin:4.0f} s] {text}\n")

    def tell(self) -> None:
        """Tell where things stand, if that is news or five seconds have passed."""
        workers = self._stage.workers()
        text = self._describe(workers)
        key = text.rsplit(";", 1)[0]
        if key != self._last or self._clock() - self._told >= 5:
            self._last, self._told = key, self._clock()
            self.say(text)

    def _describe(self, workers: Sequence[Status]) -> str:
        if not workers:
            return f"starting {RANKS} training processes"
        doing = next((worker.activity for worker in workers if worker.activity), "")
        return "; ".join(part for part in (states(workers), doing, self._received(), _speed(workers[0])) if part)

    def _received(self) -> str:
        """Say how many patterns of the newest window arrived, until that is known to be all."""
        seen = next((int(p.value) for p in self._stage.series() if p.name == names.LOCALIZER_SEEN.name), 0)
        news = seen != self._seen
        self._seen = seen
        return f"patterns received {seen}/{RANKS}" if news or 0 < seen < RANKS else ""


def states(workers: Sequence[Status]) -> str:
    """Return "4 ranks healthy", or who is what where they differ."""
    by_state: dict[str, list[str]] = {}
    for worker in workers:
        by_state.setdefault(worker.state, []).append(str(worker.identity.rank))
    if len(by_state) == 1:
        return f"{len(workers)} ranks {workers[0].state}"
    return ", ".join(f"rank {' '.join(ranks)} {state}" for state, ranks in by_state.items())


def _speed(worker: Status) -> str:
    if worker.recent_seconds is None:
        return f"{worker.iterations} iterations"
    text = f"{worker.iterations} iterations, {worker.recent_seconds * 1000:.0f} ms each"
    if worker.ratio is not None and worker.baseline_seconds is not None:
        text += f" ({worker.ratio:+.0%} against {worker.baseline_seconds * 1000:.0f} ms)"
    return text
