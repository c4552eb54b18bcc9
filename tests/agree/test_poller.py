"""Pollers that meet in one store: exactly one window for one wish, and a store that fails harms nobody."""

from __future__ import annotations

import datetime
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import torch.distributed

from eroica_otel.agree.decider import PATIENCE_SECONDS
from eroica_otel.agree.poller import RETRY_SECONDS, Poller
from eroica_otel.agree.store import ATTEMPT_SECONDS, C10dStore, LocalStore, Store, connect
from eroica_otel.model import Window
from factories_worker import FakeClock, standing

SERVER = """
import sys
from datetime import timedelta
from torch.distributed import TCPStore
store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False, timeout=timedelta(seconds=5))
print(store.port, flush=True)
sys.stdin.read()
"""


@dataclass
class Server:
    """A store's server in a process of its own, so that it can be killed and stopped."""

    process: subprocess.Popen[str]
    port: int

    def environment(self) -> dict[str, str]:
        return {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(self.port)}


@pytest.fixture
def server() -> Iterator[Server]:
    process = subprocess.Popen([sys.executable, "-c", SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    yield Server(process, int(process.stdout.readline()))
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()


@pytest.fixture
def own_server() -> Any:
    return torch.distributed.TCPStore(  # type: ignore[attr-defined]
        "127.0.0.1", 0, is_master=True, wait_for_workers=False, timeout=datetime.timedelta(seconds=5)
    )


def pollers(connected: Callable[[], Store], ranks: int = 4, clock: FakeClock | None = None) -> list[Poller]:
    clock = clock or FakeClock()
    return [Poller(connected, ranks, 20.0, clock, lambda: 1_764_430_000.0) for _ in range(ranks)]


def rounds(ranks: list[Poller], times: int = 3) -> None:
    for _ in range(times):
        for poller in ranks:
            poller.poll()


def test_one_wish_gives_one_window_that_all_get() -> None:
    store = LocalStore()
    ranks = pollers(lambda: store)
    for number, poller in enumerate(ranks):
        poller.standing = standing(number, wants="manual" if number == 2 else "")
    rounds(ranks)
    assert [list(poller.agreed) for poller in ranks] == [[Window(1_764_430_000, "manual", 131, 331)]] * 4


def test_the_first_that_says_where_a_running_window_ends_says_it_for_all() -> None:
    store = LocalStore()
    ranks = pollers(lambda: store)
    woken: list[int] = []
    for number, poller in enumerate(ranks):
        poller.standing, poller.running = standing(number), 1_764_430_000
        poller.on_agreed = lambda number=number: woken.append(number)  # type: ignore[misc]
    rounds(ranks)
    assert [poller.ended for poller in ranks] == [(0, 0)] * 4
    ranks[2].nearer = 211
    ranks[3].nearer = 212
    rounds(ranks)
    assert [poller.ended for poller in ranks] == [(1_764_430_000, 211)] * 4
    assert sorted(woken) == [0, 1, 2, 3]
    # The next window has an end of its own.
    for poller in ranks:
        poller.running, poller.nearer = 1_764_430_060, 0
    rounds(ranks)
    assert [poller.ended for poller in ranks] == [(1_764_430_000, 211)] * 4


def test_a_wish_from_before_a_window_opens_no_second_one() -> None:
    store = LocalStore()
    ranks = pollers(lambda: store)
    for number, poller in enumerate(ranks):
        poller.standing = standing(number, wants="degraded")
    rounds(ranks, 5)
    assert [len(poller.agreed) for poller in ranks] == [1, 1, 1, 1]
    # Rank 0 has taken it and still stands, the others have not said anything new: theirs are old wishes.
    ranks[0].standing = standing(0, wants="degraded", windows=1)
    rounds(ranks, 5)
    assert [len(poller.agreed) for poller in ranks] == [1, 1, 1, 1]
    ranks[1].standing = standing(1, wants="degraded", windows=1)
    rounds(ranks, 2)
    assert [len(poller.agreed) for poller in ranks] == [2, 2, 2, 2]


def test_a_rank_that_has_nothing_to_say_any_more_does_not_go_on_wishing() -> None:
    store = LocalStore()
    ranks = pollers(lambda: store)
    for number in range(3):
        ranks[number].standing = standing(number)
    rounds(ranks)
    ranks[0].standing = standing(0, wants="degraded")
    rounds(ranks)
    assert not any(poller.agreed for poller in ranks)  # one of three is not half
    ranks[0].standing = None  # its loop has changed and is learned anew
    rounds(ranks)
    ranks[1].standing = standing(1, wants="degraded")
    rounds(ranks)
    assert not any(poller.agreed for poller in ranks)


class Counting(LocalStore):
    """A store that counts what it is asked."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0

    def get(self, key: str) -> bytes | None:
        self.asked += 1
        return super().get(key)

    def get_all(self, keys: Sequence[str]) -> list[bytes]:
        self.asked += len(keys)
        return super().get_all(keys)


def test_one_of_many_that_want_a_window_reads_what_all_say() -> None:
    store, count = Counting(), 100
    ranks = pollers(lambda: store, count)
    for number, poller in enumerate(ranks):
        poller.standing = standing(number, wants="degraded" if number >= 40 else "", wants_since_seconds=0.0)
    rounds(ranks[:60], 1)  # 20 of the 60 that report want it: not half of them
    store.asked = 0
    rounds(ranks[:60], 1)
    assert store.asked < 60 * 6 + count
    assert not any(poller.agreed for poller in ranks)


def test_when_the_one_that_decides_dies_another_takes_over() -> None:
    clock, store = FakeClock(), LocalStore()
    ranks = pollers(lambda: store, 4, clock)
    for number, poller in enumerate(ranks):
        poller.standing = standing(number)
    rounds(ranks, 1)
    ranks[0].standing = standing(0, wants="degraded")
    rounds(ranks)  # rank 0 decides that one of four is not enough, and dies
    ranks = ranks[1:]
    for number, poller in enumerate(ranks, 1):
        poller.standing = standing(number, wants="degraded" if number < 3 else "")
    rounds(ranks)
    assert not any(poller.agreed for poller in ranks)
    clock.now += 2 * PATIENCE_SECONDS
    rounds(ranks)
    assert [len(poller.agreed) for poller in ranks] == [1, 1, 1]


@pytest.mark.parametrize("own", ["reference", "degraded"])
def test_one_that_decides_and_gets_none_itself_opens_the_window_that_another_wants(own: str) -> None:
    store = LocalStore()
    ranks = pollers(lambda: store)
    for number, poller in enumerate(ranks):
        poller.standing = standing(number)
    rounds(ranks)
    ranks[0].standing = standing(0, wants=own)
    rounds(ranks)  # rank 0 decides that one of four is not enough, and goes on to decide
    assert not any(poller.agreed for poller in ranks)
    ranks[2].standing = standing(2, wants="manual")
    rounds(ranks)
    assert [[window.reason for window in poller.agreed] for poller in ranks] == [["manual"]] * 4


def test_many_standings_come_in_few_requests_and_missing_ones_are_left_out(own_server: Any) -> None:
    store = C10dStore(own_server, "m/")
    for number in range(0, 200, 2):
        store.set(f"rank/{number}", str(number).encode())
    keys = [f"rank/{number}" for number in range(200)]
    assert store.get_all(keys) == [str(number).encode() for number in range(0, 200, 2)]
    store.set("rank/7", b"7")
    assert store.get_all(keys[:8]) == [b"0", b"2", b"4", b"6", b"7"]


def test_nobody_wants_anything_and_nothing_happens() -> None:
    store = LocalStore()
    ranks = pollers(lambda: store)
    rounds(ranks)
    for number, poller in enumerate(ranks):
        poller.standing = standing(number)
    rounds(ranks)
    assert not any(poller.agreed for poller in ranks)


def test_a_rank_that_comes_late_hears_of_every_window() -> None:
    store = LocalStore()
    ranks = pollers(lambda: store)
    early, late = ranks[:3], ranks[3]
    for number, poller in enumerate(early):
        poller.standing = standing(number, wants="manual" if number == 0 else "")
    rounds(early)
    late.poll()
    assert list(late.agreed) == list(early[0].agreed)


def test_four_pollers_at_once_on_a_real_store_agree_on_one_window(own_server: Any) -> None:
    environment = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(own_server.port)}
    ranks = pollers(lambda: connect(torch.distributed, environment, "eroica/run/0/", 4))
    for number, poller in enumerate(ranks):
        # Each would propose another window: its own iteration is the highest that it sees.
        poller.standing = standing(number, iteration=100 + number, wants="manual")
    barrier = threading.Barrier(4)

    def run(poller: Poller) -> None:
        poller.poll()
        barrier.wait()
        for _ in range(10):
            poller.poll()

    threads = [threading.Thread(target=run, args=(poller,)) for poller in ranks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    assert [len(poller.agreed) for poller in ranks] == [1, 1, 1, 1]
    assert len({poller.agreed[0] for poller in ranks}) == 1


def test_keys_of_an_earlier_run_are_not_seen(own_server: Any) -> None:
    environment = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(own_server.port)}
    (before,) = pollers(lambda: connect(torch.distributed, environment, "eroica/run/0/", 2), 1)
    before.standing = standing(0, wants="manual")
    before.poll()
    assert len(before.agreed) == 1
    (after,) = pollers(lambda: connect(torch.distributed, environment, "eroica/run/1/", 2), 1)
    after.standing = standing(0)
    after.poll()
    assert not after.agreed


def test_all_follow_rank_0_into_a_new_attempt_whatever_the_launchers_count(own_server: Any) -> None:
    """An elastic launcher's store outlives restarts, and two nodes may count a different number of these."""
    clock = FakeClock()
    stores = [C10dStore(own_server, "e/", name, clock) for name in ("one", "")]
    first = [Poller(partial(stores.__getitem__, number), 2, 20.0, FakeClock()) for number in range(2)]
    for number, poller in enumerate(first):
        poller.standing = standing(number, iteration=5000, wants="manual" if number == 1 else "")
    rounds(first)
    assert not first[1].agreed, "it cannot know yet that the attempt that lies there is not over"
    clock.now += 2 * ATTEMPT_SECONDS
    rounds(first)
    assert [len(poller.agreed) for poller in first] == [1, 1]
    clock = FakeClock()
    follower = Poller(lambda: C10dStore(own_server, "e/", "", clock), 2, 20.0, clock)
    follower.standing = standing(1, iteration=30, wants="manual", windows=1)
    follower.poll()  # before rank 0 is back: an attempt that is over, its window lies far ahead
    assert not follower.agreed
    leader = Poller(lambda: C10dStore(own_server, "e/", "two"), 2, 20.0, FakeClock())
    leader.standing = standing(0, iteration=30)
    for _ in range(3):
        leader.poll()
        clock.now += 2 * ATTEMPT_SECONDS
        follower.standing = standing(1, iteration=30, wants="manual", windows=follower.offset)
        follower.poll()
    (window,) = leader.agreed
    assert list(follower.agreed) == [window]
    assert 30 < window.start < 5000


def test_without_rank_0_another_rank_opens_the_attempt_after_a_while(own_server: Any) -> None:
    clock = FakeClock()
    ranks = [Poller(lambda: C10dStore(own_server, "f/", "", clock), 3, 20.0, clock) for _ in range(2)]
    for number, poller in enumerate(ranks, 1):
        poller.standing = standing(number, wants="manual", wants_since_seconds=10.0)
    rounds(ranks)
    assert not any(poller.agreed for poller in ranks)
    assert all(poller.silent_seconds() == 0 for poller in ranks)
    clock.now += 60
    rounds(ranks)
    assert ranks[0].agreed == ranks[1].agreed
    assert len(ranks[0].agreed) == 1


def test_a_leader_that_connects_again_stays_in_its_attempt(own_server: Any) -> None:
    before, after = (C10dStore(own_server, "g/", "same") for _ in range(2))
    assert before.attempt() == after.attempt() == "same"
    before.set("key", b"value")
    assert after.get("key") == b"value"


def test_the_store_answers_none_for_a_key_that_is_not_there_and_keeps_the_first(own_server: Any) -> None:
    store = C10dStore(own_server, "x/")
    assert store.get("a") is None
    assert store.first("a", b"1") == b"1"
    assert store.first("a", b"2") == b"1"
    store.set("a", b"3")
    assert store.get("a") == b"3"


def test_one_process_needs_no_store() -> None:
    assert isinstance(connect(None, {}, "", 1), LocalStore)


def test_a_job_without_torch_distributed_says_so_and_keeps_trying() -> None:
    clock = FakeClock()
    (poller,) = pollers(lambda: connect(None, {}, "", 4), 1, clock)
    with pytest.raises(RuntimeError, match=r"4 ranks by its variables, but uses no torch\.distributed"):
        poller.poll()


def test_without_an_address_and_without_a_process_group_there_is_an_error_that_the_thread_knows() -> None:
    with pytest.raises((RuntimeError, ValueError)):
        connect(torch.distributed, {}, "", 4)


def wait_for(condition: Callable[[], bool], seconds: float = 20.0) -> None:
    """Wait for another process or thread; the limit is no measurement, it only ends a test that has failed."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        select.select([], [], [], 0.02)


def test_a_killed_server_is_counted_and_raises_nothing(server: Server) -> None:
    poller = Poller(lambda: connect(torch.distributed, server.environment(), "p/", 2), 2, 20.0)
    poller.standing = standing(0)
    poller.start()
    wait_for(lambda: poller._store is not None)
    server.process.kill()
    wait_for(lambda: poller.errors > 0)
    assert poller.last_error
    assert "\n" not in poller.last_error
    assert poller._rounds._runner.is_alive()
    poller.stop()
    wait_for(lambda: not poller._rounds._runner.is_alive())  # stop() waits two seconds, which a busy machine may exceed


def test_after_an_error_it_waits_before_it_connects_again() -> None:
    clock, connected = FakeClock(), []

    def refused() -> Store:
        connected.append(clock.now)
        raise ConnectionError("nobody there")

    poller = Poller(refused, 2, 20.0, clock)
    poller._round()
    poller._round()
    assert (len(connected), poller.errors, poller.last_error) == (1, 1, "nobody there")
    clock.now += RETRY_SECONDS
    poller._round()
    assert len(connected) == 2


def test_a_torch_without_distributed_is_an_error_like_another() -> None:
    where = {"MASTER_ADDR": "localhost", "MASTER_PORT": "1"}
    poller = Poller(lambda: connect(SimpleNamespace(), where, "p/", 2), 2, 20.0, FakeClock())
    poller._round()
    assert poller.errors == 1
    assert "TCPStore" in poller.last_error


def test_what_another_version_has_written_is_an_error_like_another() -> None:
    store = LocalStore()
    store.set("decider/0/0", b"1")  # rank 1 decides
    store.set("decider/0/refusal", b"no")
    poller = Poller(lambda: store, 2, 20.0, FakeClock())
    poller.standing = standing(wants="manual")
    poller._round()
    assert poller.errors == 1


def test_what_nobody_foresaw_does_not_end_the_thread() -> None:
    failed, waits = [], iter([False, False, True])

    def guard(stage: str, call: Callable[[], None]) -> None:
        try:
            call()
        except ZeroDivisionError:
            failed.append(stage)

    def connected() -> Store:
        raise ZeroDivisionError

    clock = FakeClock()

    poller = Poller(connected, 2, 20.0, clock, guard=guard)

    def wait(timeout: float | None = None) -> bool:
        clock.now += RETRY_SECONDS
        poller._rounds.stopping = next(waits)
        return True

    poller._rounds._wake.wait = wait  # type: ignore[method-assign]
    poller._rounds._run()
    assert failed == ["store", "store"]


def test_who_is_woken_has_a_round_at_once_and_says_what_it_brought() -> None:
    told = threading.Event()
    poller = Poller(LocalStore, 1, 20.0)
    waiting = poller._rounds._wake.wait
    poller._rounds._wake.wait = lambda timeout=None: waiting()  # type: ignore[method-assign]  # no round but those asked for
    poller.on_agreed = told.set
    poller.standing = standing(0, wants="manual")
    poller.start()
    poller.wake()
    assert told.wait(20)
    assert [window.reason for window in poller.agreed] == ["manual"]
    poller.stop()
    assert not poller._rounds._runner.is_alive()


def test_silence_is_the_time_since_the_last_answer() -> None:
    clock, store = FakeClock(), LocalStore()
    poller = Poller(lambda: store, 1, 20.0, clock)
    poller.poll()
    assert poller.silent_seconds() == 0.0
    clock.now += 2  # one round and its second are no silence
    assert poller.silent_seconds() == 0.0
    clock.now += 10
    assert poller.silent_seconds() == 10.0
    poller.poll()
    assert poller.silent_seconds() == 0.0


def stays_in_the_store(poller: Poller) -> bool:
    """Whether the thread is inside a call of the store now and after a while."""

    def inside() -> bool:
        frame = sys._current_frames().get(poller._rounds._runner.ident or 0)
        return frame is not None and frame.f_code.co_filename.endswith("agree/store.py")

    if not inside():
        return False
    select.select([], [], [], 0.3)
    return inside()


def test_a_frozen_server_takes_its_poller_and_nobody_else(server: Server) -> None:
    clock = FakeClock()
    poller = Poller(lambda: connect(torch.distributed, server.environment(), "p/", 2), 2, 20.0, clock)
    poller.standing = standing(0)
    poller.start()
    wait_for(lambda: poller._store is not None)
    os.kill(server.process.pid, signal.SIGSTOP)
    try:
        wait_for(lambda: stays_in_the_store(poller))
        clock.now += 60
        # What the 1 Hz thread does with it is never held up.
        assert poller.silent_seconds() == 58.0
        poller.standing = replace(standing(0), wants="manual")
        assert not poller.agreed
        poller.stop()
        assert poller._rounds._runner.is_alive()
        assert poller._rounds._runner.daemon
    finally:
        os.kill(server.process.pid, signal.SIGCONT)
    wait_for(lambda: not poller._rounds._runner.is_alive())


def test_ranks_100_apart_get_no_window_and_each_that_wishes_is_told_why() -> None:
    store, clock = LocalStore(), FakeClock()
    ranks = pollers(lambda: store, 4, clock)
    for poll in range(6):
        for number, poller in enumerate(ranks):
            iteration = 1000 + 7 * poll + (100 if number == 3 else 0)
            poller.standing = standing(number, iteration=iteration, period_seconds=0.15, wants="reference")
        rounds(ranks, 1)
        clock.now += 1
    assert not any(poller.agreed for poller in ranks)
    assert "rank 3 is at 11" in ranks[0].refusal
    assert all(poller.refusal for poller in ranks)


def test_windows_that_were_over_when_it_connected_are_not_taken_again() -> None:
    store, count = LocalStore(), 0
    wall = 1_764_430_000.0

    def connected() -> list[Poller]:
        return [Poller(lambda: store, 2, 20.0, FakeClock(), lambda: wall, lambda: count) for _ in range(2)]

    before = connected()
    for number, poller in enumerate(before):
        poller.standing = standing(number, wants="manual")
    rounds(before)
    (window,) = before[0].agreed
    count = window.stop + 50  # close() and instrument(): the count goes on
    after = connected()
    for number, poller in enumerate(after):
        poller.standing = standing(number, iteration=count)
    rounds(after)
    assert [(len(poller.agreed), poller.offset) for poller in after] == [(0, 1)] * 2
    wall += 100
    for number, poller in enumerate(after):
        poller.standing = standing(number, iteration=count, wants="manual", windows=1)
    rounds(after)
    assert [len(poller.agreed) for poller in after] == [1, 1]
    assert after[0].agreed[0].start > count
