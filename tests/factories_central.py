"""Builders for the central side: windows, what a worker collects, OTLP requests, verdicts, and a small real client."""

from __future__ import annotations

import gzip
import statistics
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any

from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.metrics import CallbackOptions, Observation
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource

from eroica_otel import names
from eroica_otel.export.points import window_points
from eroica_otel.localize.policy import Policy
from eroica_otel.localize.presence import Presence
from eroica_otel.model import (
    STATES,
    Collective,
    Detail,
    Finding,
    FunctionDetail,
    Identity,
    Pattern,
    Point,
    Report,
    Victims,
    WorkerWindow,
)
from eroica_otel.query.otlp import Delivery
from eroica_otel.webserver import Address

WINDOW = 1_764_430_000
LOOPBACK = Address("127.0.0.1", 0, "--listen")
STACK = ("train:main:10", "data:augment:42")


def identity(rank: int = 0, **changes: Any) -> Identity:
    given: dict[str, Any] = {"training_job": "llm-7b", "host": f"host-{rank // 2}", "team": "vision", "role": "all"}
    return Identity(**(given | {"rank": rank, "world_size": 4, "local_rank": rank % 2, "run_id": "run-1"} | changes))


def pattern(function_id: str = "aaaaaaaaaaaa", **changes: Any) -> Pattern:
    given: dict[str, Any] = {
        "function": "augment (data.py:42)", "kind": "python", "family": "other", "resource": "cpu", "beta": 0.1,
        "mu": 0.5, "sigma": 0.1, "stack": STACK,
    }  # fmt: skip
    return Pattern(function_id, **(given | changes))


def all_reduce(**changes: Any) -> Pattern:
    given: dict[str, Any] = {
        "function": "all_reduce", "kind": "communication", "family": "collective", "resource": "nic", "beta": 0.3,
        "peaks": {"nic_tx": 0.8, "nic_rx": 0.75}, "stack": (),
        "collectives": (Collective("0", 60, 4096, 0.002), Collective("1", 6, None, 0.001)),
    }  # fmt: skip
    return pattern("bbbbbbbbbbbb", **(given | changes))


def window(rank: int = 0, *, slow: bool = False, who: Identity | None = None, **changes: Any) -> WorkerWindow:
    """Return one worker's window; a slow worker spends half of it in ``augment`` and waits less for the others."""
    given: dict[str, Any] = {
        "window_id": WINDOW, "reason": "degraded", "seconds": 5.0, "iterations": 30, "floor": 0.001, "events": 1000,
        "patterns": (
            pattern("cccccccccccc", function="matmul", kind="compute", family="gemm", beta=0.4, mu=0.02, stack=()),
            all_reduce(beta=0.05 if slow else 0.3),
            pattern(beta=0.5 if slow else 0.1),
        ),
        "end_timestamp_seconds": WINDOW + 5.5, "start_iteration": 512, "cpu_seconds": 1.5,
        "sampler_gap_seconds": 0.004, "run_delay_ratio": 0.01, "signature": "loop-1",
        "kinds": {"compute": 0.4, "communication": 0.05 if slow else 0.3, "python": 0.5 if slow else 0.1, "idle": 0.05},
    }  # fmt: skip
    by_beta = sorted(changes.pop("patterns", given["patterns"]), key=lambda item: item.beta, reverse=True)
    return WorkerWindow(**(given | {"identity": who or identity(rank)} | changes | {"patterns": tuple(by_beta)}))


def windows(slow: Sequence[int] = (), size: int = 4, **changes: Any) -> list[WorkerWindow]:
    return [window(rank, slow=rank in slow, **changes) for rank in range(size)]


def status_points(
    who: Identity, state: str = "degraded", *, signature: str = "loop-1", iterations: float = 600.0
) -> list[Point]:
    """Return what a worker shows beside its window."""
    info = dict.fromkeys(("gpu_uuid", "pci_bus_id", "nic", "k8s_pod"), "")
    info |= {"local_rank": str(who.local_rank), "run_id": who.run_id, "restart": str(who.restart)}
    points = [
        Point(names.WORLD_SIZE.name, who.labels(), float(who.world_size)),
        Point(names.WORKER_INFO.name, who.labels() | info | {"signature": signature}, 1.0),
        Point(names.ITERATIONS.name, who.labels(), iterations),
    ]
    for name in STATES:
        points.append(Point(names.WORKER_STATE.name, who.labels() | {"state": name}, float(name == state)))
    return points


def collect(given: WorkerWindow, state: str = "degraded") -> list[Point]:
    """Return everything that one collect of a worker holds."""
    return window_points(given) + status_points(given.identity, state, signature=given.signature)


def delivery(points: Sequence[Point], pid: str = "") -> Delivery:
    return Delivery({"service.instance.id": "", "process.pid": pid}, tuple(points))


def request(points: Sequence[Point], resource: Mapping[str, str] | None = None) -> ExportMetricsServiceRequest:
    """Return the points as an SDK would send them: one metric per instrument."""
    message = ExportMetricsServiceRequest()
    group = message.resource_metrics.add()
    for key, value in (resource or {}).items():
        group.resource.attributes.add(key=key).value.string_value = value
    scope = group.scope_metrics.add()
    metrics: dict[str, Any] = {}
    for point in points:
        known = names.BY_NAME[point.name]
        if known.name not in metrics:
            metrics[known.name] = scope.metrics.add(name=known.instrument)
        metric = metrics[known.name]
        data = (metric.sum if known.type == names.COUNTER else metric.gauge).data_points.add(as_double=point.value)
        for key, value in point.labels.items():
            data.attributes.add(key=key).value.string_value = value
    return message


