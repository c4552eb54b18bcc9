"""What workers announce, received by the agent: checked against what the kernel says of the sender, answered, counted.

Takes a listening socket (listener.py) and the windows (windows.py). The socket is open to every process of the node, so
all is bounded: at most 16 new connections in a round and 20 rounds a second, 32 open at once, 16 of one user, each for
at most a second, one message of at most 1 kB from each. A flood costs that and no more; what does not get through is
sampled at the steady rate.
"""

from __future__ import annotations

import logging
import select
import socket
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from eroica_hardware.windows import MOST_OF_ONE, SECOND, Windows
from eroica_otel.errors import HardwareError
from eroica_otel.hardware.announce import ACCEPTED, MOST_BYTES, Announcement, Peer, decode, peer_of

LOG = logging.getLogger(__name__)

ROUND_SECONDS, IDLE_SECONDS = 0.05, 0.5
MOST_ACCEPTED = 16
MOST_OPEN = 32
PATIENCE_NS = SECOND
MOST_WORKERS = 256


def own_pids(pid: int, proc: Path) -> tuple[int, ...]:
    """Return a process' numbers, from our namespace to its own (NSpid, man 5 proc_pid_status); () when it is gone."""
    try:
        for line in (proc / str(pid) / "status").read_text().splitlines():
            if line.startswith("NSpid:"):
                return tuple(int(part) for part in line.split()[1:])
    except (OSError, ValueError):
        return ()
    return (pid,)


class Announcements:
    """Receives announcements in rounds.

    Attributes:
        counts: Announcements by outcome: accepted, refused (rate, budget, or too many connections), stranger (user or
            pid), rubbish, silent, failed (the connection was lost).
        met: Called when a process was accepted that was not among the latest ones.
    """

    def __init__(
        self,
        server: socket.socket,
        windows: Windows,
        users: frozenset[int] | None = None,
        clock: Callable[[], int] = time.monotonic_ns,
        proc: Path = Path("/proc"),
    ) -> None:
        """Take a listening socket; only ``users`` may announce, None = all."""
        self.counts: Counter[str] = Counter()
        self._server, self._windows, self._users, self._clock, self._proc = server, windows, users, clock, proc
        self.met: Callable[[], None] = lambda: None
        self._workers: dict[int, None] = {}
        self._open: dict[socket.socket, tuple[int, Peer]] = {}

    def run(self, stop: Callable[[], bool], sleep: Callable[[float], None] = time.sleep) -> None:
        """Receive until ``stop`` says so; nothing is done while nobody speaks."""
        while not stop():
            if self._open or self._called():
                self.round()
                sleep(ROUND_SECONDS)
        self.close()

    def _called(self) -> bool:
        """Wait for somebody who connects, not for ever; return whether there is one."""
        poll = select.poll()
        try:
            poll.register(self._server, select.POLLIN)
        except ValueError:  # closed, and another one follows
            return True
        return bool(poll.poll(IDLE_SECONDS * 1000))

    def round(self) -> None:
        """Take what has come since the last round, within the bounds; never raises."""
        self._accept()
        now = self._clock()
        for connection, (since, _) in list(self._open.items()):
            if self._served(connection, now) or now - since > PATIENCE_NS:
                self._open.pop(connection)
                connection.close()

    def workers(self) -> tuple[int, ...]:
        """Return the processes whose windows were accepted, as the kernel told them, the latest MOST_WORKERS.

        0 stands for those that it did not tell; any thread may ask.
        """
        return tuple(self._workers)

    def replace(self, server: socket.socket) -> None:
        """Listen on another socket from now on; any thread may say so."""
        old, self._server = self._server, server
        old.close()

    def close(self) -> None:
        """End all connections and the socket."""
        for connection in (*self._open, self._server):
            connection.close()
        self._open = {}

    def _accept(self) -> None:
        for _ in range(min(MOST_ACCEPTED, MOST_OPEN - len(self._open))):
            try:
                connection, _ = self._server.accept()
            except BlockingIOError:
                return
            except OSError:  # no descriptors left; the next round tries again
                self.counts["failed"] += 1
                return
            self._admit(connection)

    def _admit(self, connection: socket.socket) -> None:
        """Keep a new connection, unless its user has enough of them."""
        try:
            peer = peer_of(connection)
        except OSError:
            self.counts["failed"] += 1
            connection.close()
            return
        if sum(other.uid == peer.uid for _, other in self._open.values()) >= MOST_OPEN * MOST_OF_ONE:
            self._count("refused")
            connection.close()
            return
        connection.setblocking(False)
        self._open[connection] = self._clock(), peer

    def _served(self, connection: socket.socket, now: int) -> bool:
        """Return whether the connection is done with: answered, lost or silent for too long."""
        since, peer = self._open[connection]
        try:
            data = connection.recv(MOST_BYTES + 1)
            outcome, answer = self._judge(data, peer, now) if data else ("failed", b"")
        except BlockingIOError:
            outcome, answer = ("silent" if now - since > PATIENCE_NS else ""), b""
        except OSError:
            outcome, answer = "failed", b""
        if outcome:
            self._count(outcome)
        if answer:
            with suppress(OSError):  # whoever asked may have gone
                connection.send(answer, socket.MSG_NOSIGNAL)
        return bool(outcome)

    def _judge(self, data: bytes, peer: Peer, now: int) -> tuple[str, bytes]:
        """Return outcome and answer for a message."""
        if self._users is not None and peer.uid not in self._users:
            return "stranger", b"refused: not a user whose windows are sampled"
        try:
            said = decode(data)
        except HardwareError:
            return "rubbish", b"refused: no announcement that this agent understands"
        if not self._sent_by(peer, said):
            return "stranger", b"refused: sent by another process"
        sender = (peer.uid, peer.pid or -said.pid)
        refusal = self._windows.grant(sender, said, now)
        if refusal:
            return "refused", refusal.encode()
        self._meet(peer.pid)
        return "accepted", ACCEPTED

    def _meet(self, pid: int) -> None:
        known = self._workers
        if pid not in known:
            latest = [*known, pid][-MOST_WORKERS:]
            self._workers = dict.fromkeys(latest)
            self.met()

    def _sent_by(self, peer: Peer, said: Announcement) -> bool:
        """Whether the process is the one it says; one in a container of its own cannot be seen (0) and is believed."""
        return peer.pid in (0, said.pid) or said.pid in own_pids(peer.pid, self._proc)

    def _count(self, outcome: str) -> None:
        self.counts[outcome] += 1
        if outcome != "accepted" and self.counts[outcome] == 1:
            LOG.warning("announcement of a window: %s; further ones are only counted", outcome)
