"""Exports of Nsight Systems: a real one of two GPUs, and small ones made here from the documented schema."""

from __future__ import annotations

import gzip
import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from eroica_otel.errors import TraceError
from eroica_otel.model import Identity
from eroica_otel.summarize.offline import summarize_trace
from eroica_otel.summarize.readers.any import read_trace, workers_in
from eroica_otel.traces import Trace

GOLDEN = Path(__file__).parents[2] / "golden" / "nsight" / "two_gpus.sqlite.gz"
PROCESS = 7 << 24
THREAD = PROCESS + 42
UTC = 1_779_000_000_000_000_000

Table = tuple[str, Sequence[Sequence[object]]]
STRINGS: Table = (
    "id, value",
    [
        (1, "void gemm<float>(int)"),
        (2, "gemm"),
        (3, "cudaLaunchKernel_v7000"),
        (4, "step 5"),
        (5, "ncclDevKernel_SendRecv(x)"),
    ],
)
KERNEL = "CUPTI_ACTIVITY_KIND_KERNEL"
KERNEL_COLUMNS = "start, end, deviceId, streamId, globalPid, demangledName, shortName"
KERNELS: Table = (KERNEL_COLUMNS, [(100, 300, 0, 7, PROCESS, 1, 2), (400, 500, 0, 7, PROCESS, 5, 5)])


def _export(path: Path, tables: Mapping[str, Table]) -> Path:
    connection = sqlite3.connect(path)
    for name, (columns, rows) in tables.items():
        connection.execute(f"CREATE TABLE {name} ({columns})")
        marks = ", ".join("?" * len(columns.split(",")))
        connection.executemany(f"INSERT INTO {name} VALUES ({marks})", rows)
    connection.commit()
    connection.close()
    return path


def _named(trace: Trace) -> list[tuple[str, str, int, int, int]]:
    events = trace.events
    return [
        (
            events.categories[events.category[i]],
            events.names[events.name[i]],
            int(events.start_ns[i]),
            int(events.end_ns[i]),
            int(events.thread[i]),
        )
        for i in range(events.total)
    ]


@pytest.fixture(scope="module")
def two_gpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("nsight") / "two.sqlite"
    path.write_bytes(gzip.decompress(GOLDEN.read_bytes()))
    return path


def test_a_real_export_of_two_gpus_holds_two_workers(two_gpus: Path) -> None:
    workers = workers_in(two_gpus)
    assert workers == (f"{two_gpus}#0", f"{two_gpus}#1")
    traces = [read_trace(worker) for worker in workers]
    kernels = [np.array([c == "kernel" for c in t.events.categories])[t.events.category] for t in traces]
    spans = [t.events.end_ns - t.events.start_ns for t in traces]
    times = [int(span[mask].sum()) / 1e6 for span, mask in zip(spans, kernels, strict=True)]
    assert [round(time) for time in times] == [271, 264]
    assert [trace.rank for trace in traces] == [0, 1]
    assert {trace.host for trace in traces} == {"node-a"}
    assert all("op_id" not in name for trace in traces for name in trace.events.names)
    # 0.3 s were recorded, in May 2026
    for trace in traces:
        first, last = int(trace.events.start_ns[0]), int(trace.events.end_ns.max())
        assert 0.29e9 < last - first < 0.31e9
        assert 1_779_700_000 < first // 10**9 < 1_779_900_000


def test_workers_of_a_real_export_have_patterns(two_gpus: Path) -> None:
    window = summarize_trace(read_trace(f"{two_gpus}#1"), Identity("job", 1, "node-a"))
    assert window.patterns[0].family == "attention"
    assert {p.kind for p in window.patterns} >= {"compute", "communication", "memory", "host"}
    assert sum(window.kinds.values()) == pytest.approx(1.0, abs=1e-12)


def test_a_file_of_several_workers_wants_one_to_be_named(two_gpus: Path) -> None:
    with pytest.raises(TraceError, match=r"holds 2 workers; name one of them: .*#0 to .*#1"):
        read_trace(two_gpus)
    with pytest.raises(TraceError, match="no number 2"):
        read_trace(f"{two_gpus}#2")


