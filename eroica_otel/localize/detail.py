"""Facts beside the verdict, for people: takes a scene and findings, gives model.Detail. Nothing is decided on them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from eroica_otel.localize.columns import Floats, Function, Ints
from eroica_otel.localize.compare import by_group, median, peers_median
from eroica_otel.localize.distances import pattern_of, tolerances
from eroica_otel.localize.network import Network
from eroica_otel.localize.scene import Scene, to_workers
from eroica_otel.localize.seconds import Key, measure, totals
from eroica_otel.localize.wording import duration, percent
from eroica_otel.model import KINDS, Detail, Finding, FunctionDetail
from eroica_otel.table import Workers

_COMPONENTS = ("beta", "mu", "sigma")
PICTURES = 12
WORKERS = 4096
"""Workers of which pictures are drawn; all count in what is beside them."""
"""Functions shown over all ranks."""
_COMPARED = 200
"""Functions among which the largest difference is looked for: what is below them is no share of an iteration."""


def detail_of(scene: Scene, findings: Sequence[Finding], network: Network) -> Detail:
    """Return the facts of one window with at least one worker."""
    columns = scene.columns
    workers = columns.workers
    largest, difference = _by_size(scene)
    named = [at for f in findings for at, function in enumerate(columns.functions) if function.id == f.function_id]
    shown = list(dict.fromkeys([*named, *largest]))[:PICTURES]
    pictured = _pictured(scene, findings)
    return Detail(
        iteration_seconds=scene.iteration,
        reference_iteration_seconds=scene.reference_iteration,
        window_seconds=float(np.median(workers.seconds)),
        iterations=int(np.median(workers.iterations)),
        verdict_seconds=math.nan,
        ranks=columns.named(pictured),
        hosts=tuple(workers.host.at(pictured)),
        kinds=_kinds(scene, pictured),
        functions=tuple(_function(scene, at, pictured) for at in shown),
        functions_seen=len(columns.functions),
        largest_difference=difference,
        ruled_out=_ruled_out(scene, findings, network),
    )


def _pictured(scene: Scene, findings: Sequence[Finding]) -> Ints:
    """Return who is drawn: everybody, or of many workers those that are named and others at equal distances."""
    if scene.size <= WORKERS:
        return np.arange(scene.size)
    named = np.isin(scene.columns.ranks, [rank for finding in findings for rank in finding.ranks])
    spread = np.linspace(0, scene.size - 1, WORKERS // 2).astype(np.int64)
    return np.union1d(spread, np.flatnonzero(named)[: WORKERS // 2])


def _key(function: Function) -> Key:
    return ("function", function.kind, function.family, function.id)


def _by_size(scene: Scene) -> tuple[list[int], tuple[str, int, float]]:
    """Functions by median time, largest first, and what is furthest above its peers."""
    sizes: list[tuple[float, int]] = []
    furthest = ("", -1, 0.0)
    for at in np.argsort(-scene.columns.largest, kind="stable")[:_COMPARED].tolist():
        function = scene.columns.functions[at]
        total = totals(scene.columns, _key(function))
        sizes.append((-median(total), at))
        above = np.nan_to_num(total - by_group(total, scene.groups, peers_median), nan=0.0)
        worker = int(np.argmax(above))
        share = float(above[worker]) / scene.iteration
        if share > furthest[2]:
            furthest = (function.name, int(scene.columns.ranks[worker]), share)
    return [at for _, at in sorted(sizes)], furthest


def _kinds(scene: Scene, pictured: Ints) -> dict[str, tuple[float, ...]]:
    """Seconds per iteration by kind and idle, NaN where a worker did not report one."""
    result = {}
    for kind in (*KINDS, "idle"):
        shares = scene.columns.workers.kinds.get(kind)
        if shares is not None and np.isfinite(shares).any():
            result[kind] = _floats((shares * scene.columns.iteration).astype(np.float32)[pictured])
    return result


def _floats(values: Floats) -> tuple[float, ...]:
    return tuple(values.tolist())


def _function(scene: Scene, at: int, pictured: Ints) -> FunctionDetail:
    function = scene.columns.functions[at]
    seconds = measure(scene.columns, _key(function))
    reference = math.nan
    if scene.reference is not None:
        before = measure(scene.reference, _key(function))
        reference = median(to_workers(before.total, scene.position, scene.groups)) if before.present.any() else math.nan
    pattern = pattern_of(scene.columns, at)
    beta = tolerances(pattern, scene.policy)[0]
    return FunctionDetail(
        function_id=function.id, function=function.name, kind=function.kind,
        seconds=_floats(np.where(seconds.present, seconds.total, np.nan).astype(np.float32)[pictured]),
        cpu_seconds=_floats(np.where(seconds.present, seconds.on, np.nan).astype(np.float32)[pictured]),
        median=median(seconds.total), tolerance=float(beta) * scene.iteration, reference=reference,
        peers=_levels(scene, pattern, _before(scene, function)),
        mu=_floats(pattern[pictured, 1]), sigma=_floats(pattern[pictured, 2]),
    )  # fmt: skip


def _before(scene: Scene, function: Function) -> Floats:
    """Return (beta, mu, sigma) in the reference in the order of the workers, NaN where it is not known, [W, 3]."""
    result = np.full((len(scene.roles), len(_COMPONENTS)), np.nan, np.float32)
    known = () if scene.reference is None else scene.reference.groups.get(_key(function), ())
    if scene.reference is not None and known:
        pattern = pattern_of(scene.reference, known[0])
        for component in range(result.shape[1]):
            result[:, component] = to_workers(pattern[:, component], scene.position, scene.groups)
    return result


def _levels(scene: Scene, now: Floats, before: Floats) -> tuple[tuple[str, str, float, float, float], ...]:
    """Return median, MAD and reference of each component in each peer role, [W, 3] twice; unknown components left
    out.
    """
    levels = []
    for group in scene.groups:
        for at, component in enumerate(_COMPONENTS):
            values = now[group, at]
            middle = median(values)
            if math.isfinite(middle):
                away = median(np.abs(values - np.float32(middle)))
                role = scene.roles[int(group[0])]
                levels.append((role, component, middle, away, median(before[group, at])))
    return tuple(levels)


def _ruled_out(scene: Scene, findings: Sequence[Finding], network: Network) -> tuple[str, ...]:
    causes = {finding.cause for finding in findings}
    texts: list[str] = []
    if network.edges and "nic_degraded" not in causes:
        texts.append(f"network (link rates at {percent(network.lowest)} to 100 % of the best)")
    if not causes & {"cpu_starved", "cpu_contention"}:
        texts += _cores(scene)
    if "slow_input" not in causes:
        texts += _most(scene, ("input", "loader"), "input")
    if "gc_pause" not in causes and _sampled(scene.columns.workers):
        texts += _most(scene, ("gc",), "garbage collection")
    if "process_stopped" not in causes:
        texts += _gaps(scene.columns.workers)
    return tuple(texts)


def _cores(scene: Scene) -> list[str]:
    parts = [
        f"{what} {percent(float(np.nanmax(column)))}"
        for what, column in (("throttled", scene.columns.throttle), ("without a core", scene.columns.delay))
        if np.isfinite(column).any()
    ]
    return [f"CPU limits ({', '.join(parts)} at most)"] if parts else []


def _most(scene: Scene, families: Sequence[str], what: str) -> list[str]:
    if not any(function.kind == "python" for function in scene.columns.functions):
        return []
    total = np.sum([totals(scene.columns, ("family", "python", family)) for family in families], axis=0)
    return [f"{what} (at most {duration(float(total.max()))} an iteration)"]


def _sampled(workers: Workers) -> bool:
    """Whether a sampler of ours ran: it sees collections, which a trace from elsewhere does not tell of."""
    return not np.isnan(workers.sampler_gap_seconds).all()


def _gaps(workers: Workers) -> list[str]:
    gaps = workers.sampler_gap_seconds[np.isfinite(workers.sampler_gap_seconds)]
    return [f"stopped processes (longest silence {duration(float(gaps.max()))})"] if gaps.size else []
