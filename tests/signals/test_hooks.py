"""The hooks on real torch: what is recorded, what passes through unchanged, and that nothing stays behind."""

from __future__ import annotations

import _thread
import itertools
import threading
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest
import torch
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.utils.data import DataLoader, Dataset, IterableDataset

from eroica_otel.signals.counting import LOST_AFTER, Successors
from eroica_otel.signals.hooks import AFRESH, CAPACITY, GONE, NEVER, Hooks, Recorder, Watched, _guarded


class Items(Dataset[int]):
    def __init__(self, size: int = 8, broken: int = -1) -> None:
        self.size, self.broken = size, broken

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> int:
        if index == self.broken:
            raise KeyError("item 3 of the user's data")
        return index


class Stream(IterableDataset[int]):
    def __iter__(self) -> Iterator[int]:
        return iter(range(5))


def optimizer(**options: Any) -> torch.optim.Optimizer:
    parameter = torch.zeros(3, requires_grad=True)
    parameter.grad = torch.ones(3)
    return torch.optim.SGD([parameter], lr=0.1, **options)


@pytest.fixture
def recorder() -> Recorder:
    return Recorder(lambda: None, lambda: None)


@pytest.fixture
def hooks(recorder: Recorder) -> Iterator[Hooks]:
    made = Hooks(recorder)
    yield made
    made.close()


def kinds(recorder: Recorder) -> str:
    """Return D for each input, the count of updates for each update, ! for AFRESH, as in "D1D2"."""
    rows = recorder.take()
    return "".join("!" if row == AFRESH else "D" if row[1] >= 0 else str(~row[1]) for row in rows)


@pytest.mark.parametrize("workers", [0, 2])
def test_each_batch_is_an_input_and_the_end_of_the_data_is_none(workers: int, recorder: Recorder, hooks: Hooks) -> None:
    loader = DataLoader(Items(8), batch_size=2, num_workers=workers)
    assert [batch.tolist() for batch in loader] == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert kinds(recorder) == "DDDD"
    assert [len(list(loader)) for _ in range(2)] == [4, 4]
    rows = recorder.take()
    assert {key for key, _, _ in rows} == {id(loader.dataset)}
    assert all(begin <= end for _, begin, end in rows)
    assert all(before[2] <= after[1] for before, after in itertools.pairwise(rows))


def test_an_iterable_dataset_is_an_input_like_any_other(recorder: Recorder, hooks: Hooks) -> None:
    assert len(list(DataLoader(Stream(), batch_size=None))) == 5
    assert kinds(recorder) == "DDDDD"


@pytest.mark.parametrize("workers", [0, 1])
def test_what_the_dataset_raises_reaches_the_training_unchanged(workers: int, recorder: Recorder, hooks: Hooks) -> None:
    batches = iter(DataLoader(Items(8, broken=3), batch_size=None, num_workers=workers))
    seen = [next(batches) for _ in range(3)]
    with pytest.raises(KeyError, match="item 3 of the user's data"):
        next(batches)
    assert seen == [0, 1, 2]
    assert kinds(recorder) == "DDD"


def test_each_update_carries_the_count_of_the_first_optimizer(recorder: Recorder, hooks: Hooks) -> None:
    first, second = optimizer(), optimizer()
    for _ in range(2):
        first.step()
        second.step()
    first.step()
    assert kinds(recorder) == "11223"
    assert recorder.steps == 3
    assert recorder.counted == id(first)
    assert recorder.optimizer is not None
    assert recorder.optimizer() is first


@pytest.mark.parametrize(
    "kind",
    [
        lambda p: torch.optim.AdamW(p, foreach=True),
        lambda p: torch.optim.AdamW(p, fused=True),
        lambda p: torch.optim.LBFGS(p, max_iter=5),
    ],
    ids=["foreach", "fused", "LBFGS"],
)
def test_every_kind_of_optimizer_is_one_update_a_step(kind: Any, recorder: Recorder, hooks: Hooks) -> None:
    parameter = torch.ones(3, requires_grad=True)
    made = kind([parameter])

    def closure() -> torch.Tensor:
        made.zero_grad()
        loss = (parameter**2).sum()
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    for _ in range(3):
        made.step(closure)
    assert kinds(recorder) == "123"


def test_loaders_and_optimizers_that_exist_already_are_seen(recorder: Recorder) -> None:
    batches, made = iter(DataLoader(Items(8))), optimizer()
    next(batches)
    made.step()
    hooks = Hooks(recorder)
    next(batches)
    made.step()
    hooks.close()
    next(batches)
    made.step()
    assert kinds(recorder) == "D1"


def test_a_loader_of_another_kind_without_its_dataset_is_an_input_too(recorder: Recorder, hooks: Hooks) -> None:
    batches = iter(DataLoader(Items(8)))
    del batches._dataset
    next(batches)
    optimizer().step()
    assert kinds(recorder) == "D1"


