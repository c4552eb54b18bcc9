"""What the 1 Hz thread does while the training makes no event: is it a pause or a hang, and what do its stacks show?

Nothing here runs on the training thread but ``Where.see``, for some microseconds once a second. Composition only.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from eroica_otel import kinds
from eroica_otel.agree.poller import Poller
from eroica_otel.agree.window import Cooldown
from eroica_otel.config import WorkerConfig
from eroica_otel.detect.blocked import NOTHING, Seen, Silence
from eroica_otel.errors import CaptureError
from eroica_otel.model import Identity, Window
from eroica_otel.profile.bell import Bell
from eroica_otel.profile.flight import collective_progress
from eroica_otel.profile.glance import glance
from eroica_otel.profile.look import MOST_SECONDS, StackLook
from eroica_otel.profile.place import Where
from eroica_otel.signals.hooks import Row

ALONE_SECONDS = 6.0
"""A rank that wants a look for so long and hears of none, because the store is silent, looks at itself."""
SAME_LEVEL = 1.0
"""Every hang is as slow as the one before: the rest between looks doubles until the training goes on."""


class Standstill:
    """Watches for the absence of events.

    Attributes:
        where: Told of events by the hooks.
        state: "" while the training goes on, else "paused" or "blocked".
        activity: The same in words for a person.
    """

    def __init__(
        self,
        config: WorkerConfig,
        folder: Path,
        poller: Poller,
        counts: Counter[str],
        say: Callable[[str], None],
        bell: Bell | None = None,
    ) -> None:
        """Args: counts: Windows by "reason outcome", to which those that were skipped are added. bell: As StackLook."""
        self._bell = bell
        self._config = config
        self._folder = folder
        self._poller = poller
        self._counts = counts
        self._say = say
        self._silence = Silence()
        self._cooldown = Cooldown(config.cooldown_seconds)
        self._wanted_since: float | None = None
        self._look: StackLook | None = None
        self._look_ends = 0.0
        self._was_silent = False
        self._said = False
        self.where = Where()
        self.state = self.activity = self.signature = ""

    @property
    def silent_seconds(self) -> float:
        """Return the time since the latest event; 0 before the first."""
        return max(0.0, time.monotonic() - self._silence.began) if self._silence.began else 0.0

    def is_pause(self, period_seconds: float) -> bool:
        """Take one timed iteration; return whether it holds a pause, so that it must not be timed."""
        return self._silence.is_pause(period_seconds)

    def change(self, config: WorkerConfig) -> None:
        """Take other values of options that may change while the training runs."""
        self._config = config
        self._cooldown.base_seconds = config.cooldown_seconds

    def forget(self) -> None:
        """Another loop is learned."""
        self._silence.forget()

    def tick(self, rows: Sequence[Row], learned: bool, identity: Identity) -> int:
        """Take the events of one round; return how many blocked windows were taken from the agreement.

        Args:
            rows: As Recorder.take gives them.
            learned: Whether the loop is known now: before, nothing is blocked.
        """
        now = time.monotonic()
        self._silence.see(now, bool(rows), any(begin < 0 for _, begin, _ in rows))
        self._end_look(now, bool(rows))
        seen, words = self._seen() if learned and self._silence.near else (NOTHING, "")
        before, self.state = self.state, self._silence.judge(seen) if learned else ""
        self._say_once(identity, before, words)
        taken = self._take(now, identity)
        self._ask(now, identity, learned, seen)
        return taken

    def _seen(self) -> tuple[Seen, str]:
        """Look at the training thread once; return what it shows, and the frame or place in words."""
        peers = self._poller.peers_pause
        look = glance(self.where.thread)
        if not look.frames and self.where.thread:
            return Seen(place="outside"), "the thread that trained has ended"
        pause = kinds.pause_of(look.frames)
        place = self.where.of(look.places)
        if pause is not None:
            return Seen(pause[0], place, peers), f"{pause[0]} in {kinds.frame_name(pause[1])}"
        told = {"outside": "the training loop has ended", "between": "between two training loops"}.get(place, "")
        return Seen("", place, peers), told or ("another rank pauses" if peers and not self._silence.fetches else "")

    def _say_once(self, identity: Identity, before: str, words: str) -> None:
        seconds = self.silent_seconds
        if self.state == "blocked":
            more = f" ({words})" if words else ""
            self.activity = f"no event for {seconds:.0f} s{more}: looking at all ranks' stacks"
        elif self.state == "paused":
            seconds = max(seconds, self._silence.fetching_seconds)
            self.activity = f"paused for {seconds:.0f} s: {words or 'inputs without updates'}"
        else:
            self.activity = ""
            if before == "blocked":
                self._cooldown.reset()
                if self._said and identity.rank == 0:
                    self._say("training goes on")
            self._said = False

    def _ask(self, now: float, identity: Identity, learned: bool, seen: Seen) -> None:
        """Tell the poller what this rank wants, and look alone where nobody answers."""
        poller, near = self._poller, learned and self._silence.near
        poller.listening = near
        poller.pausing = near and self._silence.pauses(seen)
        wants = self.state == "blocked" and self._look is None and self._may_look(now)
        self._wanted_since = (self._wanted_since or now) if wants else None
        poller.blocked = wants and not poller.looks
        if self._wanted_since is not None and now - self._wanted_since > ALONE_SECONDS:
            self._begin(Window(int(time.time()), "blocked", 0, 0), now, identity)

    def _may_look(self, now: float) -> bool:
        """Whether the rest is over, or this is longer than what ended by itself before: not the same again."""
        earlier = self._silence.longest_blocked_seconds
        return self._cooldown.over(now) or 0 < 3 * earlier < self._silence.seconds

    def _take(self, now: float, identity: Identity) -> int:
        taken = 0
        while self._poller.looks:
            window = self._poller.looks.popleft()
            taken += 1
            if self._look is None:
                self._begin(window, now, identity)
        return taken

    def _begin(self, window: Window, now: float, identity: Identity) -> None:
        """Start to look, whatever this rank itself is doing."""
        self._wanted_since = None
        self._cooldown.begin(now, SAME_LEVEL)
        self._silence.longest_blocked_seconds = 0.0
        if identity.rank == 0:
            self._said = True
            self._say(self.activity or "other ranks have no event: looking at all ranks' stacks")
        place, hertz = self._folder / f"window-{window.id}", self._config.sampler_hertz
        look = StackLook(window, identity, place, self.where.thread, hertz, self._bell)
        try:
            look.start()
        except (CaptureError, OSError) as error:
            self._skip(window, identity, str(error))
            return
        self._look, self._look_ends = look, now + min(self._config.window_seconds, MOST_SECONDS)
        self._was_silent = self.state != ""

    def _end_look(self, now: float, moved: bool) -> None:
        look = self._look
        if look is None or (now < self._look_ends and not (moved and self._was_silent)):
            return
        self._look = None
        if moved and self._was_silent:
            look.abort()
            self._skip(look.window, look.identity, "the training goes on")
            self._cooldown.reset()
            return
        progress = collective_progress(sys.modules.get("torch"))
        try:
            look.stop({"progress": progress, "silent_seconds": self.silent_seconds, "signature": self.signature})
        except OSError as error:
            look.abort()
            self._skip(look.window, look.identity, str(error))

    def _skip(self, window: Window, identity: Identity, why: str) -> None:
        self._counts["blocked skipped"] += 1
        if identity.rank == 0:
            self._say(f"window {window.id} (blocked) skipped on rank 0: {why}")

    def close(self) -> None:
        """Give up whatever runs."""
        look, self._look = self._look, None
        if look is not None:
            look.abort()