def test_every_table_that_is_there_is_read(tmp_path: Path) -> None:
    path = _export(
        tmp_path / "t.sqlite",
        {
            "StringIds": STRINGS,
            KERNEL: KERNELS,
            "CUPTI_ACTIVITY_KIND_MEMCPY": (
                "start, end, streamId, globalPid, copyKind",
                [(10, 20, 7, PROCESS, 1), (30, 40, 7, PROCESS, 99)],
            ),
            "CUPTI_ACTIVITY_KIND_MEMSET": ("start, end, streamId, globalPid", [(50, 60, 7, PROCESS)]),
            "CUPTI_ACTIVITY_KIND_RUNTIME": (
                "start, end, globalTid, nameId",
                [(90, 95, THREAD, 3), (91, 92, THREAD + (1 << 24), 3)],
            ),
            "NVTX_EVENTS": (
                "start, end, eventType, text, textId, globalTid",
                [
                    (0, 600, 59, None, 4, THREAD),
                    (5, 9, 59, "aten::mm, seq = 3, op_id = 12", None, THREAD),
                    (6, None, 34, "mark", None, THREAD),
                ],
            ),
            "TARGET_INFO_SESSION_START_TIME": ("utcEpochNs", [(UTC,)]),
            "TARGET_INFO_GPU": ("id, name", [(0, "A GPU")]),
        },
    )
    trace = read_trace(path)
    assert _named(trace) == [
        ("user_annotation", "step 5", UTC, UTC + 600, 42),
        ("user_annotation", "aten::mm", UTC + 5, UTC + 9, 42),
        ("gpu_memcpy", "Memcpy HtoD", UTC + 10, UTC + 20, 7),
        ("gpu_memcpy", "Memcpy of unknown kind", UTC + 30, UTC + 40, 7),
        ("gpu_memset", "Memset (Device)", UTC + 50, UTC + 60, 7),
        ("cuda_runtime", "cudaLaunchKernel", UTC + 90, UTC + 95, 42),
        ("kernel", "void gemm<float>(int)", UTC + 100, UTC + 300, 7),
        ("kernel", "ncclDevKernel_SendRecv(x)", UTC + 400, UTC + 500, 7),
    ]
    assert (trace.devices, trace.format, trace.gpu, trace.rank) == (("A GPU",), "nsight", True, None)
    assert list(trace.events.collectives) == [7]


def test_kernels_alone_are_enough_even_without_names(tmp_path: Path) -> None:
    path = _export(tmp_path / "t.sqlite", {KERNEL: ("start, end", [(100, 300), (300, 250), (-1, 4)])})
    assert workers_in(path) == (str(path),)
    trace = read_trace(path)
    assert _named(trace) == [("kernel", "kernel without a name", 100, 300, -1)]
    assert dict(trace.skipped) == {"negative duration, or no time": 2}
    assert summarize_trace(trace, Identity("job", 0, "node")).patterns[0].beta == 1.0


def test_an_export_without_anything_to_read_says_what_to_do(tmp_path: Path) -> None:
    path = _export(tmp_path / "t.sqlite", {"StringIds": STRINGS})
    with pytest.raises(TraceError, match=r"t\.sqlite: an SQLite file without kernels.*nsys export --type sqlite"):
        read_trace(path)


def test_calls_without_kernels_are_a_failed_capture(tmp_path: Path) -> None:
    calls: Table = ("start, end, globalTid, nameId", [(90, 95, THREAD, 3)])
    path = _export(tmp_path / "t.sqlite", {"StringIds": STRINGS, "CUPTI_ACTIVITY_KIND_RUNTIME": calls})
    with pytest.raises(TraceError, match="no GPU kernel was captured"):
        summarize_trace(read_trace(path), Identity("job", 0, "node"))


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
    path = _export(tmp_path / "t.sqlite", _metrics(name))
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
    trace = read_trace(f"{_export(tmp_path / 't.sqlite', tables)}#0")
    assert trace.metrics["dram"].time_ns.tolist() == [0, 9]
    np.testing.assert_allclose(trace.metrics["dram"].ratio, [0.65, 1.0])  # 120 % is a rounding of theirs


@pytest.mark.parametrize("missing", ["GPU_METRICS", "TARGET_INFO_GPU_METRICS"])
def test_metrics_may_be_missing(tmp_path: Path, missing: str) -> None:
    tables = {name: table for name, table in _metrics().items() if name != missing}
    trace = read_trace(f"{_export(tmp_path / 't.sqlite', tables)}#0")
    assert dict(trace.metrics) == {}
    assert summarize_trace(trace, Identity("job", 0, "node")).patterns[0].mu is None


@pytest.mark.parametrize("row", [("soon", 300, 0, 7, PROCESS, 1, 2), (2**70 * 1.0, 300, 0, 7, PROCESS, 1, 2)])
def test_values_of_other_types_are_told_as_damage(tmp_path: Path, row: tuple[object, ...]) -> None:
    path = _export(tmp_path / "t.sqlite", {"StringIds": STRINGS, KERNEL: (KERNEL_COLUMNS, [row])})
    with pytest.raises(TraceError, match=r"t\.sqlite: not a whole SQLite export.*export it again"):
        read_trace(path)
