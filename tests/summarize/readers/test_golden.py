"""Real traces of many makers and years: what the reader finds is what was counted in them by other means.

Kernels, collectives, spans, ranks and Python calls are those of the table that was made with the json module when the
files were gathered; the second test counts again, event by event, with exact decimals.
"""

from __future__ import annotations

import gzip
import json
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from eroica_otel import kinds
from eroica_otel.errors import TraceError
from eroica_otel.model import Identity
from eroica_otel.summarize.offline import summarize_trace
from eroica_otel.summarize.readers.any import read_trace
from eroica_otel.traces import Trace

GOLDEN = Path(__file__).parents[2] / "golden"


class Known(NamedTuple):
    """What a file holds: kernels, those of NCCL among them, span in whole ms, (rank, world size, backend), device."""

    kernels: int
    nccl: int
    span_ms: int
    worker: tuple[int | None, int | None, str]
    device: str | None


KNOWN = {
    "hta/amd_mi250": Known(14, 0, 10, (None, None, ""), "AMD Radeon Graphics"),
    "hta/cpu_only": Known(0, 0, 1283, (34, 300, "gloo"), None),
    "hta/event_sync": Known(4, 0, 3, (0, None, ""), "NVIDIA A100-PG509-200"),
    "hta/cupti_profiler": Known(0, 0, 11848, (0, None, ""), "NVIDIA A100-PG509-200"),
    "hta/large_integer": Known(1, 1, 0, (None, None, ""), None),
    "hta/rank_non_gpu": Known(0, 0, 76, (0, None, ""), None),
    "hta/categories_2021": Known(4, 0, 2, (1, None, ""), None),
    "hta/sampled_rank_0": Known(1154, 10, 1230, (0, 128, "nccl"), None),
    "hta/triton": Known(1, 0, 13336, (None, None, ""), "NVIDIA A100-PG509-200"),
    "hta/gpu_user_annotation": Known(130, 0, 10, (0, None, ""), "Quadro GP100"),
    "kineto_gpu_metrics": Known(30, 0, 14, (None, None, ""), "Tesla V100-DGXS-32GB"),
    "tracelens/h100_bert": Known(60, 0, 5, (None, None, ""), "NVIDIA H100 80GB HBM3"),
    "tracelens/mi300_bert": Known(60, 0, 4, (None, None, ""), "AMD Instinct MI300X VF"),
    "tracelens/graph_replay": Known(425, 0, 19, (0, 1, "nccl"), ""),
    "tracelens/mi210_gpu_only": Known(562, 0, 6, (None, None, ""), "AMD Instinct MI210"),
    "tracelens/torch_compile": Known(12, 0, 13, (None, None, ""), "AMD Instinct MI300X"),
}
CUT = {
    "hta/nccl_arguments": Known(2700, 21, -1, (0, 2, "nccl"), "NVIDIA A100-PG509-200"),
    "hta/epoch_fractions": Known(4350, 0, -1, (0, 1, "nccl"), "Tesla V100-SXM2-32GB"),
    "hta/mtia": Known(1313, 0, -1, (None, None, ""), "ARTEMIS"),
    "tracelens/b200_collective": Known(768, 1, -1, (0, 8, "nccl"), "NVIDIA B200"),
}
"""Files of which only some categories were kept: their span is not that of the whole."""
EVERY = KNOWN | CUT


def _path(name: str) -> Path:
    return GOLDEN / f"{name}.json.gz"


def _is_kernel(trace: Trace) -> np.ndarray[Any, np.dtype[np.bool_]]:
    events = trace.events
    return np.array([kinds.is_kernel(category) for category in events.categories], bool)[events.category]


@pytest.mark.parametrize("name", sorted(EVERY))
def test_what_a_real_trace_holds(name: str) -> None:
    trace, known = read_trace(_path(name)), EVERY[name]
    events, kernels = trace.events, _is_kernel(trace)
    nccl = [row for row in events.collectives if events.names[events.name[row]].startswith("nccl") and kernels[row]]
    assert (int(kernels.sum()), len(nccl)) == (known.kernels, known.nccl)
    assert (trace.rank, trace.world_size, trace.backend) == known.worker
    assert (trace.devices[0] if trace.devices else None) == known.device
    if known.span_ms >= 0:
        assert abs((int(events.end_ns.max()) - int(events.start_ns[0])) / 1e6 - known.span_ms) < 1
    assert trace.gpu is (name not in {"hta/cpu_only", "hta/rank_non_gpu"})
    assert dict(trace.skipped) == {}


@pytest.mark.parametrize("name", sorted([*EVERY, "hta/backward_thread"]))
def test_every_event_survives_with_its_nanoseconds(name: str) -> None:
    document = json.loads(gzip.decompress(_path(name).read_bytes()), parse_float=Decimal)
    base = document.get("baseTimeNanoseconds", 0)
    expected = Counter(
        (
            round(Decimal(event["ts"]) * 1000) + base,
            round(Decimal(event["dur"]) * 1000),
            event["name"],
            event["cat"],
        )
        for event in document["traceEvents"]
        if event["ph"] == "X" and event["cat"] != "Trace"
    )
    events = read_trace(_path(name)).events
    found = Counter(
        zip(
            events.start_ns.tolist(),
            (events.end_ns - events.start_ns).tolist(),
            [events.names[number] for number in events.name.tolist()],
            [events.categories[number] for number in events.category.tolist()],
            strict=True,
        )
    )
    assert found == expected
    assert (np.diff(events.start_ns) >= 0).all()


