"""When the switches of the fault board act, and that what they do costs what it says: CPU time, waits, page faults."""

from __future__ import annotations

import gc
import json
import multiprocessing
import os
import resource
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from faultboard import cpu_seconds, faults

FOR_EVER_SECONDS = 3600.0


@pytest.fixture
def order() -> Callable[..., Any]:
    def made(value: float = 0.0, switch: str = "augment", ranks: tuple[int, ...] = (0,), **more: Any) -> Any:
        return faults("order").Order.of({"switch": switch, "ranks": ranks, "value": value, **more})

    return made


@pytest.fixture
def scene() -> Any:
    return faults("order").Scene(0, 4, 3)


def give(folder: Path, switch: str, ranks: list[int], value: float, **more: Any) -> None:
    (folder / "orders").mkdir(exist_ok=True)
    text = json.dumps({"switch": switch, "ranks": ranks, "value": value, **more})
    (folder / "orders" / f"{switch}.json").write_text(text)


def acting(order: Any, rank: int, first: int = 10) -> list[int]:
    return [iteration for iteration in range(10, 22) if order.acts(rank, iteration, first)]


@pytest.mark.parametrize(
    ("more", "rank", "iterations"),
    [
        ({}, 1, list(range(10, 22))),
        ({}, 0, []),  # not one of its ranks
        ({"every": 4}, 1, [12, 16, 20]),
        ({"every": 4, "stagger": 1}, 2, [13, 17, 21]),  # the second of its ranks comes one iteration later
        ({"iterations": 3}, 1, [10, 11, 12]),
        ({"start": 14}, 1, list(range(14, 22))),
        ({"start": 14, "iterations": 2}, 2, [14, 15]),
        ({"rotating": True, "every": 2}, 1, [12, 13, 16, 17, 20, 21]),  # 10 // 2 is odd: the second one's turn
        ({"rotating": True, "every": 2}, 2, [10, 11, 14, 15, 18, 19]),
    ],
)
def test_an_order_acts_in_its_iterations_on_its_ranks(
    order: Callable[..., Any], more: dict[str, Any], rank: int, iterations: list[int]
) -> None:
    assert acting(order(ranks=(1, 2), **more), rank) == iterations


def test_a_switch_acts_at_its_point_while_its_order_is_there(tmp_path: Path) -> None:
    switches = faults("switches").Switches(tmp_path, 1)
    batch = torch.zeros(8, 4)
    switches.begin(0)
    assert switches.at("batch", batch) is batch  # there is not even a folder
    give(tmp_path, "more-samples", [1], 3.0)
    assert len(switches.at("batch", batch)) == 8  # seen from the next iteration on
    switches.begin(1)
    assert len(switches.at("batch", batch)) == 11
    assert switches.at("forward", batch) is batch
    (tmp_path / "orders" / "more-samples.json").unlink()
    switches.begin(2)
    assert len(switches.at("batch", batch)) == 8


def test_an_order_of_another_rank_does_not_act(tmp_path: Path) -> None:
    switches = faults("switches").Switches(tmp_path, 0)
    give(tmp_path, "more-samples", [1], 3.0)
    switches.begin(1)
    assert len(switches.at("batch", torch.zeros(8, 4))) == 8


def test_every_switch_has_a_name_of_its_own_in_the_stack() -> None:
    table = faults("switches").SWITCHES
    assert [name for name, switch in table.items() if switch.fault.__name__.startswith("_")] == []


def _loads(switches: Any, results: Any) -> None:
    results.put([len(switches.at("load", torch.zeros(8, 4))) for _ in range(6)])


def test_a_loaders_process_reads_the_orders_by_itself_and_counts_its_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = faults("switches")
    more = module.SWITCHES["more-samples"]._replace(point="load")
    monkeypatch.setitem(module.SWITCHES, "more-samples", more)
    switches = module.Switches(tmp_path, 0)
    switches.begin(0)
    give(tmp_path, "more-samples", [0], 1.0, every=3)
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    process = context.Process(target=_loads, args=(switches, results))
    process.start()
    assert results.get(timeout=60) == [8, 8, 9, 8, 8, 9]
    process.join()


