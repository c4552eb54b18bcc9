"""Waits for the DataLoader's processes, handed on to what these run."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from eroica_otel.kinds import Frame
from eroica_otel.model import Capture, LoaderSamples
from eroica_otel.summarize.critical import charge
from eroica_otel.summarize.functions import Functions
from eroica_otel.summarize.intervals import Intervals
from eroica_otel.summarize.loaderframes import awaits_loader, loader_stack
from eroica_otel.summarize.loaders import HeldUp, held_up, unseen
from eroica_otel.summarize.pattern import summarize
from factories_summarize import MAIN, NEXT, capture, events

DATALOADER = "torch.utils.data.dataloader"
GET = (DATALOADER, "_MultiProcessingDataLoaderIter._try_get_data", "dataloader.py", 1278)
SELECT = ("selectors", "_PollLikeSelector.select", "selectors.py", 402)
QUEUE = ("multiprocessing.queues", "Queue.get", "queues.py", 90)
LOOP = ("torch.utils.data._utils.worker", "_worker_loop", "worker.py", 244)
FETCH = ("torch.utils.data._utils.fetch", "_MapDatasetFetcher.fetch", "fetch.py", 49)
READ = ("__main__", "Remote.read", "train.py", 10)
DECODE = ("__main__", "Remote.decode", "train.py", 20)
OWN = ("eroica_otel.profile.loaders", "Batches.get", "loaders.py", 140)
IDLE, READING, DECODING = 0, 1, 2
FRAMES = (MAIN, LOOP, OWN, QUEUE, FETCH, READ, DECODE)
STACKS = ((0, 1, 2, 3), (0, 1, 4, 5), (0, 1, 4, 6))
NAMES = {"Remote.read (train.py:10)": "read", "Remote.decode (train.py:20)": "decode"}


def process(
    *samples: tuple[int, int], batches: Sequence[int] = (), cpu: Sequence[int] | None = None, **more: Any
) -> LoaderSamples:
    """Return a process of the loader; samples are (time, IDLE, READING or DECODING)."""
    fields: dict[str, Any] = {
        "process": 1, "frames": FRAMES, "stacks": STACKS,
        "stack_ns": np.array([time for time, _ in samples], np.int64),
        "stack_ids": np.array([stack for _, stack in samples], np.int32),
        "cpu_ns": np.array([0] * len(samples) if cpu is None else cpu, np.int64),
        "batch_ns": np.array(batches, np.int64),
    }  # fmt: skip
    return LoaderSamples(**(fields | more))


def window(*loaders: LoaderSamples, **more: Any) -> Capture:
    return capture(loaders=loaders, **more)


def spans(*pairs: tuple[int, int]) -> Intervals:
    """Return waits, all of one function."""
    table = np.array(pairs, np.int64).reshape(-1, 2)
    return Intervals(table[:, 0], table[:, 1], np.full(len(table), 99, np.int64))


def handed(waits: Intervals, *loaders: LoaderSamples, end: int = 100) -> tuple[dict[str, int], HeldUp]:
    """Return nanoseconds by function, "queue" where nobody holds up."""
    functions = Functions()
    found = held_up(window(*loaders, end=end), waits, functions)
    names = {at: NAMES[function.name] for at, function in enumerate(functions.all())} | {99: "queue"}
    sums: Counter[str] = Counter()
    for start, stop, number in zip(*found.charged, strict=True):
        sums[names[int(number)]] += int(stop - start)
    return dict(sums), found


def test_a_wait_is_charged_to_the_process_whose_batch_ended_it() -> None:
    slow = process((0, READING), (60, READING), (100, READING), batches=(60,))
    other = process((0, DECODING), (100, DECODING), batches=(5, 70))
    assert handed(spans((10, 61)), slow, other)[0] == {"read": 51}


def test_of_two_batches_inside_a_wait_the_later_one_ended_it() -> None:
    """The earlier one was for later: batches are taken in order."""
    first = process((0, READING), (100, READING), batches=(30,))
    last = process((0, DECODING), (100, DECODING), batches=(50,))
    assert handed(spans((10, 51)), first, last)[0] == {"decode": 41}


def test_a_wait_that_no_batch_ended_is_shared_evenly_by_those_that_work() -> None:
    works = [
        process((0, READING), (100, READING)),
        process((0, DECODING), (100, DECODING)),
        process((0, IDLE), (100, IDLE)),
    ]
    assert handed(spans((10, 50)), *works)[0] == {"read": 20, "decode": 20}


def test_what_nobody_works_on_stays_with_the_queue() -> None:
    one = process((0, READING), (30, READING), (60, IDLE), (100, READING), batches=(90,))
    assert handed(spans((10, 95)), one)[0] == {"read": 20 + 35, "queue": 30}


def test_before_its_first_sample_and_after_its_last_nothing_is_known_of_a_process() -> None:
    one = process((40, READING), (60, READING), batches=(80,))
    assert handed(spans((10, 90)), one)[0] == {"read": 20, "queue": 60}


def test_a_process_that_hangs_holds_up_until_the_end() -> None:
    one = process((10, READING), (20, READING), ended=False)
    assert handed(spans((10, 100)), one)[0] == {"read": 90}


def test_without_processes_waits_stay_as_they_are() -> None:
    assert handed(spans((10, 20)))[0] == {"queue": 10}
    assert handed(spans(), process((0, READING), (100, READING)))[0] == {}


def test_the_cpu_time_is_that_of_the_process_that_is_charged() -> None:
    slow = process((0, READING), (100, READING), batches=(60,), cpu=(0, 50))
    other = process((0, DECODING), (100, DECODING), cpu=(0, 100))
    _, found = handed(spans((20, 60), (70, 80)), slow, other)
    # Half a core from 20 to 60; from 70 to 80 the wait is shared: slow until 75, then the other.
    used = dict(zip(found.time_ns.tolist(), found.cpu_ns.tolist(), strict=True))
    assert (used[20], used[60], used[70], used[80]) == (0, 20, 20, 27)


def naive(waits: Sequence[tuple[int, int]], loaders: Sequence[LoaderSamples]) -> Counter[str]:
    """Charge each nanosecond by itself."""
    counted: Counter[str] = Counter()
    for start, end in waits:
        latest = [(max((at for at in one.batch_ns.tolist() if at <= end), default=-1)) for one in loaders]
        whose = latest.index(max(latest)) if max(latest, default=-1) > start else None
        for now in range(start, end):
            running = [_running(one, now) for one in loaders]
            mine = running if whose is None else [running[whose]]
            busy = [stack for stack in mine if stack not in (None, IDLE)]
            for stack in busy:
                counted["read" if stack == READING else "decode"] += 60 // len(busy)
            counted["queue"] += 0 if busy else 60
    return counted


def _running(one: LoaderSamples, now: int) -> int | None:
    later = np.searchsorted(one.stack_ns, now, side="right")
    return int(one.stack_ids[later]) if 0 < later < one.stack_ns.size else None


@pytest.mark.parametrize("seed", range(40))
def test_it_agrees_with_charging_each_nanosecond_by_itself(seed: int) -> None:
    dice = random.Random(seed)
    for _ in range(10):
        loaders = []
        for _ in range(dice.randrange(1, 4)):
            times = sorted(dice.sample(range(0, 3000, 60), dice.randrange(2, 12)))
            batches = sorted(dice.sample(range(3000), dice.randrange(3)))
            loaders.append(process(*((time, dice.randrange(3)) for time in times), batches=batches))
        borders = sorted(dice.sample(range(0, 3000, 60), 2 * dice.randrange(1, 5)))
        waits = list(zip(borders[::2], borders[1::2], strict=True))
        sums, found = handed(spans(*waits), *loaders, end=3000)
        truth = {name: time / 60 for name, time in naive(waits, loaders).items() if time}
        # Every border is a multiple of 60, so that 1, 2 or 3 can share what lies between two.
        assert sums == truth
        order = np.argsort(found.charged.start)
        assert (found.charged.start[order][1:] >= found.charged.end[order][:-1]).all()
        assert (np.diff(found.time_ns) >= 0).all()
        assert sum(sums.values()) == sum(end - start for start, end in waits)


def training(*loaders: LoaderSamples, **more: Any) -> Capture:
    """The training waits for its loader from 0 to 80, then runs until 100."""
    return window(
        *loaders,
        frames=(MAIN, NEXT, GET, SELECT),
        stacks=((0,), (0, 1, 2, 3)),
        samples=((40, 1), (80, 1), (100, 0)),
        **more,
    )


def test_the_patterns_name_the_function_in_the_process_and_sum_to_the_window() -> None:
    one = process((0, READING), (60, READING), (80, DECODING), (100, IDLE), batches=(80,), cpu=(0, 6, 26, 26))
    found = summarize(training(one, cpu=(0, 0, 20)))
    by_name = {pattern.function: pattern for pattern in found.patterns}
    shares = {name: pattern.beta for name, pattern in by_name.items()}
    assert shares == pytest.approx(
        {"Remote.read (train.py:10)": 0.6, "Remote.decode (train.py:20)": 0.2, "main (train.py:1)": 0.2}
    )
    read, decode = by_name["Remote.read (train.py:10)"], by_name["Remote.decode (train.py:20)"]
    assert (read.family, read.resource) == ("loader", "cpu")
    assert read.mu == pytest.approx(0.1)
    assert decode.mu == pytest.approx(1.0)
    assert read.stack == tuple(f"{module}:{name}:{line}" for module, name, _, line in (LOOP, FETCH, READ))
    assert sum(found.kinds.values()) == pytest.approx(1.0)
    assert found.kinds["python"] == pytest.approx(1.0)


def test_the_batch_may_come_after_the_last_sample_that_saw_the_wait() -> None:
    slow = process((0, READING), (100, READING), batches=(85,))
    other = process((0, DECODING), (100, DECODING), batches=(50,))
    shares = {pattern.function: pattern.beta for pattern in summarize(training(slow, other)).patterns}
    assert shares == pytest.approx({"Remote.read (train.py:10)": 0.8, "main (train.py:1)": 0.2})


def test_a_wait_that_the_window_cuts_off_has_no_batch_yet() -> None:
    works = [process((0, READING), (100, READING)), process((0, DECODING), (100, DECODING))]
    cut = training(*works, end=60)
    shares = {pattern.function: pattern.beta for pattern in summarize(cut).patterns}
    assert shares == pytest.approx({"Remote.read (train.py:10)": 0.5, "Remote.decode (train.py:20)": 0.5})


def test_without_samples_of_the_process_the_wait_is_that_of_the_queue() -> None:
    (queue, _) = summarize(training()).patterns
    assert (queue.function, queue.family, queue.beta) == ("_PollLikeSelector.select (selectors.py:402)", "input", 0.8)


def test_kinds_and_idle_sum_to_the_window_with_events_beside_the_wait() -> None:
    one = process((0, READING), (100, READING), batches=(80,))
    found = charge(training(one), events([]))
    assert sum(found.kind_ns.values()) + found.idle_ns == 100


def test_that_nothing_could_be_sampled_is_told_only_where_it_matters() -> None:
    assert set(unseen(training())) == {"loader"}
    assert unseen(training(process((0, READING), (100, READING)))) == {}
    assert unseen(capture(samples=[(50, 0)])) == {}
    assert unseen(capture()) == {}


def stack(*frames: tuple[str, str, str, int]) -> tuple[Frame, ...]:
    return tuple(Frame(*frame) for frame in frames)


SPAWN = ("multiprocessing.spawn", "spawn_main", "spawn.py", 110)
RUN = ("multiprocessing.process", "BaseProcess.run", "process.py", 103)
WRAPPER = ("eroica_otel.profile.loaders", "WorkerLoop.__call__", "loaders.py", 70)


@pytest.mark.parametrize("around", [(MAIN, NEXT, RUN, WRAPPER), (SPAWN, RUN, WRAPPER), ()])
def test_what_is_around_the_loop_makes_no_other_function(around: tuple[tuple[str, str, str, int], ...]) -> None:
    assert loader_stack(stack(*around, LOOP, FETCH, READ)) == stack(LOOP, FETCH, READ)


@pytest.mark.parametrize(
    "frames",
    [
        (LOOP, QUEUE),
        (LOOP, OWN, QUEUE, SELECT),
        (LOOP, ("multiprocessing.queues", "Queue.put", "queues.py", 80)),
        (LOOP, ("torch.multiprocessing.queue", "Queue.get", "queue.py", 1)),
        (MAIN,),
        (),
    ],
)
def test_a_process_without_work_runs_nothing(frames: tuple[tuple[str, str, str, int], ...]) -> None:
    assert loader_stack(stack(*frames)) == ()


def test_the_loop_itself_and_what_the_training_gave_it_are_work() -> None:
    assert loader_stack(stack(LOOP)) == stack(LOOP)
    init = ("__main__", "seed_worker", "train.py", 3)
    assert loader_stack(stack(LOOP, init)) == stack(LOOP, init)
    stateful = ("torchdata.stateful_dataloader.worker", "_worker_loop", "worker.py", 70)
    assert loader_stack(stack(RUN, stateful, READ)) == stack(stateful, READ)


CONDITION = ("threading", "Condition.wait", "threading.py", 288)
RECEIVE = ("multiprocessing.connection", "Connection._recv", "connection.py", 390)
REBUILD = ("torch.multiprocessing.reductions", "rebuild_storage_fd", "reductions.py", 500)
STATEFUL = (
    "torchdata.stateful_dataloader.stateful_dataloader",
    "_StatefulMultiProcessingDataLoaderIter._try_get_data",
    "stateful_dataloader.py",
    1100,
)


@pytest.mark.parametrize(
    ("frames", "waits"),
    [
        ((MAIN, NEXT, GET, QUEUE, SELECT), True),
        ((MAIN, NEXT, GET, ("queue", "Queue.get", "queue.py", 154), CONDITION), True),
        ((MAIN, NEXT, GET, QUEUE, REBUILD, RECEIVE), True),
        ((MAIN, NEXT, STATEFUL, QUEUE, SELECT), True),
        ((MAIN, NEXT, GET, QUEUE, REBUILD), False),
        ((MAIN, NEXT, GET, QUEUE), False),
        ((MAIN, CONDITION), False),
        ((MAIN, SELECT), False),
        ((MAIN, NEXT, FETCH, READ), False),
        ((), False),
    ],
)
def test_only_below_the_loaders_own_frames_is_a_wait_one_for_its_processes(
    frames: tuple[tuple[str, str, str, int], ...], waits: bool
) -> None:
    assert awaits_loader(stack(*frames)) is waits
