"""The stack sampler on real threads: what it sees, how true its shares are, and that it leaves nothing behind."""

from __future__ import annotations

import gc
import os
import statistics
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from eroica_otel.profile import stacks as module
from eroica_otel.profile.stacks import SWITCH_INTERVAL_SECONDS, StackSampler, qualified_name

FUNCTION_SECONDS = 0.0004
SAMPLED_SECONDS = 2.0


@pytest.fixture(autouse=True)
def _interpreter_as_before() -> Iterator[None]:
    before = sys.getswitchinterval(), list(gc.callbacks)
    yield
    assert (sys.getswitchinterval(), gc.callbacks) == before


def short_python_function(end: float) -> float:
    """Keep the interpreter busy until ``end`` without ever letting go of it; return the time."""
    while (now := time.perf_counter()) < end:
        pass
    return now


def loop_with_known_share(seconds: float) -> float:
    """Run the function and three calls that let go of the GIL for ``seconds``; return the function's true share."""
    inside = 0.0
    begin = now = time.perf_counter()
    while now - begin < seconds:
        entered = time.perf_counter()
        inside += short_python_function(entered + FUNCTION_SECONDS) - entered
        for _ in range(3):
            torch.zeros(8)
        now = time.perf_counter()
    return inside / (now - begin)


def shares(sampler: StackSampler) -> dict[str, float]:
    """Return the share of each innermost function: a sample weighs the time since the one before."""
    weights = np.diff(np.array(sampler.stack_ns))
    names = [sampler.frames[sampler.stacks[index][-1]][1] for index in sampler.stack_ids[1:]]
    total: Counter[str] = Counter()
    for name, weight in zip(names, weights, strict=True):
        total[name.rpartition(".")[2]] += int(weight)
    return {name: weight / weights.sum() for name, weight in total.items()}


def sampled(call: Callable[[], object], hertz: float = 1000.0) -> StackSampler:
    sampler = StackSampler(threading.get_ident(), hertz)
    sampler.start()
    try:
        call()
    finally:
        sampler.stop()
    return sampler


def share_of_the_short_function(seconds: float) -> tuple[float, float, int]:
    """Return its true share, its sampled share, and the number of samples."""
    true: list[float] = []
    sampler = sampled(lambda: true.append(loop_with_known_share(seconds)))
    return true[0], shares(sampler).get("short_python_function", 0.0), len(sampler.stack_ns)


def test_a_function_of_0_4_ms_that_takes_nearly_all_the_time_gets_its_share(monkeypatch: pytest.MonkeyPatch) -> None:
    """And at the interpreter's own switch interval it does not: what the sampler lowers is what makes it right.

    Of several runs, because where others compute they take the core from the function, and then the plain interval
    shows it too: 0.3 in the median of such runs, but never in all of them.
    """
    runs = [share_of_the_short_function(SAMPLED_SECONDS / 2) for _ in range(3)]
    true, seen = (statistics.median(values) for values in list(zip(*runs, strict=True))[:2])
    assert true > 0.7, runs  # 0.92 to 0.96 where nobody else computes
    assert seen > 0.5, runs
    # A busy machine gives fewer, but a share from less than 300 would prove nothing.
    assert sum(count for _, _, count in runs) > 300, runs
    monkeypatch.setattr(module, "SWITCH_INTERVAL_SECONDS", sys.getswitchinterval())
    plain = [share_of_the_short_function(SAMPLED_SECONDS / 3)[1] for _ in range(4)]
    assert min(plain) < seen / 3, plain


def test_two_functions_get_shares_in_the_proportion_of_their_time() -> None:
    true: Counter[str] = Counter()

    def long_one() -> float:
        return short_python_function(time.perf_counter() + 0.006)

    def short_one() -> float:
        return short_python_function(time.perf_counter() + 0.002)

    def both() -> None:
        end = time.perf_counter() + SAMPLED_SECONDS
        begin = time.perf_counter()
        while begin < end:
            for function in (long_one, short_one):
                done = function()
                true[function.__name__] += done - begin  # type: ignore[assignment]
                begin = done

    sampler = sampled(both)
    seen: Counter[str] = Counter()
    for index, weight in zip(sampler.stack_ids[1:], np.diff(np.array(sampler.stack_ns)), strict=True):
        for frame in sampler.stacks[index]:
            seen[sampler.frames[frame][1].rpartition(".")[2]] += int(weight)
    share = true["long_one"] / true.total()
    assert seen["long_one"] / (seen["long_one"] + seen["short_one"]) == pytest.approx(share, abs=0.15)