def test_a_torch_in_which_nothing_is_where_it_was_can_be_imported(recorder: Recorder) -> None:
    """The hooks are set inside ``import torch``: what fails there must not fail the import."""
    failed: list[str] = []

    def guard(stage: str, call: Callable[[], None]) -> None:
        try:
            call()
        except AttributeError:
            failed.append(stage)

    hooks = Hooks(recorder, guard)
    for hook in (hooks._hook_loader, hooks._hook_optimizer):
        _guarded(guard, hook)(ModuleType("torch.another"))
    hooks.close()
    assert failed == ["start", "start"]


def scaler_loop(losses: list[float], recorder: Recorder) -> str:
    parameter = torch.ones(2, requires_grad=True)
    made = torch.optim.SGD([parameter], lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0)
    for factor in losses:
        made.zero_grad()
        scaler.scale((parameter * factor).sum()).backward()  # type: ignore[no-untyped-call]
        scaler.step(made)
        scaler.update()
    return kinds(recorder)


def test_an_update_that_mixed_precision_skips_is_counted_once(recorder: Recorder, hooks: Hooks) -> None:
    assert scaler_loop([1.0, float("inf"), 1.0, float("nan"), 1.0], recorder) == "12345"


def test_the_scaler_is_as_before_after_close(recorder: Recorder) -> None:
    before = torch.amp.GradScaler.step
    hooks = Hooks(recorder)
    assert torch.amp.GradScaler.step is not before
    hooks.close()
    assert torch.amp.GradScaler.step is before
    assert scaler_loop([1.0, float("inf")], recorder) == ""


def test_close_restores_what_was_there(recorder: Recorder) -> None:
    from torch.optim import optimizer as module

    owner = torch.utils.data.dataloader._BaseDataLoaderIter
    before = owner.__next__
    hooks = Hooks(recorder)
    assert owner.__next__ is not before
    assert owner.__next__.__name__ == "__next__"
    hooks.close()
    hooks.close()
    assert owner.__next__ is before
    assert not module._global_optimizer_post_hooks


def test_a_hook_that_somebody_else_has_wrapped_is_silent_after_close(recorder: Recorder) -> None:
    owner: Any = torch.utils.data.dataloader._BaseDataLoaderIter
    before = owner.__next__
    started: list[str] = []
    recorder.on_first = lambda: started.append("started")
    hooks = Hooks(recorder)
    ours = owner.__next__
    owner.__next__ = lambda iterator: ours(iterator)
    try:
        hooks.close()
        assert len(list(DataLoader(Items(4)))) == 4
    finally:
        owner.__next__ = before
    assert kinds(recorder) == ""
    assert started == []


def test_the_first_event_calls_once_on_the_thread_of_the_event() -> None:
    calls: list[int] = []
    recorder = Recorder(lambda: calls.append(threading.get_ident()), lambda: None)
    on_another_thread(recorder.update, calls)
    recorder.input(1, 2, 3)
    assert len(calls) == 1
    assert calls[0] != threading.get_ident()


def on_another_thread(call: Callable[..., object], *arguments: object) -> None:
    other = threading.Thread(target=call, args=arguments)
    other.start()
    other.join()


def test_inputs_that_another_thread_fetches_ahead_are_no_inputs(recorder: Recorder, hooks: Hooks) -> None:
    batches, made = iter(DataLoader(Items(8))), optimizer()
    made.step()
    for _ in range(2):
        on_another_thread(next, batches)
        made.step()
    assert recorder.thread == threading.get_ident()
    next(batches)
    made.step()
    assert kinds(recorder) == "1!23D4"


def test_a_thread_that_begins_to_fetch_ahead_later_is_noticed_wherever_in_the_iteration_it_fetches(
    recorder: Recorder, hooks: Hooks
) -> None:
    batches, made = iter(DataLoader(Items(99))), optimizer()
    for _ in range(5):
        next(batches)
        made.step()
    assert recorder.thread == 0  # nobody else fetches: no event asks for its thread
    assert not recorder.attention
    recorder.take()
    made.step()
    on_another_thread(next, batches)  # right after an update, before anybody looks
    recorder.attention = True  # as the 1 Hz thread asks once a second
    made.step()
    on_another_thread(next, batches)
    made.step()
    assert recorder.thread == threading.get_ident()
    assert not recorder.attention
    on_another_thread(next, batches)
    next(batches)
    made.step()
    assert kinds(recorder) == "6D7!8D9"


def test_inputs_that_another_thread_fetched_before_the_first_update_are_taken_back(
    recorder: Recorder, hooks: Hooks
) -> None:
    batches, made = iter(DataLoader(Items(8))), optimizer()
    on_another_thread(lambda: [next(batches), next(batches)])
    made.step()
    on_another_thread(next, batches)
    made.step()
    assert kinds(recorder) == "DD!12"


