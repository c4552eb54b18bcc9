"""Reads one source at a steady rate into its ring: 100 Hz, and up to 1 kHz while a window is announced.

Takes a source, a ring, clock and sleep. What may hang (a driver) or takes long (firmware) gets a thread of its own and
holds up nobody else; quick sources share one, because waking costs more than reading a few files. A source that fails
is counted, logged once and asked again later; the ring's heartbeat goes on, so that workers can tell a silent source
from a dead agent.

What is fast in a window was decided by what it costs and what it tells (catalog.py has the rates, bench/hardware.py
measures). At 1 kHz only what is cheap and moves within a step: the SM clock of each GPU, and its links in every fifth
reading. Byte counters of interfaces at 500 Hz and of RDMA ports at 200 Hz: faster ones show the steps in which drivers
renew them. All else keeps its rate: GPM and NVML's utilisation and power are renewed about ten times a second, pressure
makes the kernel sum over all cores. No kind of call takes more than a tenth of the time (pace.py): behind a slow driver
the clock is NaN in some rows, and the rate of the rows stays.

Readings are written in batches, and those of a source.BatchSource become numbers only then: what wakes a hundred times
a second pays most for all the code that it has to fetch anew, so that a tick only asks.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence

from eroica_hardware.deadlines import SECOND, Deadlines
from eroica_hardware.rings import KeptRing
from eroica_otel.errors import HardwareError
from eroica_otel.hardware.ring import MOST_BATCH
from eroica_otel.hardware.source import BatchSource, Source

LOG = logging.getLogger(__name__)

STEADY_HERTZ = 100.0
WINDOW_HERTZ = 1000.0
LOOK_NS = 10 * SECOND
RETRY_NS = 10 * SECOND
IDLE_HERTZ = 1.0
"""Of a source that has nothing to read, between two looks."""
MOST_BUSY = 0.5
"""Share of the time that a source may take for its readings, unless told otherwise; above it, it is asked less."""
HELD_NS = SECOND // 4
"""So long a reading is held back at most, until there is a batch of them to be written."""


class _Readings:
    """The readings of a source that gives numbers at once (part of source.BatchSource)."""

    def __init__(self, source: Source) -> None:
        self.most_rows = MOST_BATCH
        self._source = source
        self._kept: dict[int, Sequence[float]] = {}

    def take(self, row: int) -> None:
        self._kept[row] = self._source.read()

    def rows(self, count: int) -> list[Sequence[float]]:
        return [self._kept[row] for row in range(count)]


class Sampler:
    """One source and its ring.

    Attributes:
        failures: What went wrong and how often: "source" (look or read), "ring" (folder full, read-only, gone).
        samples: Rows written.
        looked: Whether the source has looked once for what it can read.
    """

    def __init__(
        self,
        source: Source,
        ring: KeptRing,
        in_window: Callable[[int], bool],
        clock: Callable[[], int] = time.monotonic_ns,
        most_hertz: float = WINDOW_HERTZ,
        most_busy: float = MOST_BUSY,
    ) -> None:
        """Sample never faster than ``most_hertz``, and fast while ``in_window`` says so of a time (monotonic ns).

        Readings take at most the share ``most_busy`` of the time.
        """
        self.source, self.ring = source, ring
        self.failures: Counter[str] = Counter()
        self.samples = 0
        self.looked = False
        self._in_window, self._clock, self._most, self._most_busy = in_window, clock, most_hertz, most_busy
        now = clock()
        self.deadlines = Deadlines(min(STEADY_HERTZ, most_hertz), now)
        self._looked: int | None = None
        self._resume = now
        self._reading_ns = 0.0
        self._doing = "source"
        self._readings = source if isinstance(source, BatchSource) else _Readings(source)
        self._batch = min(ring.batch, self._readings.most_rows)
        self._times: list[int] = []
        self._fast = False

    def tick(self) -> None:
        """Use the deadline that has come: one reading, if the source is not at rest after a failure; never raises."""
        now = self._clock()
        self.deadlines.tick(now)
        fast = self._in_window(now)
        if now >= self._resume:
            self._guarded("source", self._sample, now, fast)
        if not self._times or fast != self._fast or now - self._times[0] >= HELD_NS:
            self._settle_all(fast)

    def look_soon(self) -> None:
        """Have the source look for what it can read before the next reading; any thread may say so."""
        self._looked = None

    def finish(self) -> None:
        """Write what is left and say that no more comes; never raises."""
        self._guarded("ring", self._settle)
        self.ring.close()

    def _settle_all(self, fast: bool) -> None:
        """Write what was read, say that the agent lives, go on at the rate that is wanted."""
        self._guarded("ring", self._settle)
        now = self._clock()
        self._guarded("ring", self.ring.alive, now)
        self._fast = fast
        self.deadlines.change(self._hertz(fast), now)

    def _hertz(self, fast: bool) -> float:
        """Return the rate that is wanted, or as much of it as the source can answer without being busy all the time.

        Only steps of 2: a rate that followed each reading would change all the time.
        """
        if not self.source.resources:
            return IDLE_HERTZ
        wanted = min(WINDOW_HERTZ if fast else STEADY_HERTZ, self._most)
        while wanted * self._reading_ns > self._most_busy * SECOND and wanted > 1:
            wanted /= 2
        return wanted

    def _sample(self, now: int, fast: bool) -> None:
        """Read once, and write once there is a batch; ``_doing`` says at what it failed, where it does."""
        if self._looked is None or (now - self._looked >= LOOK_NS and not fast):  # looking takes long
            self._look(now)
        if not self.source.resources:
            return
        times = self._times
        if times and now <= times[-1]:  # the clock went back
            self._settle()
            self._doing = "source"
            times = self._times
        began = self._clock()
        self._readings.take(len(times))
        ended = self._clock()
        self._reading_ns += 0.1 * (ended - began - self._reading_ns)
        times.append((began + ended) // 2)
        if len(times) >= self._batch:
            self._settle()

    def _look(self, now: int) -> None:
        self._settle()
        self._looked = now
        self._doing = "source"
        self.source.look()
        self._doing = "ring"
        self.looked = True
        self.ring.prepare(self.source.resources, now)
        self._doing = "source"

    def _settle(self) -> None:
        """Write what was read since the last time."""
        times, self._times = self._times, []
        if not times:
            return
        self._doing = "source"
        rows = self._readings.rows(len(times))
        self._doing = "ring"
        if any(len(row) != len(self.source.resources) for row in rows):
            raise HardwareError(f"{len(rows[0])} values of {len(self.source.resources)} resources")
        self.ring.extend(times, rows)
        self.samples += len(times)

    def _guarded(self, doing: str, call: Callable[..., None], *arguments: object) -> None:
        """Run ``call``; what it raises is counted, the first time logged, and followed by a rest and a new look."""
        self._doing = doing
        try:
            call(*arguments)
        except Exception:  # a driver's library raises what it likes, and the other resources are still wanted
            what = self._doing
            self.failures[what] += 1
            self._resume, self._looked = self._clock() + RETRY_NS, None
            level = logging.WARNING if self.failures[what] == 1 else logging.DEBUG
            LOG.log(level, "source %s: %s failed, again in 10 s", self.source.family, what, exc_info=True)


def run(
    samplers: Sequence[Sampler],
    stop: Callable[[], bool],
    clock: Callable[[], int] = time.monotonic_ns,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Keep the deadlines of all these samplers until ``stop`` says so, then end their rings."""
    while not stop():
        now = clock()
        for one in samplers:
            if not one.deadlines.wait(now):
                one.tick()
        now = clock()
        wait = min(one.deadlines.wait(now) for one in samplers)
        if wait:
            sleep(wait / SECOND)
    for one in samplers:
        one.finish()


def start(groups: Sequence[Sequence[Sampler]], stop: threading.Event) -> list[threading.Thread]:
    """Run each group in a thread of its own until ``stop`` is set; they are daemons, as a driver may never answer."""
    threads = [
        threading.Thread(target=run, args=(group, stop.is_set), name=f"sampler-{group[0].source.family}", daemon=True)
        for group in groups
        if group
    ]
    for thread in threads:
        thread.start()
    return threads
