"""Python in a trace: stacks as a live sampler would have seen them, from three generations of profilers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from eroica_otel.kinds import Frame
from eroica_otel.model import Identity, WorkerWindow
from eroica_otel.summarize.offline import summarize_trace
from eroica_otel.summarize.readers.any import read_trace
from eroica_otel.summarize.readers.pythonstacks import frame_of
from eroica_otel.traces import Trace
from factories_summarize import Row, kineto_event, kineto_text

STEP = Row("ProfilerStep#3", 0, 100, "user_annotation")
SITE = "/opt/env/lib/python3.7/site-packages/"


def _trace(tmp_path: Path, events: Sequence[tuple[Row, Mapping[str, object]]]) -> Trace:
    path = tmp_path / "t.json"
    path.write_text(kineto_text([kineto_event(row, arguments=more) for row, more in [(STEP, {}), *events]]))
    return read_trace(path)


def _call(
    name: str, start: int, end: int, number: int, parent: int | None, thread: int = 1
) -> tuple[Row, Mapping[str, object]]:
    return Row(name, start, end, "python_function", thread), {"Python id": number, "Python parent id": parent}


def _python(window: WorkerWindow) -> dict[str, tuple[float, str]]:
    return {p.function: (round(p.beta, 6), p.family) for p in window.patterns if p.kind == "python"}


def _summary(trace: Trace) -> dict[str, tuple[float, str]]:
    return _python(summarize_trace(trace, Identity("job", 0, "node")))


@pytest.mark.parametrize(
    ("text", "frame"),
    [
        ("torch/nn/modules/module.py(1501): _call_impl", ("torch.nn.modules.module", "_call_impl", 1501)),
        (SITE + "torch/utils/data/dataloader.py(521): __next__", ("torch.utils.data.dataloader", "__next__", 521)),
        ("/usr/lib/python3.11/threading.py(10): run", ("threading", "run", 10)),
        ("/opt/job/train.py(7): <module>", ("train", "<module>", 7)),
        ("pkg/__init__.py(1): f(x): g", ("pkg", "f(x): g", 1)),
        ("C:\\env\\lib\\site-packages\\torch\\cuda\\__init__.py(9): sync", ("torch.cuda", "sync", 9)),
        ("<string>(2): __init__", ("<string>", "__init__", 2)),
    ],
)
def test_frames_of_a_trace(text: str, frame: tuple[str, str, int]) -> None:
    found = frame_of(text)
    assert found is not None
    assert (found.module, found.qualname, found.line) == frame


@pytest.mark.parametrize(
    "text", ["<built-in method mm of type object at 0x7f>", "nn.Module: Linear_0", "", "f.py(x): g"]
)
def test_c_functions_and_modules_are_no_frames(text: str) -> None:
    assert frame_of(text) is None


def test_the_innermost_call_is_charged_with_its_whole_stack(tmp_path: Path) -> None:
    calls = [
        _call("train.py(1): main", 0, 100, 1, None),
        _call("train.py(20): augment", 10, 60, 2, 1),
        _call("nn.Module: Net_0", 60, 90, 3, 1),
        _call("net.py(5): forward", 65, 85, 4, 3),
        _call("<built-in method sleep>", 20, 50, 5, 2),
        _call("train.py(30): elsewhere", 0, 100, 9, None, thread=8),  # another thread waits for nobody
    ]
    trace = _trace(tmp_path, calls)
    assert _summary(trace) == {
        "augment (train.py:20)": (0.5, "other"),
        "main (train.py:1)": (0.3, "other"),  # with the module's own time, which is its caller's
        "forward (net.py:5)": (0.2, "other"),
    }
    window = summarize_trace(trace, Identity("job", 0, "node"))
    stacks = {pattern.function: pattern.stack for pattern in window.patterns}
    assert stacks["forward (net.py:5)"] == ("train:main:1", "net:forward:5")


def test_a_caller_that_is_missing_or_calls_itself_ends_the_stack(tmp_path: Path) -> None:
    calls = [
        _call("a.py(1): a", 0, 20, 1, 77),
        _call("b.py(1): b", 20, 40, 2, 2),
        _call("c.py(1): c", 40, 60, 3, 4),
        _call("d.py(1): d", 60, 80, 4, 3),
    ]
    assert set(_summary(_trace(tmp_path, calls))) == {"a (a.py:1)", "b (b.py:1)", "c (c.py:1)", "d (d.py:1)"}


def test_input_and_wait_frames_of_a_trace_are_known(tmp_path: Path) -> None:
    calls = [
        _call("torch/utils/data/dataloader.py(630): __next__", 0, 40, 1, None),
        _call("data.py(9): read", 10, 30, 2, 1),
        _call("torch/autograd/graph.py(800): _engine_run_backward", 40, 60, 3, None),
        _call("torch/distributed/distributed_c10d.py(2600): all_reduce", 60, 90, 4, None),
    ]
    assert _summary(_trace(tmp_path, calls)) == {
        "__next__ (dataloader.py:630)": (0.2, "input"),
        "read (data.py:9)": (0.2, "input"),
        "_engine_run_backward (graph.py:800)": (0.2, "wait"),
        "all_reduce (distributed_c10d.py:2600)": (0.3, "wait"),
    }


def test_call_stacks_of_2021_stand_on_operators_innermost_first(tmp_path: Path) -> None:
    stack = f"{SITE}torch/optim/sgd.py(117): step;train.py(51): <module>"
    own = f"{SITE}torch/autograd/profiler.py(614): __enter__;train.py(50): <module>"
    kernel: tuple[Row, dict[str, str]] = (Row("k", 50, 60, "Kernel", 7), {})
    events = [
        kernel,
        (Row("aten::add_", 20, 40, "Operator"), {"Call stack": stack}),
        (Row("aten::mul_", 40, 55, "Operator"), {"Call stack": stack.replace("117", "118")}),
        (Row("Optimizer.step#SGD.step", 10, 90, "Operator"), {"Call stack": own}),  # a range, not what runs
        (Row("aten::fill_", 70, 80, "Operator", 5), {"Call stack": stack}),  # the thread of the backward
    ]
    trace = _trace(tmp_path, events)
    assert trace.python is not None
    assert {Frame(*frame)[:2] for frame in trace.python.frames} == {("torch.optim.sgd", "step"), ("train", "<module>")}
    assert _summary(trace) == {"step (sgd.py)": (0.3, "other")}  # 20 to 50: the kernel wins from there on


def test_the_range_of_the_input_is_python_where_nothing_better_tells(tmp_path: Path) -> None:
    row = Row("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", 10, 60, "user_annotation")
    assert _summary(_trace(tmp_path, [(row, {}), (Row("k", 20, 30, "kernel", 7), {})])) == {
        "_MultiProcessingDataLoaderIter.__next__ (dataloader.py)": (0.4, "input")
    }
    calls = [_call("train.py(1): main", 0, 100, 1, None)]
    assert set(_summary(_trace(tmp_path, [(row, {}), *calls]))) == {"main (train.py:1)"}