@pytest.mark.parametrize(
    ("module", "name", "subject"),
    [
        ("slow", "augment", torch.zeros(8, 4)),
        ("slow", "clip_gradients", torch.nn.Linear(4, 4)),
        ("inputs", "tokenize", torch.zeros(8, 4)),
        ("inputs", "unpack_shard", torch.zeros(8, 4)),
        ("work", "more_work", torch.zeros(8, 4)),
    ],
)
def test_what_computes_takes_its_seconds_of_the_cpu(
    order: Callable[..., Any], scene: Any, module: str, name: str, subject: Any
) -> None:
    begin = time.thread_time()
    assert getattr(faults(module), name)(subject, order(0.05), scene) is subject
    assert time.thread_time() - begin >= 0.05


@pytest.mark.parametrize(
    ("module", "name"),
    [("slow", "slow_backward"), ("slow", "slow_forward"), ("slow", "read_status"), ("slow", "short_waits")],
)
def test_what_waits_takes_its_seconds_off_the_cpu(
    order: Callable[..., Any], scene: Any, module: str, name: str
) -> None:
    begin, cpu = time.monotonic(), time.thread_time()
    getattr(faults(module), name)(torch.nn.Linear(4, 4), order(0.2), scene)
    waited = time.monotonic() - begin - (time.thread_time() - cpu)
    assert waited >= 0.15  # the pieces of short waits are each a little longer or shorter


def test_a_log_that_is_read_slowly_holds_its_writer_up(order: Callable[..., Any], scene: Any) -> None:
    log = faults("slow")
    begin = time.monotonic()
    log.write_log(None, order(0.2), scene)
    # 4 MB/s for 0.2 s are 800 kB; the pipe and the reader hold at most 12 kB of it.
    assert time.monotonic() - begin >= 0.15


def test_a_save_takes_as_long_as_its_storage_lets_it(order: Callable[..., Any], scene: Any) -> None:
    begin = time.monotonic()
    faults("saving").save_checkpoint(None, order(0.2), scene)
    assert time.monotonic() - begin >= 0.15  # 4 MB at 20 MB/s, of which the pipe and the reader hold 0.2 MB


