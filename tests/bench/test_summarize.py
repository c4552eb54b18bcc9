"""The traces on which the summary is measured: the same for a seed, of the size that is said, read as meant."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from types import ModuleType

import pytest

from eroica_otel.model import Identity
from eroica_otel.summarize.offline import summarize_trace
from eroica_otel.summarize.readers.any import read_trace
from loaded import module_of

BENCH = Path(__file__).parents[2] / "bench"
EVENTS = 5003


@pytest.fixture(scope="module")
def kineto() -> ModuleType:
    return module_of(BENCH / "synthetic" / "kineto.py")


@pytest.fixture(scope="module")
def trace(kineto: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("synthetic") / "trace.json"
    made = kineto.write(path, EVENTS)
    assert made == (EVENTS, path.stat().st_size)
    return path


def test_a_seed_gives_the_same_bytes_and_another_one_others(kineto: ModuleType, trace: Path, tmp_path: Path) -> None:
    again, other = tmp_path / "again.json", tmp_path / "other.json"
    kineto.write(again, EVENTS)
    kineto.write(other, EVENTS, seed=1)
    assert again.read_bytes() == trace.read_bytes() != other.read_bytes()


def test_it_is_a_gpu_trace_of_that_many_complete_events_without_python(trace: Path) -> None:
    document = json.loads(trace.read_text())
    complete = Counter(event["cat"] for event in document["traceEvents"] if event["ph"] == "X")
    assert sum(complete.values()) == EVENTS
    assert set(complete) == {"cpu_op", "cuda_runtime", "kernel", "gpu_memcpy", "user_annotation"}
    assert complete["user_annotation"] == 100
    # Half are operators, as in real traces without stacks (53 to 54 % in two of them); a launch has one kernel.
    assert complete["cpu_op"] == 2 * (complete["kernel"] + complete["gpu_memcpy"])
    assert document["distributedInfo"]["rank"] == 0


def test_an_event_takes_333_bytes_give_or_take_a_twentieth(trace: Path) -> None:
    assert 0.95 * 333 < trace.stat().st_size / EVENTS < 1.05 * 333


def test_it_is_read_as_100_iterations_of_a_worker_that_computes_copies_and_communicates(trace: Path) -> None:
    found = read_trace(trace)
    assert (found.rank, found.world_size, found.gpu, found.python) == (0, 8, True, None)
    assert found.events.total == EVENTS
    assert found.skipped == {}
    window = summarize_trace(found, Identity("job", 0, "host", world_size=8))
    assert window.iterations == 100
    assert window.seconds == pytest.approx(20.0, rel=1e-3)
    assert all(window.kinds[kind] > 0 for kind in ("compute", "memory", "communication", "host"))
    (reduce,) = (pattern for pattern in window.patterns if pattern.kind == "communication")
    (calls,) = reduce.collectives
    assert calls.group == "0"
    assert calls.bytes is not None
    assert (len([p for p in window.patterns if p.kind == "compute"]), window.dropped) > (20, 0)


def test_too_few_events_are_refused(kineto: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="give 1000 or more"):
        kineto.write(tmp_path / "x.json", 999)