def test_the_switch_interval_is_lowered_inside_and_put_back_after() -> None:
    before = sys.getswitchinterval()
    inside: list[float] = []
    sampled(lambda: inside.append(sys.getswitchinterval()))
    assert inside == [pytest.approx(SWITCH_INTERVAL_SECONDS)]
    assert sys.getswitchinterval() == before


def test_a_switch_interval_that_the_training_sets_meanwhile_stays() -> None:
    before = sys.getswitchinterval()
    try:
        sampled(lambda: sys.setswitchinterval(0.02))
        assert sys.getswitchinterval() == pytest.approx(0.02)
    finally:
        sys.setswitchinterval(before)


def test_garbage_collections_have_their_exact_borders() -> None:
    borders: list[int] = []

    def collect() -> None:
        for _ in range(3):
            borders.append(time.perf_counter_ns())
            gc.collect()
            borders.append(time.perf_counter_ns())

    gc.disable()
    try:
        sampler = sampled(collect)
    finally:
        gc.enable()
    seen = np.array(sampler.gc_ns).reshape(-1, 2)
    asked = np.array(borders).reshape(-1, 2)
    assert len(seen) == 3
    assert (asked[:, 0] <= seen[:, 0]).all()
    assert (seen[:, 0] <= seen[:, 1]).all()
    assert (seen[:, 1] <= asked[:, 1]).all()


def test_a_child_forked_inside_a_window_is_as_before_after_its_first_collection() -> None:
    before = sys.getswitchinterval()

    def fork() -> int:
        child = os.fork()
        if child:
            return os.waitpid(child, 0)[1]
        gc.collect()
        left = [callback for callback in gc.callbacks if getattr(callback, "__name__", "") == "_on_gc"]
        os._exit(0 if not left and sys.getswitchinterval() == before else 1)

    codes: list[int] = []
    sampler = sampled(lambda: codes.append(fork()))
    assert codes == [0]
    assert sampler.stack_ns


def test_a_frame_is_named_by_module_function_file_and_first_line() -> None:
    sampler = sampled(lambda: short_python_function(time.perf_counter() + 0.3))
    by_name = {name: (module, file, line) for module, name, file, line in sampler.frames}
    code = short_python_function.__code__
    assert by_name["short_python_function"] == (__name__, code.co_filename, code.co_firstlineno)
    names = [[sampler.frames[frame][1].rpartition(".")[2] for frame in stack] for stack in sampler.stacks]
    # Outermost first: the test itself, what starts the sampler, the lambda in it, the function.
    wanted = [test_a_frame_is_named_by_module_function_file_and_first_line.__name__, "sampled", "<lambda>"]
    assert [*wanted, "short_python_function"] in [stack[-4:] for stack in names]


def test_a_recursion_500_deep_is_one_stack() -> None:
    def down(depth: int) -> float:
        return down(depth - 1) if depth else short_python_function(time.perf_counter() + 0.5)

    sampler = sampled(lambda: down(500))
    assert max(len(stack) for stack in sampler.stacks) > 500
    names = [name for _, name, _, _ in sampler.frames]
    assert len([name for name in names if name.endswith("down")]) == 1


def test_a_thread_that_has_ended_is_no_error_and_gives_no_more_samples() -> None:
    made: list[StackSampler] = []

    def train() -> None:
        made.append(StackSampler(threading.get_ident(), 1000.0))
        made[0].start()
        short_python_function(time.perf_counter() + 0.1)

    thread = threading.Thread(target=train)
    thread.start()
    thread.join()
    ended = time.perf_counter_ns()
    time.sleep(0.05)
    assert made[0]._runner.is_alive()
    made[0].stop()
    assert not made[0]._runner.is_alive()
    assert made[0].stack_ns
    assert max(made[0].stack_ns) <= ended


