from __future__ import annotations

import signal
import threading

import pytest

from eroica_otel.signalled import ended_by_signals

PATIENCE_SECONDS = 30.0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_main_thread_may_hold_the_lock_that_the_end_takes(number: int) -> None:
    lock, ended = threading.Lock(), threading.Event()

    def end() -> None:
        if lock.acquire(timeout=PATIENCE_SECONDS):
            ended.set()

    with ended_by_signals(end):
        with lock:
            signal.raise_signal(number)
            assert not ended.is_set()
        assert ended.wait(PATIENCE_SECONDS)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_handlers_are_put_back(number: int) -> None:
    before = signal.getsignal(number)
    with ended_by_signals(lambda: None):
        assert signal.getsignal(number) != before
    assert signal.getsignal(number) == before
