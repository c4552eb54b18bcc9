"""The thread that talks to the store once a second, and may be lost for ever when the store's server freezes."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace

from eroica_otel.agree.apart import Apart
from eroica_otel.agree.decider import Decider
from eroica_otel.agree.pauses import Pauses
from eroica_otel.agree.store import Store
from eroica_otel.agree.window import Standing, propose, wanted, window_from_bytes, window_to_bytes
from eroica_otel.errors import Guard, unguarded
from eroica_otel.model import Window
from eroica_otel.rounds import Rounds

RETRY_SECONDS = 10.0
LATE_SECONDS = 5.0
"""A blocked window goes by wall clock: who has not polled for this long, stopped perhaps, hears of it when it is over.
"""


class Poller:
    """Publishes this rank's standing, takes part in decisions, and hands agreed windows over.

    Attributes:
        standing: What to publish; the owner replaces it at any time, None = nothing to say yet.
        agreed: Windows agreed on and not yet taken by the owner.
        offset: What the owner adds to the number of windows it has taken to get their number in the job's present
            attempt: those that were over when this poller connected, less those of earlier attempts.
        looks: Blocked windows agreed on and not yet taken by the owner, who takes them whatever else runs.
        on_agreed: Set by the owner: called, on this thread, when one of both has got longer.
        blocked: Set by the owner: this rank wants a blocked window, which needs nobody else and no iteration.
        pausing: Set by the owner: the other ranks are to be told that this one pauses on purpose.
        listening: Set by the owner: whether another rank pauses is to be found out ...
        peers_pause: ... and is said here.
        running: Set by the owner: id of the window that it takes, 0 without one.
        nearer: Set by the owner: the update at which that one had better end, 0 where it may go on as it is.
        ended: Window and update at which the ranks have agreed to end it, earlier than it said.
        refusal: Why the latest wish got no window, "" for none; the owner empties it.
        errors: Calls that failed, and ``last_error``.
    """

    def __init__(
        self,
        connect: Callable[[], Store],
        world_size: int,
        window_seconds: float,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        iteration: Callable[[], int] = lambda: 0,
        guard: Guard = unguarded,
    ) -> None:
        """Args: guard: Runs each round, so that what nobody foresaw does not end the thread."""
        self._guard = guard
        self._connect = connect
        self._world_size = world_size
        self.window_seconds = window_seconds
        self._clock, self._wall, self._iteration = clock, wall, iteration
        self._apart = Apart()
        self._decider = Decider(clock)
        self._pauses = Pauses()
        self._store: Store | None = None
        self._next_window = 0
        self._new = True
        self._attempt = ""
        self._published: Standing | None = None
        self._retry_at = 0.0
        self._answered = clock()
        self._rounds = Rounds("eroica-poller", self._once, first=1.0)
        self.standing: Standing | None = None
        self.agreed: deque[Window] = deque()
        self.looks: deque[Window] = deque()
        self.blocked = self.pausing = self.listening = self.peers_pause = False
        self.on_agreed: Callable[[], None] = lambda: None
        self.offset = self.running = self.nearer = 0
        self.ended = (0, 0)
        self.refusal = ""
        self.errors = 0
        self.last_error = ""

    def start(self) -> None:
        self._rounds.start()

    def wake(self) -> None:
        """Have the next round begin now, because there is something new to say; from any thread."""
        self._rounds.wake()

    def stop(self) -> None:
        """Ask the thread to end and give it two seconds: a thread inside torch must not meet the interpreter's end."""
        self._rounds.stop()

    def silent_seconds(self) -> float:
        """Return the time since the store answered."""
        return max(0.0, self._clock() - self._answered - 2.0)

    def _once(self) -> float:
        self._guard("store", self._round)
        return 1.0

    def _round(self) -> None:
        done = False
        try:
            self.poll()
            done = True
        except (OSError, RuntimeError, ValueError, TypeError, AttributeError, LookupError) as error:
            # AttributeError: a torch that was built without distributed; LookupError: another version has written this.
            self.errors += 1
            self.last_error = str(error).split("\n")[0]
        finally:
            if not done:
                self._store = None
                self._retry_at = self._clock() + RETRY_SECONDS

    def poll(self) -> None:
        """One round; raises what the store, or what others have written into it, makes fail."""
        if self._store is None:
            if self._clock() < self._retry_at:
                return
            self._store = self._connect()
        store, standing = self._store, self.standing
        if not self._in_attempt(store):
            return
        if standing is not None or self._published is not None:
            self._publish(store, standing)
        self._take(store)
        self._talk_of_ends(store)
        self._talk_of_pauses(store)
        if self.blocked and not self.peers_pause:
            window = Window(int(self._wall()), "blocked", 0, 0)
            store.first(f"window/{self._next_window}", window_to_bytes(window))
            self._take(store)
        if standing is not None and standing.wants and standing.windows == self._next_window:
            self._decide(store, standing)
            self._take(store)
        self._answered = self._clock()

    def _in_attempt(self, store: Store) -> bool:
        """Return whether there is an attempt; begin anew in one that is not the last one seen."""
        attempt = store.attempt()
        if attempt and attempt != self._attempt:
            self._attempt, self._published = attempt, None
            self._apart, self._decider = Apart(), Decider(self._clock)
            self.offset -= self._next_window
            self._next_window, self._new = 0, True
        if not attempt:
            self._answered = self._clock()
        return bool(attempt)

    def _publish(self, store: Store, standing: Standing | None) -> None:
        """Write the standing; one that has nothing to say any more must not go on wishing."""
        said = standing if standing is not None or self._published is None else replace(self._published, wants="")
        if said is not None:
            store.set(f"rank/{said.rank}", said.to_bytes())
        self._published = standing

    def _take(self, store: Store) -> None:
        while (data := store.get(f"window/{self._next_window}")) is not None:
            self._next_window += 1
            window = window_from_bytes(data)
            if window.reason == "blocked":
                self._take_look(window)
            elif self._new and window.stop <= self._iteration():
                self.offset += 1
            else:
                self.agreed.append(window)
                self.on_agreed()
        self._new = False

    def _take_look(self, window: Window) -> None:
        if self._new or self._clock() - self._answered > LATE_SECONDS:
            self.offset += 1
        else:
            self.blocked = False  # until the owner has seen it and says so again
            self.looks.append(window)
            self.on_agreed()

    def _talk_of_ends(self, store: Store) -> None:
        """Say where the window that is being taken shall end, or hear what the first that said so has said."""
        running, key = self.running, f"end/{self.running}"
        if not running or self.ended[0] == running:
            return
        said = store.first(key, str(self.nearer).encode()) if self.nearer else store.get(key)
        if said is not None:
            self.ended = (running, int(said))
            self.on_agreed()

    def _talk_of_pauses(self, store: Store) -> None:
        if self.pausing and self._published is not None:
            self._pauses.say(store, self._published.rank)
        if self.listening:
            self.peers_pause = self._pauses.heard(store, self._clock())
        else:
            self._pauses.forget()
            self.peers_pause = False

    def _decide(self, store: Store, own: Standing) -> None:
        if not self._decider.mine(store, self._next_window, own.rank):
            self.refusal = self._decider.refusal(store) or self.refusal
            return
        ranks = [f"rank/{rank}" for rank in range(self._world_size) if rank != own.rank]
        others = [Standing.from_bytes(data) for data in store.get_all(ranks)]
        meant = self._apart.judge(own, others, self._clock())
        standings = [own, *(s if s.windows == own.windows else replace(s, wants="") for s in meant.heard)]
        reason = wanted(standings, self._world_size)
        if not reason or meant.undecided:
            return
        if meant.apart:
            self.refusal = meant.apart
            self._decider.refuse(store, meant.apart)
            return
        window = propose(standings, reason, self.window_seconds, self._wall())
        store.first(f"window/{self._next_window}", window_to_bytes(window))