@pytest.mark.parametrize("name", sorted(set(EVERY) - {"hta/cupti_profiler"}))
def test_no_real_trace_gives_an_empty_summary(name: str) -> None:
    window = summarize_trace(read_trace(_path(name)), Identity("job", 0, "node"))
    assert window.patterns
    assert window.events > 0
    assert sum(window.kinds.values()) == pytest.approx(1.0, abs=1e-12)
    assert window.kinds["idle"] < 1.0


def test_ranges_of_the_cupti_profiler_are_no_kernels_and_the_message_says_so() -> None:
    with pytest.raises(TraceError, match=r"cupti_profiler.*range profiler.*leave it out, and profile again"):
        summarize_trace(read_trace(_path("hta/cupti_profiler")), Identity("job", 0, "node"))


def test_what_a_device_of_another_maker_ran_is_told_by_its_name() -> None:
    trace = read_trace(_path("hta/mtia"))
    names = {trace.events.names[number] for number in trace.events.name[_is_kernel(trace)].tolist()}
    assert names == {"dma_request", "event_record", "event_wait", "remote", "merge", "pe_exe"}
    window = summarize_trace(trace, Identity("job", 0, "node"))
    assert {p.function: p.kind for p in window.patterns if p.function in names} == {
        "dma_request": "memory",
        "merge": "compute",
        "pe_exe": "compute",
        "remote": "compute",
    }  # events that wait or record are no work


def test_steps_are_those_of_the_host_and_one_without_work_at_the_end_does_not_count() -> None:
    # ProfilerStep#1 is marked on the host and, by gpu_user_annotation, on the device; #2 is what the schedule left over
    assert read_trace(_path("hta/amd_mi250")).steps.number.tolist() == [1]
    steps = read_trace(_path("hta/sampled_rank_0")).steps
    assert steps.number.tolist() == [551, 552]
    assert ((steps.end_ns - steps.start_ns) // 1_000_000).tolist() == [607, 622]


def test_arguments_of_kernels_tell_group_and_bytes() -> None:
    trace = read_trace(_path("hta/nccl_arguments"))
    kernels = _is_kernel(trace)
    moved = Counter(value for row, value in trace.events.collectives.items() if kernels[row])
    assert {group for group, _ in moved} == {"0"}
    assert moved["0", 6_637_568 * 4] > 0  # an all-reduce of 6637568 float numbers
    assert dict(trace.groups) == {"0": (0, 1)}


def test_a_kernel_and_its_operator_are_one_collective() -> None:
    events = read_trace(_path("tracelens/b200_collective")).events
    found = Counter(
        (events.names[events.name[row]].partition("(")[0], *told) for row, told in events.collectives.items()
    )
    nccl = {key: count for key, count in found.items() if key[0].startswith("nccl")}
    assert nccl == {("ncclDevKernel_AllGather_RING_LL", "3", 25_136 * 2): 1}  # 25136 bfloat16 of group 3
    # the serving engine's own all-reduce, one for each of 73 layers' ends, tells neither
    assert {key[1:]: count for key, count in found.items() if key not in nccl} == {("", None): 73}


@pytest.mark.parametrize(
    ("name", "calls"), [("tracelens/h100_bert", 1385), ("tracelens/mi300_bert", 1389), ("tracelens/graph_replay", 984)]
)
def test_python_functions_have_stacks_that_begin_where_python_does(name: str, calls: int) -> None:
    document = json.loads(gzip.decompress(_path(name).read_bytes()))
    python = [event for event in document["traceEvents"] if event.get("cat") == "python_function"]
    assert len(python) == calls
    by_id = {event["args"]["Python id"]: event for event in python}
    trace = read_trace(_path(name))
    assert trace.python is not None
    found = Counter(
        (int(start), " > ".join(_shown(trace, stack)))
        for start, stack in zip(trace.python.start_ns, trace.python.stack, strict=True)
    )
    base = document["baseTimeNanoseconds"]
    expected = Counter(
        (round(Decimal(str(event["ts"])) * 1000) + base, " > ".join(_chain(event, by_id)))
        for event in python
        if "): " in event["name"] and event["tid"] == trace.training_thread
    )
    assert found == expected


def _shown(trace: Trace, stack: int) -> list[str]:
    assert trace.python is not None
    return [
        f"{file}({line}): {name}"
        for _, name, file, line in (trace.python.frames[i] for i in trace.python.stacks[stack])
    ]


def _chain(event: dict[str, Any], by_id: dict[int, dict[str, Any]]) -> list[str]:
    """Return the callers of a call and itself, outermost first, C functions and modules left out."""
    found: list[str] = []
    at: dict[str, Any] | None = event
    while at is not None:
        if "): " in at["name"]:
            found.insert(0, at["name"])
        parent = at["args"].get("Python parent id")
        at = by_id.get(parent) if parent is not None else None
    return found
