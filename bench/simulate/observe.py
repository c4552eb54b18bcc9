"""Times -> what the workers would report: patterns with shares, use of resources and noise, rates of links."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence

import numpy as np

from bench.simulate.faults import Fault
from bench.simulate.jobs import Shape
from bench.simulate.operations import Floats, Function
from bench.simulate.run import Times
from eroica_otel.model import KINDS, Identity, Pattern, WorkerWindow
from eroica_otel.table import Function as Column
from eroica_otel.table import Table, Words, Workers

PARTS = 8
"""Sub-windows of the noise, as in eroica_otel/summarize/noise.py."""
JOB = "simulated"


def windows_of(
    times: Times, shape: Shape, faults: Collection[Fault] = (), *, window_id: int = 2, reason: str = "degraded",
    missing: Collection[int] = (),
) -> list[WorkerWindow]:  # fmt: skip
    """Return one window per rank that is not missing; ``faults`` tell what the hardware shows of them."""
    iterations, _, size = times.charged.shape
    total = times.length.sum(axis=0)
    beta = times.charged.sum(axis=0) / total
    noise = _noise(times.charged if reason == "reference" else times.charged[:0])
    late, peaks = _late(faults, size), _rates(faults, shape)
    roles, hosts = shape.roles(), shape.hosts()
    delay = late * iterations / total
    return [
        WorkerWindow(
            identity=Identity(JOB, rank, hosts[rank], role=roles[rank], world_size=size, local_rank=rank % shape.node),
            window_id=window_id, reason=reason, seconds=float(total[rank]), iterations=iterations,
            patterns=_patterns(times.functions, beta[:, rank], noise[:, rank], float(delay[rank]), peaks[rank]),
            kinds=_kinds(times.functions, beta[:, rank]), signature="loop",
            throttled_ratio=float(delay[rank]), run_delay_ratio=0.0, sampler_gap_seconds=0.005,
        )
        for rank in range(size) if rank not in missing
    ]  # fmt: skip


def table_of_times(
    times: Times, roles: Sequence[str], *, window_id: int = 2, reason: str = "degraded", missing: Collection[int] = ()
) -> Table:
    """Return the same as columns, for many workers: without hosts, rates of links and time without a core."""
    rank = np.setdiff1d(np.arange(times.length.shape[1]), np.array(sorted(missing), np.int64))
    total = times.length.sum(axis=0)[rank]
    beta = times.charged.sum(axis=0)[:, rank] / total
    noise = _noise(times.charged if reason == "reference" else times.charged[:0])[:, rank]
    functions = [
        Column(function_id(one), one.name, one.kind, one.family, _stack(one), one.resource) for one in times.functions
    ]
    use = np.array([one.use for one in times.functions], np.float32)
    return Table(
        Workers.of(
            rank, training_job=Words.same(JOB, rank.size), role=Words.of(roles[at] for at in rank.tolist()),
            host=Words.of(f"node-{at // 8:04d}" for at in rank.tolist()), reason=Words.same(reason, rank.size),
            signature=Words.same("loop", rank.size), world_size=np.full(rank.size, len(roles)),
            window_id=np.full(rank.size, window_id), seconds=total,
            iterations=np.full(rank.size, times.length.shape[0]), throttled_ratio=np.zeros(rank.size),
            run_delay_ratio=np.zeros(rank.size), sampler_gap_seconds=np.full(rank.size, 0.005),
        ),
        tuple(functions), worker=np.tile(np.arange(rank.size, dtype=np.int32), len(functions)),
        function=np.repeat(np.arange(len(functions), dtype=np.int32), rank.size),
        beta=beta.reshape(-1).astype(np.float32), mu=np.repeat(use, rank.size),
        sigma=np.full(beta.size, 0.1, np.float32), noise=noise.reshape(-1).astype(np.float32),
    )  # fmt: skip


def _stack(function: Function) -> tuple[str, ...]:
    return (f"train:{function.name}:1",) if function.kind == "python" else ()


def _noise(charged: Floats) -> Floats:
    """Standard deviation over PARTS sub-windows of seconds per iteration, [functions, W]; NaN from too few iterations.
    Only reference windows carry it.
    """
    if charged.shape[0] < 2 * PARTS:
        return np.full(charged.shape[1:], np.nan)
    cuts = np.rint(np.linspace(0, charged.shape[0], PARTS + 1)).astype(np.int64)
    parts = np.add.reduceat(charged, cuts[:-1], axis=0) / np.diff(cuts)[:, None, None]
    return np.asarray(parts.std(axis=0, ddof=1), np.float64)


def _late(faults: Collection[Fault], size: int) -> Floats:
    """Seconds per iteration in which a rank lacks a core."""
    result = np.zeros(size)
    for fault in faults:
        if fault.kind == "cpu":
            result[list(fault.ranks)] += fault.seconds
    return result


def _rates(faults: Collection[Fault], shape: Shape) -> list[dict[str, float]]:
    """90th percentiles of each host's link, both ways: in the ring of hosts an edge is as slow as its slower end."""
    hosts = np.arange(shape.size) // shape.node
    speed = np.full(hosts[-1] + 1, 0.95)
    for fault in faults:
        if fault.kind == "link":
            speed[hosts[list(fault.ranks)]] /= fault.seconds
    if speed.size < 2:
        return [{} for _ in hosts]
    edge = np.minimum(speed, np.roll(speed, -1))  # from a host to the next
    return [{"nic_tx": float(edge[at]), "nic_rx": float(edge[at - 1])} for at in hosts]


def _patterns(
    functions: tuple[Function, ...], beta: Floats, noise: Floats, delay: float, peaks: dict[str, float]
) -> tuple[Pattern, ...]:
    made = [
        Pattern(
            function_id=function_id(function), function=function.name, kind=function.kind, family=function.family,
            resource=function.resource, beta=float(min(share, 1.0)), mu=_use(function, functions, beta, delay),
            sigma=0.1, noise_seconds=float(sd) if sd == sd else None,
            peaks=peaks if function.resource == "nic" else {},
            stack=_stack(function),
        )
        for function, share, sd in zip(functions, beta, noise, strict=True) if share > 0
    ]  # fmt: skip
    return tuple(sorted(made, key=lambda pattern: -pattern.beta))


def _use(function: Function, functions: tuple[Function, ...], beta: Floats, delay: float) -> float:
    """Use of the resource; without a core nothing is on the CPU."""
    if function.resource != "cpu" or not delay > 0:
        return function.use
    total = float(sum(share for one, share in zip(functions, beta, strict=True) if one.resource == "cpu"))
    return function.use * max(total - delay, 0.0) / total


def _kinds(functions: tuple[Function, ...], beta: Floats) -> dict[str, float]:
    shares = {
        kind: float(sum(share for function, share in zip(functions, beta, strict=True) if function.kind == kind))
        for kind in KINDS
    }
    return shares | {"idle": max(1 - sum(shares.values()), 0.0)}


def function_id(function: Function) -> str:
    """Return the 12 digits of a function."""
    return hashlib.blake2b(f"{function.kind} {function.name}".encode(), digest_size=6).hexdigest()