def send(url: str, body: bytes, headers: Mapping[str, str] | None = None, *, timeout: float = 20) -> tuple[int, bytes]:
    """POST to the receiver and return status and body, also of an error."""
    given = {"Content-Type": "application/x-protobuf"} | dict(headers or {})
    asked = urllib.request.Request(f"{url}/v1/metrics", data=body, headers=given, method="POST")
    return fetch(asked, timeout=timeout)


def fetch(asked: urllib.request.Request | str, *, timeout: float = 20, context: Any = None) -> tuple[int, bytes]:
    try:
        with urllib.request.urlopen(asked, timeout=timeout, context=context) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


def send_windows(url: str, given: Sequence[WorkerWindow], state: str = "degraded") -> None:
    """Deliver each worker's window with a request of its own, as helpers do."""
    for item in given:
        body = gzip.compress(request(collect(item, state)).SerializeToString())
        status, answer = send(url, body, {"Content-Encoding": "gzip"})
        assert status == 200, answer


def _rows(rows: list[Observation], options: CallbackOptions) -> list[Observation]:
    return rows


def export(points: Sequence[Point], url: str, **options: Any) -> bool:
    """Deliver points once through a real SDK and its OTLP/HTTP exporter."""
    exporter = OTLPMetricExporter(f"{url}/v1/metrics", compression=Compression.Gzip, **options)
    reader = PeriodicExportingMetricReader(exporter, export_interval_millis=3_600_000)
    provider = MeterProvider([reader], Resource({"process.pid": 17}), shutdown_on_exit=False)
    meter = provider.get_meter("test")
    for name in {point.name for point in points}:
        rows = [Observation(point.value, dict(point.labels)) for point in points if point.name == name]
        known = names.BY_NAME[name]
        create = meter.create_observable_counter if known.type == "counter" else meter.create_observable_gauge
        create(known.instrument, [partial(_rows, rows)], known.unit, known.help)
    done = provider.force_flush()
    provider.shutdown()
    return done


def finding(**changes: Any) -> Finding:
    given: dict[str, Any] = {
        "verdict": "culprit", "cause": "python_overhead", "domain": "code", "severity": "critical",
        "confidence": "high", "scope": "worker", "kind": "python", "function": "augment (data.py:42)",
        "function_id": "aaaaaaaaaaaa", "stack": STACK, "ranks": (1,), "hosts": ("host-0",), "roles": ("all",),
        "impact_ratio": 0.4,
        "impact_seconds": 0.067, "expectation_distance": 0.49, "differential_distance": 1.0, "drift_distance": None,
        "persistence": "once", "evidence": ("67 ms per iteration above its peers",), "advice": "Look at augment.",
    }  # fmt: skip
    return Finding(**(given | changes))


def report(**changes: Any) -> Report:
    given: dict[str, Any] = {
        "training_job": "llm-7b", "window_id": WINDOW, "reason": "degraded", "workers_seen": 4, "workers_expected": 4,
        "detail": detail(),
    }  # fmt: skip
    return Report(**(given | changes))


def detail(**changes: Any) -> Detail:
    function = FunctionDetail(
        "aaaaaaaaaaaa", "augment (data.py:42)", "python", (0.02, 0.1, 0.02, 0.03), (0.01,) * 4, 0.025, 0.01, 0.02,
        (("all", "beta", 0.125, 0.025, 0.125), ("all", "mu", 0.5, 0.01, 0.4)),
    )  # fmt: skip
    given: dict[str, Any] = {
        "iteration_seconds": 0.2, "reference_iteration_seconds": 0.16, "window_seconds": 5.0, "iterations": 25,
        "verdict_seconds": 1.0, "ranks": (0, 1, 2, 3), "hosts": ("host-0", "host-0", "host-1", "host-1"),
        "kinds": {"python": (0.02, 0.1, 0.02, 0.03)}, "functions": (function,), "functions_seen": 3,
        "largest_difference": ("augment", 1, 0.4), "ruled_out": (),
    }  # fmt: skip
    return Detail(**(given | changes))


def most_python(
    windows: Sequence[WorkerWindow],
    reference: Sequence[WorkerWindow] = (),
    *,
    expected: int,
    policy: Policy = Policy(),  # noqa: B008 - frozen
    history: Sequence[Report] = (),
    presence: Mapping[int, Presence] = MappingProxyType({}),
) -> Report:
    """Judge by one plain rule: a rank whose Python share is 0.2 above the median of all is a culprit."""
    shares = {item.identity.rank: item.kinds.get("python", 0.0) for item in windows}
    middle = statistics.median(shares.values())
    slow = tuple(rank for rank, share in shares.items() if share > middle + 0.2)
    missing = tuple(rank for rank in range(expected) if rank not in shares)
    victims = (Victims(tuple(rank for rank in shares if rank not in slow), "all_reduce", slow),) if slow else ()
    return report(
        training_job=windows[0].identity.training_job,
        window_id=windows[0].window_id,
        reason=windows[0].reason,
        workers_seen=len(windows),
        workers_expected=expected,
        missing_ranks=missing,
        victims=victims,
        findings=tuple(finding(ranks=(rank,)) for rank in slow),
        notes=(f"{len(reference)} reference workers", f"{len(history)} earlier verdicts"),
    )
