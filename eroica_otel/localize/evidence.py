"""A case and its function -> Signs: what resources, hosts and stacks show of it, and the case with the cause that fits.

Looked up once per case, so its cost does not grow with workers that are no culprits.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from eroica_otel.kinds import is_own, is_storage, pause_of
from eroica_otel.localize.causes import Cause, refined
from eroica_otel.localize.columns import Columns, Floats, Function
from eroica_otel.localize.compare import median
from eroica_otel.localize.distances import pattern_before, pattern_of
from eroica_otel.localize.hostwords import reading, unusual
from eroica_otel.localize.scene import Scene
from eroica_otel.localize.signs import Signs
from eroica_otel.localize.stages import Case
from eroica_otel.localize.stands import frame_of
from eroica_otel.localize.wording import others_of, percent

_RESOURCES: Mapping[str, str] = {
    "sm_clock": "the clock of the SMs is at {} of its highest while it runs",
    "dram": "it uses {} of the rate of the GPU's memory",
    "pcie": "it uses {} of the rate of PCIe",
    "nvlink": "it uses {} of the rate of NVLink",
    "nic": "it uses {} of the rate of the network link",
}
"""Of the CPU the first sentence of a finding says it already."""


class _Use(NamedTuple):
    resource: str
    mine: Floats
    theirs: Floats


def with_signs(scene: Scene, case: Case, function: int) -> tuple[Case, tuple[str, ...]]:
    """Return the case with the cause that its evidence shows, and sentences about that evidence.

    Args:
        function: Index of the function that stands for the case.
    """
    signs = signs_of(scene, case, function)
    cause = refined(case.cause, signs, scene.policy)
    return replace(case, cause=cause), said(signs, cause)


def signs_of(scene: Scene, case: Case, function: int) -> Signs:
    """Return what shows of a case."""
    unit, at = case.judgement, list(case.workers)
    if at:
        rest = others_of(scene, at)
        others, on = median(unit.now.total[rest]), median(unit.now.on[at]) - median(unit.now.on[rest])
        thread = median(scene.thread_excess[at])
    else:
        others, on, thread = median(unit.reference), median(unit.on_drift), median(scene.thread_growth)
    on = on if math.isfinite(on) else thread
    bare = function_signs(scene, function, case.workers)
    return replace(
        bare,
        kind=unit.kind,
        family=unit.family or _family(unit.key[0], bare),
        excess=case.excess,
        others=others,
        on_share=min(max(on / case.excess, 0.0), 1.0) if case.excess > 0 else math.nan,
    )


def _family(level: str, bare: Signs) -> str:
    """A sum over families is of none, unless one of them stands for it: what slows all kernels shows in each."""
    return bare.family if level == "kind" and bare.kind == "compute" else ""


def function_signs(scene: Scene, function: int, workers: Sequence[int] = ()) -> Signs:
    """Return what one function shows at these workers, or at all of them beside the reference."""
    this = scene.columns.functions[function]
    use = _use(scene, function, workers)
    frames = [frame_of(frame) for frame in this.stack]
    pause = pause_of(frames)
    return Signs(
        kind=this.kind,
        family=this.family,
        everyone=not workers,
        resource=use.resource,
        use=median(use.mine[:, 1]),
        use_others=median(use.theirs[:, 1]),
        unsteady=median(use.mine[:, 2]),
        unsteady_others=median(use.theirs[:, 2]),
        throttled=_throttled(scene, workers),
        slowdown=reading(scene, workers, "gpu_slowdown"),
        pause="" if pause is None or is_own(pause[1]) else pause[0],
        storage=bool(frames) and is_storage(frames[-1]),
        host=unusual(scene, workers),
        **_peaks(scene, this, workers),
    )


def _peaks(scene: Scene, function: Function, workers: Sequence[int]) -> dict[str, float]:
    """Return the links' 90th percentiles on all workers and in the reference; {} where it is no communication."""
    if function.kind != "communication" or workers:
        return {}
    return {"peak": _peak(scene.columns), "peak_others": _peak(scene.reference)}


def _peak(columns: Columns | None) -> float:
    """Return the median over the workers of the larger of their links' rates, NaN unknown."""
    rates = [] if columns is None else list(columns.workers.peaks.values())
    if not rates:
        return math.nan
    return median(np.fmax.reduce(rates).astype(np.float32))


def _use(scene: Scene, function: int, workers: Sequence[int]) -> _Use:
    """Return beta, mu and sigma here and on the others; the resource is "" where they measured another one."""
    now, this = pattern_of(scene.columns, function), scene.columns.functions[function]
    if workers:
        return _Use(this.resource, now[list(workers)], now[others_of(scene, workers)])
    before = pattern_before(scene, function)
    if before is None or scene.reference is None:
        return _Use(this.resource, now, np.full((0, 3), np.nan, np.float32))
    (then,) = scene.reference.groups["function", this.kind, this.family, this.id]
    same = scene.reference.functions[then].resource == this.resource
    return _Use(this.resource if same else "", now, before)


def _throttled(scene: Scene, workers: Sequence[int]) -> float:
    if workers:
        return median(scene.throttle_excess[list(workers)])
    before = 0.0 if scene.reference is None else np.nan_to_num(median(scene.reference.throttle))
    return median(scene.columns.throttle) - float(before)


def said(signs: Signs, cause: Cause) -> tuple[str, ...]:
    """Return sentences about what was measured of the resource, for causes that rest on it and where none is known."""
    text = _RESOURCES.get(signs.resource)
    if text is None or not (cause.by_use or cause.name == "unknown") or not math.isfinite(signs.use):
        return ()
    others = "in the reference window" if signs.everyone else "on its peers"
    known = f", {percent(signs.use_others)} {others}" if math.isfinite(signs.use_others) else ""
    return (f"{text.format(percent(signs.use))}{known}",)
