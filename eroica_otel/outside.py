"""What the helper sees of its worker from outside: stopped, or frozen with the interpreter's lock held by C.

Such a worker can neither say its state nor take part in a blocked window, so the helper does both for it.
"""

from __future__ import annotations

from pathlib import Path

from eroica_otel import kinds
from eroica_otel.agree.window import Cooldown
from eroica_otel.detect.blocked import PAUSE_SECONDS, blocked_limit_seconds
from eroica_otel.kinds import Frame
from eroica_otel.model import WorkerWindow
from eroica_otel.procgroups import foremost
from eroica_otel.profile import asking, frozen
from eroica_otel.status import WATCHDOG_FILE, Status
from eroica_otel.summarize.standing import standing_window

HEARTBEAT_SECONDS = 10.0
"""Silence of the trainer's 1 Hz thread after which what it said last is not taken for its state any more."""
STACK_PATIENCE_SECONDS = 4.0
"""How much later than it should the stack may be written."""
_TRAINING = ("healthy", "degraded", "blocked", "paused")
"""States in which the loop is known, so that a standstill means something."""


class Stops:
    """When the trainer was stopped (state T), seen 10 times a second from outside, because it cannot say so itself."""

    def __init__(self) -> None:
        self._spans: list[tuple[int, int]] = []
        self._since: int | None = None

    @property
    def now(self) -> bool:
        """Whether it is stopped at this moment."""
        return self._since is not None

    def see(self, state: str | None, now_ns: int) -> None:
        """Take the process' state at ``now_ns``."""
        if state in ("T", "t"):
            self._since = self._since if self._since is not None else now_ns
        elif self._since is not None:
            self._spans = [*self._spans[-99:], (self._since, now_ns)]
            self._since = None

    def seconds(self, start_ns: int, end_ns: int) -> float:
        """Return the stopped time inside [start_ns, end_ns], what still goes on included."""
        spans = self._spans if self._since is None else [*self._spans, (self._since, end_ns)]
        return sum(max(0, min(end, end_ns) - max(start, start_ns)) for start, end in spans) / 1e9


class Heartbeat:
    """Whether the trainer's 1 Hz thread still writes: what it wrote last would else stand there for ever."""

    def __init__(self) -> None:
        self._latest_ns: int | None = None
        self.silent = False

    @property
    def latest_ns(self) -> int | None:
        """When it was heard last, None before the first time."""
        return self._latest_ns

    def see(self, latest_ns: int) -> None:
        """Take the time of the latest heartbeat."""
        self._latest_ns = latest_ns

    def stopped(self, now_ns: int) -> bool:
        """Return whether the heartbeat has been still for too long; ``silent`` says so from then on."""
        late = self._latest_ns is not None and now_ns - self._latest_ns > HEARTBEAT_SECONDS * 1e9
        begins, self.silent = late and not self.silent, late
        return begins


class Frozen:
    """Makes state and blocked window of a worker whose heartbeat stands still.

    Attributes:
        state: "blocked" or "paused" while it does and that means something, else "".
    """

    def __init__(self, folder: Path, cooldown_seconds: float) -> None:
        """Args: cooldown_seconds: Rest between two windows of one standstill; doubles, as in the worker."""
        self._question = asking.Question(folder / WATCHDOG_FILE)
        self._cooldown_seconds = cooldown_seconds
        self._begin()

    def _begin(self) -> None:
        self._cooldown = Cooldown(self._cooldown_seconds)
        self._stack: tuple[Frame, ...] | None = None
        self._spied = False
        self.state = ""

    @property
    def stack(self) -> tuple[Frame, ...]:
        """Frames of the frozen thread, outermost first; () while unknown."""
        return self._stack or ()

    def see(self, status: Status, heartbeat_ns: int, now_ns: int, stops: Stops, wall: float) -> WorkerWindow | None:
        """Take one round; return the window to export, if one is due.

        Args:
            status: What the worker said last, at ``heartbeat_ns``; ``now_ns`` is of the same clock.
            wall: Unix time.
        """
        silent = (now_ns - heartbeat_ns) / 1e9
        self._question.look(status.pid, status.thread_task, status.monitor_task, silent, stops.now)
        limit = max(blocked_limit_seconds(status.recent_seconds), HEARTBEAT_SECONDS)
        if silent <= limit or status.state not in _TRAINING:
            if self.state:
                self._begin()
            return None
        self._look(status)
        paused = self._stack is not None and kinds.pause_of(self._stack) is not None and silent <= PAUSE_SECONDS
        self.state = "paused" if paused else "blocked"
        waiting = (
            self._stack is None and not stops.now and silent <= max(limit, asking.SECONDS + STACK_PATIENCE_SECONDS)
        )
        if paused or waiting or not self._cooldown.over(silent):
            return None
        self._cooldown.begin(silent, 1.0)
        return standing_window(
            status.identity,
            int(wall),
            silent,
            self._stack or (),
            stopped_seconds=stops.seconds(heartbeat_ns, now_ns),
            silent_seconds=status.silent_seconds + silent,
            progress=foremost({group: (sequence, None) for group, sequence in status.collectives.items()}),
            end_timestamp_seconds=wall,
            signature=status.signature,
        )

    def _look(self, status: Status) -> None:
        """Find the stack out, once: of a frozen thread it does not change."""
        if self._stack is not None or not status.thread:
            return
        raw: list[frozen.Raw] = []
        if not self._spied:
            self._spied = True
            raw = frozen.spy(status.pid, status.thread)
        if not raw:
            raw = self._question.answer()
        if raw:
            self._stack = frozen.resolve(raw)
