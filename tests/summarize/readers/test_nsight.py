"""Exports of Nsight Systems: a real one of two GPUs, and small ones made here from the documented schema."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from eroica_otel.errors import TraceError
from eroica_otel.model import Identity
from eroica_otel.offline.load import Options, load
from eroica_otel.summarize.offline import summarize_trace
from eroica_otel.summarize.readers.any import read_trace, workers_in
from factories_nsight import KERNEL, KERNEL_COLUMNS, KERNELS, PROCESS, STRINGS, THREAD, UTC, Table, export, named

GOLDEN = Path(__file__).parents[2] / "golden" / "nsight" / "two_gpus.sqlite.gz"


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


def test_a_file_of_several_workers_wants_one_to_benamed(two_gpus: Path) -> None:
    with pytest.raises(TraceError, match=r"holds 2 workers; name one of them: .*#0 to .*#1"):
        read_trace(two_gpus)
    with pytest.raises(TraceError, match="no number 2"):
        read_trace(f"{two_gpus}#2")


def test_every_table_that_is_there_is_read(tmp_path: Path) -> None:
    path = export(
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
    assert named(trace) == [
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
    path = export(tmp_path / "t.sqlite", {KERNEL: ("start, end", [(100, 300), (300, 250), (-1, 4)])})
    assert workers_in(path) == (str(path),)
    trace = read_trace(path)
    assert named(trace) == [("kernel", "kernel without a name", 100, 300, -1)]
    assert dict(trace.skipped) == {"negative duration, or no time": 2}
    assert summarize_trace(trace, Identity("job", 0, "node")).patterns[0].beta == 1.0


def test_an_export_without_anything_to_read_says_what_to_do(tmp_path: Path) -> None:
    path = export(tmp_path / "t.sqlite", {"StringIds": STRINGS})
    with pytest.raises(TraceError, match=r"t\.sqlite: an SQLite file without kernels.*nsys export --type sqlite"):
        read_trace(path)


def test_calls_without_kernels_are_a_failed_capture(tmp_path: Path) -> None:
    calls: Table = ("start, end, globalTid, nameId", [(90, 95, THREAD, 3)])
    path = export(tmp_path / "t.sqlite", {"StringIds": STRINGS, "CUPTI_ACTIVITY_KIND_RUNTIME": calls})
    with pytest.raises(TraceError, match="no GPU kernel was captured"):
        summarize_trace(read_trace(path), Identity("job", 0, "node"))


def test_ranks_by_the_order_of_the_devices_are_told_unless_a_person_gave_them(two_gpus: Path) -> None:
    said = f"{two_gpus.name}: ranks by the order of the devices; give --rank {two_gpus.name}#0=N where they are others"
    run = load([two_gpus], Options())
    assert sorted(run.members) == [0, 1]
    assert said in run.notes
    given = load([two_gpus], Options(ranks={f"{two_gpus.name}#0": 5, f"{two_gpus.name}#1": 4}))
    assert sorted(given.members) == [4, 5]
    assert said not in given.notes


@pytest.mark.parametrize("row", [("soon", 300, 0, 7, PROCESS, 1, 2), (2**70 * 1.0, 300, 0, 7, PROCESS, 1, 2)])
def test_values_of_other_types_are_told_as_damage(tmp_path: Path, row: tuple[object, ...]) -> None:
    path = export(tmp_path / "t.sqlite", {"StringIds": STRINGS, KERNEL: (KERNEL_COLUMNS, [row])})
    with pytest.raises(TraceError, match=r"t\.sqlite: not a whole SQLite export.*export it again"):
        read_trace(path)
