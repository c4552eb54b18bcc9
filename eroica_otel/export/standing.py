"""Status of a worker -> data points that hold outside windows. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from eroica_otel import __version__, names
from eroica_otel.model import GPU_RESOURCES, SCHEMA, STATES, Point
from eroica_otel.procgroups import STANDING, foremost, left_out
from eroica_otel.status import Status

ALWAYS = ("cpu", "nic", "loader")
"""Resources whose absence is told of every worker."""

_Row = tuple[names.Metric, dict[str, str], "float | None"]


def standing_points(
    status: Status,
    *,
    deliveries: Mapping[tuple[str, str], int],
    failures: Mapping[str, int],
    windows: Mapping[str, int],
    dropped: int,
    missing: Mapping[str, str],
    helper_cpu_seconds: float,
    device: Mapping[str, str],
) -> list[Point]:
    """Return the points of a worker apart from those of its latest window.

    Args:
        status: What the trainer says of itself.
        deliveries: Deliveries by (delivery, outcome).
        failures: Failures by stage, trainer's and helper's together.
        windows: Windows by "reason outcome", trainer's and helper's together.
        dropped: Functions cut by the budget so far.
        missing: Resources that could not be sampled.
        helper_cpu_seconds: CPU time of the helper.
        device: gpu_uuid, pci_bus_id and k8s_pod where known.
    """
    rows = (
        *_scalars(status, dropped, helper_cpu_seconds),
        *_info(status, device),
        *_tables(status, deliveries, failures, windows, missing),
    )
    identity = status.identity.labels()
    return [Point(metric.name, identity | labels, value) for metric, labels, value in rows if value is not None]


def _scalars(status: Status, dropped: int, helper_cpu_seconds: float) -> Iterator[_Row]:
    after = status.after[1] if status.after is not None and status.after[0] == status.window_id else None
    for metric, value in (
        (names.ITERATIONS, float(status.iterations)),
        (names.ITERATIONS_IRREGULAR, float(status.irregular)),
        (names.INPUT_WAIT, status.input_seconds),
        (names.ITERATION_BASELINE, status.baseline_seconds),
        (names.DEGRADATION_RATIO, status.ratio),
        (names.ITERATION_LAST, status.last_update_seconds),
        (names.WORLD_SIZE, float(status.identity.world_size)),
        (names.STORE_SILENT, status.store_silent_seconds),
        (names.PATTERN_DROPPED, float(dropped)),
        (names.HELPER_CPU, helper_cpu_seconds),
        (names.GROUPS_LEFT_OUT, float(left_out(len(status.collectives)))),
        (names.WINDOW_AFTER, after),
    ):
        yield metric, {}, value


def _info(status: Status, device: Mapping[str, str]) -> Iterator[_Row]:
    yield names.BUILD_INFO, {"version": __version__, "schema": str(SCHEMA), "component": "worker"}, 1.0
    labels = {
        "local_rank": str(status.identity.local_rank),
        "gpu_uuid": device.get("gpu_uuid", ""),
        "pci_bus_id": device.get("pci_bus_id", ""),
        "nic": status.nic,
        "k8s_pod": device.get("k8s_pod", ""),
        "run_id": status.identity.run_id,
        "restart": str(status.identity.restart),
        "signature": status.signature,
    }
    yield names.WORKER_INFO, labels, 1.0


def _tables(
    status: Status,
    deliveries: Mapping[tuple[str, str], int],
    failures: Mapping[str, int],
    windows: Mapping[str, int],
    missing: Mapping[str, str],
) -> Iterator[_Row]:
    for state in STATES if status.state else ():
        yield names.WORKER_STATE, {"state": state}, float(state == status.state)
    for group, (sequence, _) in foremost({name: (n, None) for name, n in status.collectives.items()}, STANDING).items():
        yield names.COLLECTIVE_SEQUENCE, {"group": group}, float(sequence)
    for group, size, digest in status.groups[:STANDING]:
        yield names.GROUP_INFO, {"group": group, "size": str(size), "ranks_hash": digest}, 1.0
    for (delivery, outcome), count in deliveries.items():
        yield names.DELIVERIES, {"delivery": delivery, "outcome": outcome}, float(count)
    for stage in sorted({"start", *failures}):
        yield names.FAILURES, {"stage": stage}, float(failures.get(stage, 0))
    for key, count in windows.items():
        reason, outcome = key.split(" ")
        yield names.WINDOWS, {"reason": reason, "outcome": outcome}, float(count)
    on_gpu = status.gpu_uuid or not missing.keys() <= set(ALWAYS)
    for resource in (*ALWAYS, *(GPU_RESOURCES if on_gpu else ())):
        yield names.RESOURCE_MISSING, {"resource": resource}, float(resource in missing)