def test_watched_inputs_of_another_thread_are_no_inputs_either(recorder: Recorder) -> None:
    recorder.update(recorder)
    on_another_thread(list, Watched(recorder, [1, 2, 3]))
    assert list(Watched(recorder, [1])) == [1]
    assert kinds(recorder) == "1!D"


def test_updates_of_a_thread_that_python_did_not_start_take_no_input_away(recorder: Recorder) -> None:
    """On a GPU autograd's own threads run the updates of an optimizer in backward."""
    done = threading.Lock()
    done.acquire()

    def autograd() -> None:
        for _ in range(3):
            recorder.update(recorder)
        done.release()

    recorder.input(1, 2, 3)
    _thread.start_new_thread(autograd, ())
    done.acquire()
    recorder.input(1, 2, 3)
    assert kinds(recorder) == "D123D"
    assert recorder.thread == 0


def test_when_the_training_goes_on_in_another_thread_inputs_of_that_one_count(recorder: Recorder) -> None:
    def train() -> None:
        for _ in range(2):
            recorder.input(1, 2, 3)
            recorder.update(recorder)

    on_another_thread(train)
    recorder.attention = True  # as the 1 Hz thread asks once a second
    train()
    assert recorder.thread == threading.get_ident()
    assert kinds(recorder) == "D1D2!3D4"


def test_where_several_threads_update_all_inputs_count(recorder: Recorder) -> None:
    release = threading.Event()

    def update_and_stay() -> None:
        recorder.update(recorder)
        recorder.update(recorder)
        release.wait(20)

    pool = [threading.Thread(target=update_and_stay) for _ in range(2)]
    for thread in pool:
        recorder.attention = True
        thread.start()
        while recorder.attention:
            thread.join(0.01)
    recorder.input(1, 2, 3)
    release.set()
    for thread in pool:
        thread.join()
    assert kinds(recorder) == "1234D"


def test_an_optimizer_that_another_thread_steps_is_counted(recorder: Recorder, hooks: Hooks) -> None:
    made = optimizer()
    made.step()
    other = threading.Thread(target=made.step)
    other.start()
    other.join()
    made.step()
    assert kinds(recorder) == "123"


def test_the_border_is_called_from_its_number_on_after_updates_of_the_counted_optimizer_only() -> None:
    seen: list[int] = []
    recorder = Recorder(lambda: None, lambda: None)
    recorder.on_edge = lambda: seen.append(recorder.steps)
    hooks = Hooks(recorder)
    first, second = optimizer(), optimizer()
    recorder.edge = 3
    for _ in range(4):
        first.step()
        second.step()
    recorder.edge = NEVER
    first.step()
    hooks.close()
    assert seen == [3, 4]


def test_while_overdue_inputs_call_the_border_too() -> None:
    seen: list[str] = []
    recorder = Recorder(lambda: seen.append("first"), lambda: seen.append("edge"))
    hooks = Hooks(recorder)
    batches = iter(DataLoader(Items(8)))
    next(batches)
    recorder.overdue = True
    next(batches)
    optimizer().step()
    recorder.overdue = False
    next(batches)
    hooks.close()
    assert seen == ["first", "edge", "edge"]


def test_the_count_goes_on_when_the_training_replaces_its_optimizer(recorder: Recorder, hooks: Hooks) -> None:
    first, second = optimizer(), optimizer()
    first.step()
    for _ in range(LOST_AFTER - 1):
        second.step()
    assert recorder.steps == 1
    second.step()
    second.step()
    assert recorder.steps == 3
    assert recorder.counted == id(second)
    first.step()
    assert recorder.steps == 3


def test_a_third_optimizer_is_counted_after_a_second_that_was_too_short_lived(recorder: Recorder, hooks: Hooks) -> None:
    kept = [optimizer() for _ in range(3)]
    kept[0].step()
    for _ in range(LOST_AFTER - 1):
        kept[1].step()
    for _ in range(LOST_AFTER):
        kept[2].step()
    assert recorder.steps == 2
    assert recorder.counted == id(kept[2])


def test_an_optimizer_at_the_address_of_a_dead_one_is_another_one(recorder: Recorder) -> None:
    """Where ranks reuse addresses by chance, their counts would part."""

    class Made:
        pass

    first = Made()
    address = id(first)
    recorder.update(first)
    del first
    assert recorder.counted == GONE
    kept: list[Made] = []
    while not kept or (id(kept[-1]) != address and len(kept) < 10_000):
        kept.append(Made())
    recorder.update(kept[-1])
    assert recorder.steps == 1
    for _ in range(LOST_AFTER - 1):
        recorder.update(kept[-1])
    assert recorder.steps == 2


