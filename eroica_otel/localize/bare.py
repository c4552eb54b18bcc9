"""Findings about no unit of work: takes a cause and values, gives a Finding whose other fields are empty."""

from __future__ import annotations

from eroica_otel.localize.causes import Cause
from eroica_otel.localize.chance import Chance
from eroica_otel.localize.compare import median
from eroica_otel.localize.distances import distances
from eroica_otel.localize.excess import judge_unit
from eroica_otel.localize.scene import Scene
from eroica_otel.localize.seconds import Key, totals
from eroica_otel.model import Finding

_BLANK = {
    "kind": "", "function": "", "function_id": "", "stack": (), "ranks": (), "hosts": (), "roles": (),
    "expectation_distance": None, "differential_distance": None, "drift_distance": None, "persistence": "once",
}  # fmt: skip

COMMUNICATION: Key = ("kind", "communication")
SYNC: Key = ("family", "host", "sync")


def finding_of(cause: Cause, **values: object) -> Finding:
    """Return a finding with the cause's domain and advice."""
    merged = {**_BLANK, "cause": cause.name, "domain": cause.domain, "advice": cause.advice, **values}
    return Finding(**merged)  # type: ignore[arg-type]


def largest_in(scene: Scene, unit: Key) -> int | None:
    """Return the function of a unit on which the median rank spends most, None where it has none."""
    functions = scene.columns.groups.get(unit, ())
    return max(functions, key=lambda at: median(totals(scene.columns, _key(scene, at))), default=None)


def named(scene: Scene, largest: int | None) -> dict[str, object]:
    """Return the fields of a finding that name a function, with its distances over all workers."""
    if largest is None:
        return {}
    function = scene.columns.functions[largest]
    apart = distances(scene, largest, judge_unit(Chance(scene), _key(scene, largest)), ())
    return {
        "kind": function.kind, "function": function.name, "function_id": function.id,
        "expectation_distance": apart.expectation, "drift_distance": apart.drift,
    }  # fmt: skip


def _key(scene: Scene, at: int) -> Key:
    function = scene.columns.functions[at]
    return ("function", function.kind, function.family, function.id)
