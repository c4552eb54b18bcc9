"""Announcements between a worker and the agent, over a real socket in a folder in which others have put things."""

from __future__ import annotations

import json
import os
import resource
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import msgspec
import pytest

from eroica_hardware.announce import MOST_OPEN, Announcements, own_pids
from eroica_hardware.listener import hold, listen, remove
from eroica_hardware.windows import SECOND, Windows
from eroica_otel.errors import HardwareError
from eroica_otel.hardware.announce import ACCEPTED, SOCKET, Announcement, Peer, announce, decode
from eroica_otel.hardware.shared import open_folder

BEGIN = 100 * SECOND
ROOM = 0.2


def said(rank: int = 3, pid: int = 0, seconds: float = 20.0) -> Announcement:
    return Announcement(rank=rank, pid=pid or os.getpid(), window=1_700_000_000, seconds=seconds)


def message(**changes: object) -> bytes:
    fields = {"rank": 3, "pid": os.getpid(), "window": 1_700_000_000, "seconds": 20.0, "version": 1}
    return json.dumps(fields | changes).encode()


class Agent:
    """The agent's side with a clock of its own; its rounds are made by the test, or by a thread."""

    def __init__(self, path: Path, users: frozenset[int] | None = None) -> None:
        self.path, self.folder = path, open_folder(path)
        self.now = BEGIN
        self.windows = Windows(self.now)
        self.server = listen(self.folder)
        self.received = Announcements(self.server, self.windows, users, clock=lambda: self.now)
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def serve(self) -> None:
        """Answer in a thread from now on."""
        self._thread = threading.Thread(target=self.received.run, args=(self._stop.is_set,))
        self._thread.start()

    def connect(self) -> socket.socket:
        """Return a connection to it."""
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        connection.settimeout(30)
        connection.connect(str(self.path / SOCKET))
        return connection

    def answer(self, data: bytes) -> bytes:
        """Return what it answers to a message."""
        with self.connect() as connection:
            connection.send(data)
            self.received.round()
            return connection.recv(256)

    def close(self) -> None:
        self._stop.set()
        if self._thread:
            self._thread.join(30)
        self.received.close()
        os.close(self.folder)


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Agent]:
    made = Agent(tmp_path)
    yield made
    made.close()


def test_an_announced_window_is_granted(agent: Agent) -> None:
    agent.serve()
    assert announce(agent.path, said(), patience_seconds=30) == ""
    assert agent.windows.running(BEGIN + 19 * SECOND)
    assert not agent.windows.running(BEGIN + 20 * SECOND)
    assert agent.received.counts == {"accepted": 1}


def test_a_second_one_at_once_is_refused_and_the_worker_hears_why(agent: Agent) -> None:
    agent.serve()
    announce(agent.path, said(), patience_seconds=30)
    assert announce(agent.path, said(), patience_seconds=30) == "refused: announced a moment ago"
    assert agent.received.counts == {"accepted": 1, "refused": 1}


def test_a_message_is_below_a_kilobyte() -> None:
    largest = Announcement(rank=2**31 - 1, pid=2**31 - 1, window=2**62 - 1, seconds=1 / 3)
    data = msgspec.json.encode(largest)
    assert len(data) < 200
    assert decode(data) == largest


RUBBISH = {
    "nothing in it": b"{}",
    "no JSON": b"\x00\xff\xfe",
    "deep": b"[" * 1024,
    "deep inside": b'{"rank":' + b'{"a":' * 200,
    "too long": message() + b" " * 1024,
    "61 seconds": message(seconds=61),
    "0 seconds": message(seconds=0),
    "less than 0": message(seconds=-1),
    "NaN": message(seconds=float("nan")),
    "infinite": message(seconds=float("inf")),
    "rank below 0": message(rank=-1),
    "rank is a word": message(rank="3"),
    "rank is true": message(rank=True),
    "rank beyond 2**31": message(rank=2**40),
    "another version": message(version=2),
    "more than is asked": message(command="rm"),
    "no pid": message(pid=0),
}