def test_columns_have_one_length_and_times_and_cpu_only_grow() -> None:
    sampler = sampled(lambda: loop_with_known_share(0.3))
    count = len(sampler.stack_ns)
    assert count == len(sampler.stack_ids) == len(sampler.cpu_ns)
    assert (np.diff(sampler.stack_ns) > 0).all()
    assert (np.diff(sampler.cpu_ns) >= 0).all()
    assert set(sampler.stack_ids) == set(range(len(sampler.stacks)))


def test_the_network_is_read_no_more_after_an_error() -> None:
    readings = iter([(1, 2), (3, 4)])

    def read() -> tuple[int, int]:
        try:
            return next(readings)
        except StopIteration:
            raise OSError("the interface is gone") from None

    sampler = StackSampler(threading.get_ident(), 1000.0, read)
    sampler.start()
    time.sleep(0.2)
    sampler.stop()
    assert list(sampler.nic_tx) == [1, 3]
    assert list(sampler.nic_rx) == [2, 4]
    assert sampler.nic_ns[1] > sampler.nic_ns[0]
    assert sampler.stack_ns[-1] > sampler.nic_ns[-1]


def test_the_network_is_asked_200_times_a_second_at_most() -> None:
    sampler = StackSampler(threading.get_ident(), 1000.0, lambda: (1, 2))
    begin = time.monotonic()
    sampler.start()
    time.sleep(0.3)
    sampler.stop()
    assert 0 < len(sampler.nic_ns) <= 200 * (time.monotonic() - begin) + 1


def test_a_counter_that_never_answers_takes_no_stack_from_the_window(tmp_path: Path) -> None:
    """Reading it waits until somebody writes into the pipe, as a file of a device whose firmware hangs."""
    pipe = tmp_path / "port_rcv_data"
    os.mkfifo(pipe)
    file = os.open(pipe, os.O_RDWR)
    sampler = StackSampler(threading.get_ident(), 1000.0, lambda: (int(os.read(file, 8)), 0))
    sampler.start()
    until = time.monotonic() + 10
    while len(sampler.stack_ns) < 20 and time.monotonic() < until:
        time.sleep(0.01)
    sampler.stop()
    assert len(sampler.stack_ns) >= 20  # the first one comes before the first reading
    assert list(sampler.nic_ns) == []
    os.write(file, b"1")  # lets its thread end
    os.close(file)


def test_a_method_is_named_with_its_class_also_where_python_does_not_know_it() -> None:
    class Base:
        def method(self) -> str:
            return qualified_name(sys._getframe())

        @classmethod
        def of_class(cls) -> str:
            return qualified_name(sys._getframe())

    class Derived(Base):
        pass

    def function(argument: object) -> str:
        return qualified_name(sys._getframe())

    original = Base.method
    assert Derived().method() == f"{Base.__qualname__}.method"
    assert Derived.of_class() == f"{Base.__qualname__}.of_class"
    assert function(Derived()) == "function"
    assert function(None) == "function"
    Base.method = lambda self: original(self)  # type: ignore[method-assign]
    assert Derived().method() == f"{Derived.__qualname__}.method"


def test_a_frame_that_cannot_be_read_costs_its_sample_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """CPython 3.11 can give a frame whose parts are gone: seen once, with a number where its globals should be."""
    sampler = StackSampler(threading.get_ident(), 1000.0)
    gone = SimpleNamespace(f_code=short_python_function.__code__, f_globals=7, f_back=None)
    for frames in ({threading.get_ident(): gone}, sys._current_frames()):
        monkeypatch.setattr(sys, "_current_frames", lambda frames=frames: frames)
        sampler._sample()
    assert len(sampler.stack_ns) == len(sampler.stack_ids) == len(sampler.cpu_ns) == 1
    innermost = sampler.frames[sampler.stacks[0][-1]]
    assert innermost[1] == test_a_frame_that_cannot_be_read_costs_its_sample_and_no_other.__name__


def test_the_walk_over_another_thread_s_frames_never_ends_in_freed_memory() -> None:
    """``hostile_stacks.py naive`` mostly crashes CPython 3.11 within a second; whether depends on where memory lies."""
    script = Path(__file__).with_name("hostile_stacks.py")
    done = subprocess.run([sys.executable, script, "ours", "6"], capture_output=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr.decode()
