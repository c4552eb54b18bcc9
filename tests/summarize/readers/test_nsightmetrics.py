"""GPU_METRICS: each process has those of its own GPU, whatever it calls it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from eroica_otel.errors import ConfigError
from eroica_otel.model import Identity
from eroica_otel.offline.load import Options, load
from eroica_otel.summarize.offline import summarize_trace
from eroica_otel.summarize.readers import nsightmetrics, tables
from eroica_otel.summarize.readers.any import read_trace, workers_in
from factories_nsight import KERNEL, KERNEL_COLUMNS, OTHER, PROCESS, STRINGS, Table, export


def _metrics(name: str = "SMs Active [Throughput %]") -> dict[str, Table]:
    """Two devices; metricId counts anew on each, and 1 on the first is 2 on the second."""
    first, second = 0x500, 0x501
    return {
        "StringIds": STRINGS,
        KERNEL: (
            KERNEL_COLUMNS,
            [(100, 300, 0, 7, PROCESS, 1, 2), (100, 300, 1, 7, PROCESS + (1 << 24), 1, 2)],
        ),
        "TARGET_INFO_GPU_METRICS": (
            "typeId, metricId, metricName, sourceId",
            [
                (first, 1, name, 1),
                (first, 2, "DRAM Read Bandwidth [Throughput %]", 1),
                (second, 2, name, 1),
                (second, 1, "DRAM Read Bandwidth [Throughput %]", 1),
            ],
        ),
        "GPU_METRICS": (
            "rawTimestamp, timestamp, typeId, metricId, value",
            [
                *[(at, at + 1, first, 1, 20) for at in range(0, 500, 100)],
                *[(at, at + 1, first, 2, 90) for at in range(0, 500, 100)],
                *[(at, at + 1, second, 2, 60 if at < 200 else 80) for at in range(0, 500, 100)],
                *[(at, at + 1, second, 1, 90) for at in range(0, 500, 100)],
                (-5, -4, first, 1, 100),
            ],
        ),
    }


@pytest.mark.parametrize("name", ["SMs Active [Throughput %]", "SM Active"])
def test_metrics_belong_to_their_device(tmp_path: Path, name: str) -> None:
    path = export(tmp_path / "t.sqlite", _metrics(name))
    measured: list[tuple[float, float]] = []
    for worker in workers_in(path):
        trace = read_trace(worker)
        assert set(trace.metrics) == {"sm", "dram"}
        pattern = summarize_trace(trace, Identity("job", 0, "node")).patterns[0]
        assert pattern.resource == "sm"
        assert pattern.mu is not None
        assert pattern.sigma is not None
        measured.append((pattern.mu, pattern.sigma))
    # the second device: 100 ns at 60 % and 100 ns at 80 %
    np.testing.assert_allclose(measured, [(0.2, 0.0), (0.7, 0.1)], atol=1e-9)


def test_reads_and_writes_of_the_memory_add_up(tmp_path: Path) -> None:
    tables = _metrics()
    tables["TARGET_INFO_GPU_METRICS"] = (
        "typeId, metricId, metricName",
        [(0x500, 1, "DRAM Read Bandwidth [Throughput %]"), (0x500, 2, "DRAM Write Bandwidth [Throughput %]")],
    )
    tables["GPU_METRICS"] = (
        "timestamp, typeId, metricId, value",
        [(0, 0x500, 1, 40), (0, 0x500, 2, 25), (9, 0x500, 1, 95), (9, 0x500, 2, 25)],
    )
    trace = read_trace(f"{export(tmp_path / 't.sqlite', tables)}#0")
    assert trace.metrics["dram"].time_ns.tolist() == [0, 9]
    np.testing.assert_allclose(trace.metrics["dram"].ratio, [0.65, 1.0])  # 120 % is a rounding of theirs


@pytest.mark.parametrize("missing", ["GPU_METRICS", "TARGET_INFO_GPU_METRICS"])
def test_metrics_may_be_missing(tmp_path: Path, missing: str) -> None:
    tables = {name: table for name, table in _metrics().items() if name != missing}
    trace = read_trace(f"{export(tmp_path / 't.sqlite', tables)}#0")
    assert dict(trace.metrics) == {}
    assert summarize_trace(trace, Identity("job", 0, "node")).patterns[0].mu is None


def _two_processes(**more: Table) -> dict[str, Table]:
    """Two processes that each call their GPU 0; GPU 0 of the machine is 90 % busy, GPU 1 is 20 % busy."""
    first, second = 0x1000100000000, 0x1000100000001
    name = "SMs Active [Throughput %]"
    return {
        "StringIds": STRINGS,
        KERNEL: (
            KERNEL_COLUMNS,
            [(100, 300, 0, 7, PROCESS, 1, 2), (100, 300, 0, 7, OTHER, 1, 2)],
        ),
        "TARGET_INFO_GPU_METRICS": ("typeId, metricId, metricName", [(first, 1, name), (second, 1, name)]),
        "GPU_METRICS": (
            "rawTimestamp, typeId, metricId, value",
            [(at, kind, 1, busy) for at in range(0, 500, 100) for kind, busy in ((first, 90), (second, 20))],
        ),
        **more,
    }


def _mu(worker: str) -> float | None:
    return summarize_trace(read_trace(worker), Identity("job", 0, "node")).patterns[0].mu


def test_a_process_has_the_metrics_of_its_own_gpu_whatever_it_calls_it(tmp_path: Path) -> None:
    # the process with the lower globalPid (pid 7) runs on GPU 1, the other (pid 8) on GPU 0
    table: Table = ("gpuId, cudaId, pid, uuid", [(1, 0, 7, None), (0, 0, 8, None)])
    path = export(tmp_path / "t.sqlite", _two_processes(TARGET_INFO_CUDA_DEVICE=table))
    workers = workers_in(path)
    # workers come by GPU, and that gives them ranks
    assert [_mu(worker) for worker in workers] == [pytest.approx(0.9), pytest.approx(0.2)]
    assert [read_trace(worker).rank for worker in workers] == [0, 1]
    assert [read_trace(worker).notes for worker in workers] == [(), ()]


def test_metrics_count_gpus_as_pwgpuid_does(tmp_path: Path) -> None:
    table: Table = ("gpuId, cudaId, pid", [(0, 0, 7), (1, 0, 8)])
    gpus: Table = ("id, name, pwGpuId, cuDevice", [(0, "A GPU", 1, 0), (1, "A GPU", 0, 1)])
    tables = _two_processes(TARGET_INFO_CUDA_DEVICE=table, TARGET_INFO_GPU=gpus)
    path = export(tmp_path / "t.sqlite", tables)
    assert [_mu(worker) for worker in workers_in(path)] == [pytest.approx(0.2), pytest.approx(0.9)]


def test_without_a_table_of_devices_processes_that_share_a_number_have_no_mu_and_no_rank(tmp_path: Path) -> None:
    path = export(tmp_path / "t.sqlite", _two_processes())
    for worker in workers_in(path):
        trace = read_trace(worker)
        assert (dict(trace.metrics), trace.rank) == ({}, None)
        assert len(trace.notes) == 1
        assert "t.sqlite: GPU_METRICS cannot be told apart" in trace.notes[0]
        assert _mu(worker) is None
    run = load([path], Options(ranks={f"{path}#0": 0, f"{path}#1": 1}))
    assert [note for note in run.notes if "GPU_METRICS" in note] == list(read_trace(f"{path}#0").notes)
    with pytest.raises(ConfigError, match=r"t\.sqlite#0: .*give --rank t\.sqlite#0=N \(and 1 more"):
        load([path], Options())


def test_kernels_that_tell_no_device_have_the_metrics_of_the_only_gpu(tmp_path: Path) -> None:
    tables = _metrics()
    tables[KERNEL] = ("start, end, demangledName", [(100, 300, 1)])
    several = read_trace(export(tmp_path / "several.sqlite", tables))
    assert dict(several.metrics) == {}
    assert "several GPUs" in several.notes[0]
    columns, rows = tables["TARGET_INFO_GPU_METRICS"]
    one = read_trace(export(tmp_path / "one.sqlite", tables | {"TARGET_INFO_GPU_METRICS": (columns, rows[:2])}))
    np.testing.assert_allclose(one.metrics["sm"].ratio, 0.2)


def test_samples_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nsightmetrics, "MOST_SAMPLES", 100)
    monkeypatch.setattr(tables, "PART_ROWS", 64)
    whole = _metrics()
    columns, _ = whole["GPU_METRICS"]
    rows = [(at, at, 0x500, metric, 20 * metric) for at in range(1000) for metric in (1, 2)]
    trace = read_trace(f"{export(tmp_path / 't.sqlite', whole | {'GPU_METRICS': (columns, rows)})}#0")
    for resource, share in (("sm", 0.2), ("dram", 0.4)):
        kept = trace.metrics[resource]
        np.testing.assert_allclose(kept.ratio, share)
        assert 10 <= kept.time_ns.size <= 50
        # evenly thinned: the samples still span the whole
        assert (kept.time_ns[0], kept.time_ns[-1] > 900) == (0, True)
