"""CUDA graphs and synchronisations are read, and tables that are not read are told."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from eroica_otel.model import Identity
from eroica_otel.summarize.offline import summarize_trace
from eroica_otel.summarize.readers.any import read_trace, workers_in
from eroica_otel.uncharged import uncharged
from factories_nsight import KERNEL, KERNELS, OTHER, PROCESS, STRINGS, THREAD, Table, export, named

GRAPH = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"


def test_a_cuda_graph_is_a_kernel_as_a_whole(tmp_path: Path) -> None:
    graphs: Table = (
        "start, end, deviceId, streamId, globalPid, graphId",
        [(100, 400, 0, 7, PROCESS, 3), (500, 600, 0, 7, PROCESS, None), (0, 0, 0, 7, PROCESS, 3)],
    )
    trace = read_trace(export(tmp_path / "t.sqlite", {GRAPH: graphs}))
    assert named(trace) == [("kernel", "CUDA graph 3", 100, 400, 7), ("kernel", "CUDA graph", 500, 600, 7)]
    # times of 0 stand for times that could not be had
    assert dict(trace.skipped) == {"negative duration, or no time": 1}
    window = summarize_trace(trace, Identity("job", 0, "node"))
    assert {(one.function, one.kind) for one in window.patterns} == {
        ("CUDA graph 3", "compute"), ("CUDA graph", "compute")
    }  # fmt: skip
    assert dict(window.unknown) == {}


def test_processes_that_run_graphs_alone_are_workers(tmp_path: Path) -> None:
    graphs: Table = ("start, end, deviceId, globalPid", [(100, 400, 1, PROCESS), (100, 400, 0, OTHER)])
    path = export(tmp_path / "t.sqlite", {GRAPH: graphs})
    assert len(workers_in(path)) == 2
    assert read_trace(f"{path}#1").rank == 1


def test_names_of_graphs_are_bounded(tmp_path: Path) -> None:
    graphs: Table = ("start, end, graphId", [(at, at + 1, at) for at in range(1000)])
    names = read_trace(export(tmp_path / "t.sqlite", {GRAPH: graphs})).events.names
    assert len(names) == 65
    assert "CUDA graph" in names


SYNC: Mapping[str, Table] = {
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": (
        "start, end, streamId, globalPid, correlationId, syncType",
        [(10, 90, 7, PROCESS, 1, 3), (300, 310, 7, PROCESS, 2, 9)],
    ),
    "ENUM_CUPTI_SYNC_TYPE": ("id, name, label", [
        (0, "CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_UNKNOWN", "Unknown"),
        (3, "CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_SYNCHRONIZE", "Stream sync"),
    ]),
}  # fmt: skip


def test_synchronisations_are_calls_of_the_host_where_no_runtime_call_tells_them(tmp_path: Path) -> None:
    tables = {"StringIds": STRINGS, KERNEL: KERNELS, **SYNC}
    trace = read_trace(export(tmp_path / "t.sqlite", tables))
    # pid 7 is the main thread
    assert [row for row in named(trace) if row[0] == "cuda_runtime"] == [
        ("cuda_runtime", "cudaStreamSynchronize", 10, 90, 7), ("cuda_runtime", "cudaSynchronize", 300, 310, 7)
    ]  # fmt: skip
    window = summarize_trace(trace, Identity("job", 0, "node"))
    assert {one.family for one in window.patterns if one.kind == "host"} == {"sync"}
    calls: Table = ("start, end, globalTid, nameId, correlationId", [(9, 92, THREAD, 3, 1)])
    both = read_trace(export(tmp_path / "b.sqlite", tables | {"CUPTI_ACTIVITY_KIND_RUNTIME": calls}))
    assert [row[1:] for row in named(both) if row[0] == "cuda_runtime"] == [("cudaLaunchKernel", 9, 92, 42)]
    assert dict(both.unread) == {}


def test_events_of_tables_that_are_not_read_are_told_with_their_time(tmp_path: Path) -> None:
    others: dict[str, Table] = {
        "MPI_COLLECTIVES_EVENTS": (
            "start, end, globalTid", [(0, 2_000_000, THREAD), (5, 1_000_005, THREAD), (5, 10**9, OTHER + 1)]
        ),
        "CUPTI_ACTIVITY_KIND_OVERHEAD": ("start, end, globalTid", [(0, 500_000, THREAD)]),
        "CUPTI_ACTIVITY_KIND_CUDA_EVENT": ("timestamp, globalPid", [(1, PROCESS), (2, PROCESS), (3, OTHER)]),
        "OSRT_API": ("start, end, globalTid", []),
        "odd name": ("start, end", [(0, 1)]),
    }  # fmt: skip
    path = export(tmp_path / "t.sqlite", {"StringIds": STRINGS, KERNEL: KERNELS} | {
        f'"{name}"': table for name, table in others.items()
    })  # fmt: skip
    trace = read_trace(path)
    assert dict(trace.unread) == {
        "MPI_COLLECTIVES_EVENTS": (2, 0.003), "OVERHEAD": (1, 0.0005), "CUDA_EVENT": (2, 0.0)
    }  # fmt: skip
    window = summarize_trace(trace, Identity("job", 0, "node"))
    assert uncharged([window])[0].endswith(
        "charged to nothing: MPI_COLLECTIVES_EVENTS 2 (3.0 ms), OVERHEAD 1 (0.5 ms), CUDA_EVENT 2 (0.0 ms)"
    )