@pytest.mark.parametrize("data", RUBBISH.values(), ids=RUBBISH)
def test_rubbish_is_counted_and_grants_nothing(data: bytes, agent: Agent) -> None:
    assert agent.answer(data).startswith(b"refused: no announcement")
    assert agent.received.counts == {"rubbish": 1}
    assert not agent.windows.running(BEGIN)
    assert agent.answer(message()) == ACCEPTED


def test_a_pid_that_is_not_the_senders_is_refused(agent: Agent) -> None:
    assert agent.answer(message(pid=1)) == b"refused: sent by another process"
    assert agent.received.counts == {"stranger": 1}


def test_a_user_that_is_not_asked_for_is_refused(tmp_path: Path) -> None:
    agent = Agent(tmp_path, users=frozenset({os.geteuid() + 1}))
    assert agent.answer(message()).startswith(b"refused: not a user")
    assert agent.received.counts == {"stranger": 1}
    agent.close()


def test_a_process_in_a_container_is_known_by_its_own_number(tmp_path: Path) -> None:
    """NSpid lists the numbers from the reader's namespace inwards."""
    (tmp_path / "4711").mkdir()
    (tmp_path / "4711" / "status").write_text("Name:\tpython\nPid:\t4711\nNSpid:\t4711\t7\nThreads:\t1\n")
    assert own_pids(4711, tmp_path) == (4711, 7)
    assert own_pids(1, tmp_path) == ()


def test_one_that_says_nothing_is_sent_away_after_a_second(agent: Agent) -> None:
    with agent.connect() as connection:
        agent.received.round()
        agent.now += SECOND // 2
        agent.received.round()
        assert agent.received.counts == {}
        agent.now += SECOND
        agent.received.round()
        assert connection.recv(10) == b""
    assert agent.received.counts == {"silent": 1}


def test_one_that_hangs_up_is_only_counted(agent: Agent) -> None:
    agent.connect().close()
    agent.received.round()
    assert agent.received.counts == {"failed": 1}
    with agent.connect() as connection:
        connection.send(message())
    agent.received.round()  # the answer cannot be delivered
    assert agent.received.counts == {"failed": 1, "accepted": 1}


def test_a_flood_is_bounded_and_passes(agent: Agent) -> None:
    """Silent connections fill the queue; a round takes 16, keeps 16 of a user, and sends them away after a second."""
    with ExitStack() as flood:
        for number in range(500):
            connection = flood.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
            connection.setblocking(False)
            try:
                connection.connect(str(agent.path / SOCKET))
            except BlockingIOError:
                break
            if number % 100 == 0:
                agent.received.round()
        assert number < 499  # the kernel's queue is full and says so at once
        agent.received.round()
        assert len(agent.received._open) == MOST_OPEN // 2
        assert announce(agent.path, said(), patience_seconds=ROOM) != ""  # the worker is not held up
    for _ in range(10):
        agent.now += 2 * SECOND
        agent.received.round()
    assert agent.answer(message()) == ACCEPTED
    assert len(agent.received._open) == 0