def test_a_bar_that_holds_the_lock_holds_the_printer_up(
    order: Callable[..., Any], scene: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    begin, cpu = time.monotonic(), time.thread_time()
    faults("slow").print_progress(None, order(0.2), scene)
    assert time.monotonic() - begin - (time.thread_time() - cpu) >= 0.15
    assert capsys.readouterr().out == "step 3\n"


def test_a_large_heap_takes_its_time_to_collect(order: Callable[..., Any], scene: Any) -> None:
    collected: list[float] = []

    def look(phase: str, _: dict[str, int]) -> None:
        collected.append(time.thread_time())

    faults("slow").collect_garbage(None, order(0.05), scene)
    gc.callbacks.append(look)
    try:
        faults("slow").collect_garbage(None, order(0.05), scene)
    finally:
        gc.callbacks.remove(look)
        scene.kept.clear()
    assert collected[-1] - collected[-2] >= 0.015  # the machine may be faster than the one it was measured on


def test_memory_that_is_given_back_has_to_be_fetched_again(order: Callable[..., Any], scene: Any) -> None:
    work, hidden = faults("work"), torch.zeros(4)
    work.churn(hidden, order(64.0), scene)
    before = resource.getrusage(resource.RUSAGE_THREAD).ru_minflt
    work.churn(hidden, order(64.0), scene)
    faults_of_64_mib = resource.getrusage(resource.RUSAGE_THREAD).ru_minflt - before
    assert faults_of_64_mib >= 32  # with huge pages of 2 MiB; 16384 with small ones


def test_a_new_shape_is_compiled_again(order: Callable[..., Any], scene: Any) -> None:
    from torch._dynamo.utils import counters

    counters.clear()
    for _ in range(3):
        faults("work").recompile(torch.zeros(4), order(3.0), scene)
    assert counters["stats"]["unique_graphs"] == 3


def test_tokens_are_sent_to_one_expert_and_none_is_lost(order: Callable[..., Any], scene: Any) -> None:
    sent = faults("work").route(torch.full((4,), 10), order(0.4, expert=2), scene)
    assert sent.tolist() == [6, 6, 22, 6]  # 4 of each of the four go to the third


@pytest.mark.parametrize(("drawn", "rows"), [(0.0, 8), (3.0, 11), (20.0, 28)])
def test_a_batch_gets_as_many_samples_as_are_asked_for(
    order: Callable[..., Any], scene: Any, drawn: float, rows: int
) -> None:
    batch = torch.arange(8.0).view(8, 1)
    longer = faults("work").more_samples(batch, order(drawn), scene)
    assert len(longer) == rows
    assert set(longer.flatten().tolist()) == set(batch.flatten().tolist())


def test_lengths_differ_from_one_iteration_to_the_next(order: Callable[..., Any], scene: Any) -> None:
    batch = torch.zeros(8, 1)
    lengths = {len(faults("work").long_sequences(batch, order(14.0), scene)) for _ in range(50)}
    assert min(lengths) >= 8
    assert max(lengths) <= 22
    assert len(lengths) > 5


def _hold_cache(read_cache: Any, order: Any, scene: Any, held: Any) -> None:
    held.set()
    read_cache(None, order, scene)


def test_two_who_read_one_cache_wait_for_each_other(order: Callable[..., Any], scene: Any, tmp_path: Path) -> None:
    held, read_cache = threading.Event(), faults("inputs").read_cache
    asked = order(0.3, folder=str(tmp_path))
    begin = time.monotonic()
    other = threading.Thread(target=_hold_cache, args=(read_cache, asked, scene, held))
    other.start()
    held.wait()
    read_cache(None, asked, scene)
    other.join()
    assert time.monotonic() - begin >= 0.6  # one after the other


def test_what_is_read_past_the_cache_comes_from_the_disk(order: Callable[..., Any], scene: Any, tmp_path: Path) -> None:
    asked = order(1024.0, folder=str(tmp_path))
    faults("inputs").make_shards(tmp_path, 1)
    before = resource.getrusage(resource.RUSAGE_THREAD).ru_inblock
    faults("inputs").read_shard(None, asked, scene)
    assert resource.getrusage(resource.RUSAGE_THREAD).ru_inblock - before >= 2048  # blocks of 512 bytes


@pytest.mark.parametrize(
    ("name", "cpu"),
    [("wait_for_lock", False), ("print_into_full_pipe", False), ("search_for_ever", True), ("spin_in_c", True)],
)
def test_what_hangs_does_not_come_back(order: Callable[..., Any], scene: Any, name: str, cpu: bool) -> None:
    process = multiprocessing.get_context("fork").Process(
        target=getattr(faults("hangs"), name), args=(None, order(), scene), daemon=True
    )
    process.start()
    process.join(0.5)
    try:
        while cpu and process.is_alive() and cpu_seconds(process.pid or 0) < 0.1:
            process.join(0.1)
        assert process.is_alive()
        assert cpu or cpu_seconds(process.pid or 0) < 0.1
    finally:
        process.kill()
        process.join()


def _dies(order: Any, scene: Any) -> None:
    os.close(2)  # its traceback is none of the test's
    faults("hangs").die_quietly(None, order, scene)


def test_a_rank_whose_training_failed_stays_while_a_thread_of_it_lives(order: Callable[..., Any], scene: Any) -> None:
    process = multiprocessing.get_context("fork").Process(target=_dies, args=(order(), scene), daemon=True)
    process.start()
    process.join(0.7)
    try:
        assert process.is_alive()
    finally:
        process.kill()
        process.join()


def test_an_epoch_has_fewer_batches_but_never_none(order: Callable[..., Any], scene: Any) -> None:
    fewer = faults("hangs").fewer_batches
    assert (fewer(100, order(3.0), scene), fewer(2, order(3.0), scene)) == (97, 1)


def test_a_collective_is_left_out(order: Callable[..., Any], scene: Any) -> None:
    assert faults("hangs").leave_out(True, order(), scene) is False


def _takes_inherited_lock(order: Any, scene: Any, taken: Any) -> None:
    faults("hangs").decode_image(None, order, scene)
    taken.set()


def test_a_lock_that_is_held_while_forking_is_never_given_back_there(order: Callable[..., Any], scene: Any) -> None:
    faults("hangs").hold_lock_across_fork(None, order(), scene)
    assert scene.kept["forked"].locked()
    context = multiprocessing.get_context("fork")
    taken = context.Event()
    process = context.Process(target=_takes_inherited_lock, args=(order(), scene, taken), daemon=True)
    process.start()
    try:
        assert not taken.wait(1.2)  # in the parent it is given back every 0.5 s
    finally:
        process.kill()
        process.join()
