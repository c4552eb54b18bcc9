"""Stack samples and collections as intervals of Python functions."""

from __future__ import annotations

from collections.abc import Sequence

from eroica_otel.model import Capture
from eroica_otel.summarize.functions import Functions
from eroica_otel.summarize.intervals import Intervals
from eroica_otel.summarize.stacks import python_activity
from factories_summarize import AUGMENT, BACKWARD, FETCH, HOOK, MAIN, NEXT, WATCH, capture

Span = tuple[int, int]


def _spans(window: Capture) -> tuple[dict[str, list[Span]], dict[str, list[Span]]]:
    """Return the intervals of work and of waits by short name."""
    functions = Functions()
    activity = python_activity(window, functions)

    def by_name(intervals: Intervals) -> dict[str, list[Span]]:
        found: dict[str, list[Span]] = {}
        for start, end, number in zip(*intervals, strict=True):
            found.setdefault(functions.all()[number].name, []).append((int(start), int(end)))
        return found

    return by_name(activity.work), by_name(activity.wait)


def _function(frames: Sequence[tuple[str, str, str, int]]) -> tuple[str, str, tuple[str, ...]]:
    functions = Functions()
    window = capture(frames=frames, stacks=[tuple(range(len(frames)))], samples=[(50, 0)])
    python_activity(window, functions)
    (only,) = functions.all()
    return only.name, only.family, only.stack


def test_a_sample_stands_for_the_time_since_the_one_before_and_the_tail_goes_to_the_last() -> None:
    work, wait = _spans(capture(start=0, end=100, samples=[(10, 0), (40, 1), (70, 2)]))
    assert work == {"main (train.py:1)": [(0, 10)], "augment (train.py:40)": [(10, 40)]}
    assert wait == {"_engine_run_backward (graph.py:800)": [(40, 70), (70, 100)]}


def test_samples_outside_the_window_count_with_what_reaches_into_it() -> None:
    work, _ = _spans(capture(start=50, end=60, samples=[(10, 0), (55, 1), (90, 0)]))
    assert work == {"augment (train.py:40)": [(50, 55)], "main (train.py:1)": [(55, 60)]}


def test_a_collection_is_a_function_and_is_cut_out_of_the_stack_it_interrupts() -> None:
    work, _ = _spans(capture(end=100, samples=[(100, 0)], gc=[(20, 30), (25, 40), (95, 200)]))
    assert work["main (train.py:1)"] == [(0, 20), (40, 95)]
    assert work["garbage collection"] == [(20, 30), (25, 40), (95, 100)]


def test_without_samples_collections_remain_and_the_rest_is_unknown() -> None:
    assert _spans(capture(gc=[(1, 2)])) == ({"garbage collection": [(1, 2)]}, {})
    assert _spans(capture()) == ({}, {})


def test_an_empty_stack_is_charged_to_nobody() -> None:
    work, wait = _spans(capture(stacks=[(), (0,)], samples=[(40, 0), (100, 1)]))
    assert (work, wait) == ({"main (train.py:1)": [(40, 100)]}, {})


def test_identity_is_the_whole_stack_and_the_name_the_innermost_frame() -> None:
    assert _function([MAIN, AUGMENT]) == ("augment (train.py:40)", "other", ("__main__:main:1", "__main__:augment:40"))


def test_the_data_set_s_own_function_inside_the_input_call_is_input_and_our_hook_is_not_seen() -> None:
    name, family, stack = _function([MAIN, HOOK, NEXT, FETCH])
    assert (name, family) == ("fetch_remote (train.py:60)", "input")
    assert stack == (
        "__main__:main:1",
        "torch.utils.data.dataloader:_BaseDataLoaderIter.__next__:700",
        "__main__:fetch_remote:60",
    )


def test_an_input_that_is_no_data_loader_is_input_too() -> None:
    assert _function([MAIN, WATCH, FETCH]) == (
        "fetch_remote (train.py:60)",
        "input",
        ("__main__:main:1", "eroica_otel:watch:0", "__main__:fetch_remote:60"),
    )
    # an iterator written in C leaves no frame of its own
    assert _function([MAIN, WATCH])[:2] == ("input (eroica_otel.watch)", "input")


def test_other_frames_of_this_package_are_dropped_but_the_demo_s_training_stays() -> None:
    plugin = ("eroica_otel.plugin", "edge", "/eroica_otel/plugin.py", 9)
    demo = ("eroica_otel.demo.train", "augment", "/eroica_otel/demo/train.py", 99)
    assert _function([MAIN, plugin]) == ("main (train.py:1)", "other", ("__main__:main:1",))
    assert _function([MAIN, demo])[0] == "augment (train.py:99)"
    assert _spans(capture(frames=[plugin], stacks=[(0,)], samples=[(100, 0)])) == ({}, {})


def test_a_hook_of_the_user_below_the_engine_works_and_does_not_wait() -> None:
    assert _function([MAIN, BACKWARD])[1] == "wait"
    assert _function([MAIN, BACKWARD, AUGMENT])[1] == "other"
