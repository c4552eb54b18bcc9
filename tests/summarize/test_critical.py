"""Charging against the loop oracle, and what must never change the answer."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

import naive
from eroica_otel.model import Capture
from eroica_otel.summarize.critical import Charged, charge
from eroica_otel.summarize.resources import measure
from factories_summarize import AUGMENT, BACKWARD, FETCH, MAIN, NEXT, Row, capture, events

CASES = 2000
WINDOW = (5, 45)
FRAMES = (MAIN, AUGMENT, BACKWARD, NEXT, FETCH)
STACKS = ((0,), (0, 1), (0, 2), (0, 3, 4))
KIND_OF = {
    "aten::mm": "compute",
    "aten::add": "compute",
    "job::sleep": "compute",
    "autograd::engine::evaluate_function: MmBackward0": "",
    "MmBackward0": "",
    "c10d::allreduce_": "",
    "torch::distributed::reducer::mul_out": "",
    "Optimizer.step#AdamW.step": "",
    "gloo:all_reduce": "communication",
    "gloo:broadcast": "communication",
    "sgemm_128x64": "compute",
    "ncclDevKernel_AllReduce_Sum_f32_RING_LL": "communication",
    "Memcpy HtoD (Pageable -> Device)": "memory",
    "cudaLaunchKernel": "host",
}
CPU_NAMES = [(name, "cpu_op") for name, kind in list(KIND_OF.items())[:7]] + [
    ("Optimizer.step#AdamW.step", "user_annotation")
]
GLOO_NAMES = [("gloo:all_reduce", "user_annotation"), ("gloo:broadcast", "user_annotation")]
GPU_NAMES = [
    ("sgemm_128x64", "kernel"),
    ("ncclDevKernel_AllReduce_Sum_f32_RING_LL", "kernel"),
    ("Memcpy HtoD (Pageable -> Device)", "gpu_memcpy"),
    ("cudaLaunchKernel", "cuda_runtime"),
]


def _span(rng: random.Random) -> tuple[int, int]:
    start = rng.randrange(0, 50)
    return start, start + rng.randrange(0, 18)


def _nested(rng: random.Random, start: int, end: int, depth: int) -> list[Row]:
    """Return a call tree on thread 1, as a CPU thread makes it."""
    name, category = rng.choice(CPU_NAMES)
    rows = [Row(name, start, end, category, 1)]
    place = start
    while depth and place < end and rng.random() < 0.8:
        low = rng.randint(place, end)
        high = rng.randint(low, end)
        rows += _nested(rng, low, high, depth - 1)
        place = high
    return rows


def _rows(rng: random.Random) -> list[Row]:
    if rng.random() < 0.5:
        bounds = [sorted(rng.sample(range(50), 2)) for _ in range(rng.randrange(3))]
        rows = [row for start, end in bounds for row in _nested(rng, start, end, 3)]
    else:  # crossing ranges, on two threads
        rows = [
            Row(name, *_span(rng), category, rng.choice((1, 2)))
            for name, category in rng.choices(CPU_NAMES, k=rng.randrange(8))
        ]
    rows += [Row(n, *_span(rng), c, rng.choice((8, 9))) for n, c in rng.choices(GLOO_NAMES, k=rng.randrange(3))]
    if rng.random() < 0.3:
        rows += [Row(n, *_span(rng), c, rng.choice((20, 21))) for n, c in rng.choices(GPU_NAMES, k=rng.randrange(1, 6))]
    return sorted(rows, key=lambda row: row.start)


def _capture(rng: random.Random) -> Capture:
    times = sorted(rng.sample(range(52), rng.randrange(7)))
    samples = [(time, rng.randrange(len(STACKS))) for time in times]
    cpu = np.cumsum([rng.randrange(0, after - before + 1) for before, after in zip([0, *times], times, strict=False)])
    gc = [_span(rng) for _ in range(rng.choice((0, 0, 1, 2)))]
    return capture(
        start=WINDOW[0], end=WINDOW[1], frames=FRAMES, stacks=STACKS, samples=samples, cpu=cpu.tolist(), gc=gc
    )


def _stack_of(stack: int) -> tuple[str, bool]:
    identity = " > ".join(f"{FRAMES[i][0]}:{FRAMES[i][1]}:{FRAMES[i][3]}" for i in STACKS[stack])
    return identity, FRAMES[STACKS[stack][-1]] == BACKWARD


def _instants(charged: Charged) -> dict[tuple[str, str], list[int]]:
    found: dict[tuple[str, str], list[int]] = {}
    for start, end, number in zip(*charged.pieces, strict=True):
        function = charged.functions[number]
        found.setdefault((function.kind, function.identity), []).extend(range(start, end))
    return {key: sorted(values) for key, values in found.items()}


def _samples(window: Capture) -> list[tuple[int, int]]:
    return list(zip(window.stack_ns.tolist(), window.stack_ids.tolist(), strict=True))


def _oracle(rows: list[Row], window: Capture) -> naive.Charges:
    gc = [(int(a), int(b)) for a, b in window.gc_ns]
    return naive.charge(rows, KIND_OF, WINDOW, _samples(window), _stack_of, gc)


def test_every_nanosecond_is_charged_as_the_oracle_charges_it() -> None:
    rng = random.Random(1)
    seen: set[str] = set()
    for _ in range(CASES):
        rows, window = _rows(rng), _capture(rng)
        charged, expected = charge(window, events(rows)), _oracle(rows, window)
        assert _instants(charged) == expected.instants, rows
        assert {kind: time for kind, time in charged.kind_ns.items() if time} == expected.kinds
        assert charged.idle_ns == expected.idle
        assert sum(charged.kind_ns.values()) + charged.idle_ns == WINDOW[1] - WINDOW[0]
        seen |= {kind for kind, _ in expected.instants}
    assert seen == {"compute", "memory", "communication", "host", "python"}


def test_mu_and_sigma_over_whole_pieces_are_those_of_the_oracle() -> None:
    rng = random.Random(2)
    measured = 0
    for _ in range(CASES // 4):
        rows, window = _rows(rng), _capture(rng)
        charged = charge(window, events(rows))
        share = naive.shares(window.stack_ns.tolist(), window.cpu_ns.tolist(), WINDOW)
        found = measure(window, charged)
        cores = {"python", "host"} if charged.gpu else {"python", "compute"}
        instants = _instants(charged)
        for number, function in enumerate(charged.functions):
            mine = instants.get((function.kind, function.identity), []) if function.kind in cores else []
            expected = naive.mean_and_deviation(mine, share)
            if expected is None:
                assert number not in found
                continue
            assert found[number].resource == "cpu"
            assert (found[number].mu, found[number].sigma) == pytest.approx(expected, abs=1e-7)
            measured += 1
    assert measured > CASES // 4


def test_the_order_of_simultaneous_work_on_threads_does_not_matter() -> None:
    rng = random.Random(3)
    for _ in range(200):
        # Distinct starts: of two that open together the later in order is the inner one, so there order does matter.
        rows = list({row.start: row for row in _rows(rng)}.values())
        window = _capture(rng)
        shuffled = rng.sample(rows, len(rows))
        assert _instants(charge(window, events(shuffled))) == _instants(charge(window, events(rows)))


def test_splitting_an_event_changes_nothing() -> None:
    rng = random.Random(4)
    for _ in range(200):
        window = _capture(rng)
        rows = [Row("gloo:all_reduce", *_span(rng), "user_annotation", 8) for _ in range(3)]
        rows += [Row(name, *_span(rng), "kernel", 20) for name in ("sgemm_128x64",) * 2]
        halves = [
            part
            for row in rows
            for middle in [rng.randint(row.start, row.end)]
            for part in (row._replace(end=middle), row._replace(start=middle))
        ]
        split, whole = charge(window, events(halves)), charge(window, events(rows))
        assert _instants(split) == _instants(whole)
        assert split.kind_ns == whole.kind_ns
        # the same stretches too, not only the same time: touching halves are one charged interval
        assert sorted(split.pieces.start.tolist()) == sorted(whole.pieces.start.tolist())


def test_a_shift_in_time_shifts_the_pieces_and_nothing_else() -> None:
    rng = random.Random(5)
    shift = 3_600_000_000_000
    for _ in range(200):
        rows, window = _rows(rng), _capture(rng)
        later = replace(
            window,
            start_ns=window.start_ns + shift,
            end_ns=window.end_ns + shift,
            stack_ns=window.stack_ns + shift,
            gc_ns=window.gc_ns + shift,
        )
        moved = charge(later, events([row._replace(start=row.start + shift, end=row.end + shift) for row in rows]))
        still = charge(window, events(rows))
        assert moved.kind_ns == still.kind_ns
        assert moved.functions == still.functions
        assert (moved.pieces.start - shift).tolist() == still.pieces.start.tolist()
        assert (moved.pieces.end - shift).tolist() == still.pieces.end.tolist()


def test_a_python_function_beside_a_bucket_in_flight_is_charged_and_the_wait_for_the_bucket_is_communication() -> None:
    rows = [Row("gloo:all_reduce", 0, 100, "user_annotation", 8)]
    # augment runs until 40, then the thread waits in the engine
    window = capture(samples=[(40, 1), (100, 2)])
    assert charge(window, events(rows)).kind_ns == {
        "compute": 0, "memory": 0, "communication": 60, "host": 0, "python": 40,
    }  # fmt: skip


def test_a_wrapper_never_is_compute_and_hides_the_operator_around_it() -> None:
    rows = [
        Row("aten::mm", 0, 50),
        Row("aten::resolve_conj", 10, 12),
        Row("autograd::engine::evaluate_function: HookBackward", 50, 100),
        Row("aten::add", 60, 65),
    ]
    charged = charge(capture(), events(rows))
    lengths = {function: len(times) for (_, function), times in _instants(charged).items()}
    assert lengths == {"aten::mm": 48, "aten::resolve_conj": 2, "aten::add": 5}
    assert charged.idle_ns == 45


def test_a_node_of_the_backward_pass_that_was_not_recorded_changes_nothing() -> None:
    """A window in ``light`` has none (profile/kineto.py)."""
    engine = "autograd::engine::evaluate_function: "
    rows = [
        Row(f"{engine}MmBackward0", 0, 40),
        Row("MmBackward0", 3, 35),
        Row("aten::mm", 10, 20),
        Row("aten::resolve_conj", 12, 13),
        Row(f"{engine}torch::autograd::AccumulateGrad", 40, 90),
        Row("torch::autograd::AccumulateGrad", 50, 80),
        Row("aten::add_", 55, 60),
    ]
    without = [row for row in rows if row.name not in ("MmBackward0", "torch::autograd::AccumulateGrad")]
    window = capture(samples=[(50, 1), (100, 2)])
    found = charge(window, events(without))
    assert _instants(found) == _instants(charge(window, events(rows)))
    assert found.kind_ns["compute"] == 15


def test_the_forward_of_a_registered_operator_is_compute_although_torch_wraps_its_code() -> None:
    rows = [Row("job::device", 0, 60), Row("GeneratedBackwardFor_job_device_default", 1, 59)]
    assert charge(capture(end=60), events(rows)).kind_ns["compute"] == 60


def test_unknown_categories_are_counted_and_not_charged() -> None:
    rows = [Row("x", 0, 10, "quantum_events"), Row("y", 0, 10, "quantum_events"), Row("aten::mm", 0, 10)]
    charged = charge(capture(end=10), events(rows))
    assert charged.unknown == {"quantum_events": (2, 20e-9)}
    assert charged.kind_ns["compute"] == 10


def test_a_window_without_trace_and_samples_is_idle() -> None:
    charged = charge(capture(), events([]))
    assert (charged.idle_ns, sum(charged.kind_ns.values()), charged.functions) == (100, 0, ())


def test_item_on_a_gpu_is_a_host_call_that_synchronises() -> None:
    rows = [
        Row("k", 0, 30, "kernel", 7),
        Row("aten::item", 10, 60),
        Row("aten::mm", 60, 90),
        Row("other", 0, 0, "kernel"),
    ]
    charged = charge(capture(), events(rows))
    found = {(f.kind, f.family, f.name) for f in charged.functions if f.kind == "host"}
    assert found == {("host", "sync", "aten::item")}
    assert (charged.kind_ns["compute"], charged.kind_ns["host"], charged.idle_ns) == (30, 30, 40)


def test_the_order_of_kinds_can_be_chosen_and_what_is_left_out_is_never_charged() -> None:
    rows = [Row("aten::mm", 0, 60), Row("gloo:all_reduce", 40, 100, "user_annotation", 8)]
    window = capture(samples=[(20, 1), (100, 2)])  # augment until 20, then the thread waits in the engine

    def charged(*order: str) -> dict[str, int]:
        return {kind: time for kind, time in charge(window, events(rows), order=order).kind_ns.items() if time}

    assert charged() == charged("compute", "python", "communication", "python_wait") == {
        "compute": 60, "communication": 40,
    }  # fmt: skip
    assert charged("communication", "compute") == {"communication": 60, "compute": 40}
    assert charged("python", "compute") == {"python": 100}
    assert charged("python_wait", "python", "compute") == {"python": 100}
    assert charged("communication", "python") == {"communication": 60, "python": 40}