def test_a_user_who_takes_all_his_connections_leaves_those_of_others(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    user = os.geteuid() + 1
    monkeypatch.setattr("eroica_hardware.announce.peer_of", lambda _: Peer(os.getpid(), user))
    with ExitStack() as flood:
        for _ in range(MOST_OPEN):
            flood.enter_context(agent.connect())
            agent.received.round()
        assert agent.received.counts == {"refused": MOST_OPEN // 2}
        user = os.geteuid()
        assert agent.answer(message()) == ACCEPTED


def test_without_descriptors_the_agent_goes_on_afterwards(agent: Agent) -> None:
    with agent.connect() as connection:
        connection.send(message())
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
        try:
            agent.received.round()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert agent.received.counts == {"failed": 1}
        agent.received.round()
        assert connection.recv(100) == ACCEPTED


def test_without_an_agent_the_worker_is_told_why_and_nothing_is_raised(tmp_path: Path) -> None:
    assert "cannot be opened" in announce(tmp_path, said())
    assert "cannot be opened" in announce(tmp_path / "gone", said())


@pytest.mark.parametrize("kind", ["file", "link", "pipe", "folder"])
def test_what_is_no_socket_is_not_used(kind: str, tmp_path: Path) -> None:
    """By the worker it is not talked to, by the agent not removed."""
    place, victim = tmp_path / SOCKET, tmp_path / "victim"
    victim.write_text("precious")
    if kind == "file":
        place.write_text("mine")
    elif kind == "link":
        place.symlink_to(victim)
    elif kind == "pipe":
        os.mkfifo(place)
    else:
        place.mkdir()
    before = os.lstat(place)
    assert "is not what should stand there" in announce(tmp_path, said())
    folder = open_folder(tmp_path)
    with pytest.raises(HardwareError, match="no socket of this user"):
        listen(folder)
    remove(folder)
    os.close(folder)
    assert os.path.samestat(before, os.lstat(place))
    assert victim.read_text() == "precious"


def test_a_socket_of_another_user_is_not_believed(agent: Agent) -> None:
    assert "belongs to user" in announce(agent.path, said(), owners=frozenset({os.geteuid() + 1}))
    agent.serve()
    assert announce(agent.path, said(), owners=frozenset({os.geteuid()}), patience_seconds=30) == ""


def test_a_dead_agents_socket_is_no_answer_and_is_replaced(agent: Agent, tmp_path: Path) -> None:
    agent.server.close()
    assert "does not answer" in announce(agent.path, said())
    with listen(agent.folder):
        assert stat.S_IMODE(os.lstat(tmp_path / SOCKET).st_mode) == 0o666
    remove(agent.folder)
    assert not (tmp_path / SOCKET).exists()


def test_an_agent_that_does_not_answer_holds_up_nobody(agent: Agent) -> None:
    assert "does not answer" in announce(agent.path, said(), patience_seconds=ROOM)


def test_a_folder_in_which_nothing_can_be_made_is_said() -> None:
    folder = open_folder(Path("/proc"))
    for use in (listen, hold):
        with pytest.raises(HardwareError, match="cannot be made"):
            use(folder)
    os.close(folder)


def test_a_path_longer_than_an_address_may_be_works(tmp_path: Path) -> None:
    deep = tmp_path / ("x" * 100) / ("y" * 100)
    deep.mkdir(parents=True)
    folder = open_folder(deep)
    with listen(folder):
        assert "does not answer" in announce(deep, said(), patience_seconds=ROOM)
    os.close(folder)


def test_a_second_agent_of_the_folder_is_told(tmp_path: Path) -> None:
    folder = open_folder(tmp_path)
    lock = hold(folder)
    with pytest.raises(HardwareError, match="another node agent"):
        hold(folder)
    os.close(lock)
    os.close(hold(folder))  # the first has ended, however it did
    os.close(folder)


def test_a_lock_of_somebody_else_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "agent.lock").touch()
    somebody = os.geteuid() + 1
    monkeypatch.setattr("os.geteuid", lambda: somebody)
    folder = open_folder(tmp_path)
    with pytest.raises(HardwareError, match="belongs to user"):
        hold(folder)
    os.close(folder)


def test_the_lock_does_not_follow_a_link(tmp_path: Path) -> None:
    (tmp_path / "agent.lock").symlink_to(tmp_path / "elsewhere")
    folder = open_folder(tmp_path)
    with pytest.raises(HardwareError, match="cannot be made"):
        hold(folder)
    os.close(folder)
    assert not (tmp_path / "elsewhere").exists()


WITH_DEFAULT_SIGPIPE = """
import os, signal, sys
from pathlib import Path
from eroica_otel.hardware.announce import Announcement, announce
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
print(announce(Path(sys.argv[1]), Announcement(rank=0, pid=os.getpid(), window=1, seconds=1.0), patience_seconds=30))
"""


def test_an_agent_that_hangs_up_does_not_kill_a_training_with_sigpipe(tmp_path: Path) -> None:
    folder = open_folder(tmp_path)
    with listen(folder) as server:
        server.setblocking(True)
        other = subprocess.Popen([sys.executable, "-c", WITH_DEFAULT_SIGPIPE, str(tmp_path)], stdout=subprocess.PIPE)
        server.accept()[0].close()
        out, _ = other.communicate(timeout=120)
    os.close(folder)
    assert other.returncode == 0
    assert b"answer" in out