def test_a_successor_at_the_address_of_another_that_died_begins_anew() -> None:
    class Made:
        pass

    successors = Successors()
    for _ in range(LOST_AFTER * 3):
        assert not successors.succeeds(Made(), 5)
    stays = Made()
    assert [successors.succeeds(stays, 5) for _ in range(LOST_AFTER)] == [False] * (LOST_AFTER - 1) + [True]


def test_many_updates_of_others_between_those_of_the_counted_one_change_nothing(
    recorder: Recorder, hooks: Hooks
) -> None:
    first, others = optimizer(), [optimizer() for _ in range(300)]
    for _ in range(3):
        first.step()
        for other in others:
            other.step()
    first.step()
    critic = others[0]
    for _ in range(3):
        for _ in range(LOST_AFTER - 1):
            critic.step()
        first.step()
    assert recorder.steps == 7


def test_an_optimizer_without_weak_references_does_no_harm(recorder: Recorder) -> None:
    class Slotted:
        __slots__ = ()

    made = Slotted()
    recorder.update(made)
    recorder.update(made)
    assert recorder.steps == 2
    assert recorder.optimizer is None


def test_the_queue_is_bounded_and_keeps_the_latest(recorder: Recorder) -> None:
    for number in range(CAPACITY + 10):
        recorder.input(number, 0, 0)
    assert len(recorder.rows) == CAPACITY
    rows = recorder.take()
    assert (rows[0][0], rows[-1][0]) == (10, CAPACITY + 9)
    assert recorder.take() == []


def test_recording_takes_no_lock_and_keeps_nothing_but_the_row(recorder: Recorder) -> None:
    """Structure instead of time: code that names no lock, and a recorder whose only growing part is the queue."""
    made = object()
    recorder.input(1, 2, 3)
    fields = {name: getattr(recorder, name) for name in Recorder.__slots__ if name != "rows"}
    for _ in range(1000):
        recorder.input(1, 2, 3)
    after = {name: getattr(recorder, name) for name in Recorder.__slots__ if name != "rows"}
    assert after == fields
    recorder.update(made)
    assert len(recorder.rows) == 1002
    for function in (Recorder.input, Recorder.update):
        assert not {"acquire", "release", "Lock", "RLock"} & set(function.__code__.co_names)


def test_a_watched_iterable_can_be_iterated_again_and_keeps_its_other_sides(recorder: Recorder) -> None:
    class Source(list[int]):
        epoch = 7

    source = Source([1, 2, 3])
    watched = Watched(recorder, source)
    assert [list(watched), list(watched)] == [[1, 2, 3], [1, 2, 3]]
    assert kinds(recorder) == "DDDDDD"
    assert (len(watched), watched.epoch) == (3, 7)
    with pytest.raises(AttributeError):
        watched.no_such_thing  # noqa: B018


def test_a_watched_generator_can_be_asked_for_the_next_item(recorder: Recorder) -> None:
    watched = Watched(recorder, (number for number in range(2)))
    assert [next(watched), next(watched)] == [0, 1]
    with pytest.raises(StopIteration):
        next(watched)
    assert kinds(recorder) == "DD"


def test_what_a_watched_iterable_raises_passes_unchanged(recorder: Recorder) -> None:
    def broken() -> Iterator[int]:
        yield 1
        raise ConnectionError("the user's storage")

    with pytest.raises(ConnectionError, match="the user's storage"):
        list(Watched(recorder, broken()))
    assert kinds(recorder) == "D"


def test_a_watched_data_loader_is_recorded_once(recorder: Recorder, hooks: Hooks) -> None:
    loader = DataLoader(Items(4))
    assert len(list(Watched(recorder, loader))) == 4
    assert {key for key, _, _ in recorder.rows} == {id(loader.dataset)}
    assert kinds(recorder) == "DDDD"


def test_torch_that_is_imported_after_close_is_left_alone(recorder: Recorder) -> None:
    hooks = Hooks(recorder)
    hooks.close()
    owner = torch.utils.data.dataloader._BaseDataLoaderIter
    before = owner.__next__
    hooks._hook_loader(torch.utils.data.dataloader)
    hooks._hook_scaler(torch.amp.grad_scaler)
    assert owner.__next__ is before


def test_another_thread_may_close_in_the_middle_of_a_step_and_updates_are_counted_on(
    recorder: Recorder, hooks: Hooks
) -> None:
    """torch goes through its table of hooks during a step; a hook that takes another one out would break the step."""
    trained = optimizer()
    trained.step()
    late = register_optimizer_step_post_hook(lambda *step: hooks.close(elsewhere=True))
    trained.step()
    late.remove()
    assert kinds(recorder) == "12"
    trained.step()
    optimizer().step()
    list(DataLoader(Items()))
    assert recorder.steps == 3
    assert kinds(recorder) == ""
    hooks.close()
    trained.step()
    assert recorder.steps == 3
