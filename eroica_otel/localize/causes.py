"""The table of causes: takes Facts about one candidate, gives the first cause whose rule holds.

Rows are data. A row without a rule is known to the contract but cannot be shown by the evidence that reaches the
localizer now.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from eroica_otel.localize.policy import Policy

HARDWARE, CODE, DATA = "hardware", "code", "data"
NAN = math.nan


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known about one candidate; times in seconds per iteration, NaN unknown.

    Attributes:
        kind: Kind of the unit, "" for all own work.
        family: Family of the unit, "" for several.
        iteration: Length of an iteration.
        excess: Above the peers (or the reference when ``everyone``), time without a core taken off for Python.
        on_excess: CPU time of that.
        thread_excess: CPU time of the whole training thread above the peers (or the reference).
        peer_use: Use of the CPU by the peers in this unit, 0 to 1.
        delay_excess: Time without a core above the peers (or the reference).
        throttle_excess: Share of the window throttled above the peers.
        everyone: True where all workers changed alike, so that the reference is what it is compared with.
        stopped: True where the process did not run.
        link: True where links are compared.
    """

    kind: str = ""
    family: str = ""
    iteration: float = NAN
    excess: float = NAN
    on_excess: float = NAN
    thread_excess: float = NAN
    peer_use: float = NAN
    delay_excess: float = 0.0
    throttle_excess: float = 0.0
    everyone: bool = False
    stopped: bool = False
    link: bool = False


Rule = Callable[[Facts, Policy], bool]


@dataclass(frozen=True, slots=True)
class Cause:
    """One row.

    Attributes:
        advice: What to do, without a final stop.
        rule: Whether the facts show it; None = not yet reachable.
        worker_wide: True where the cause is of the worker, whatever function shows it, so one finding per worker.
    """

    name: str
    domain: str
    advice: str
    rule: Rule | None = None
    worker_wide: bool = False


def cause_of(facts: Facts, policy: Policy) -> Cause:
    """Return the first row whose rule holds; ``unknown`` holds always."""
    return next(row for row in TABLE if row.rule is not None and row.rule(facts, policy))


def on_cpu_share(facts: Facts) -> float:
    """Return which share of the excess was CPU time, from the thread's CPU time where the function's is unknown; NaN
    unknown.
    """
    on = facts.on_excess if math.isfinite(facts.on_excess) else facts.thread_excess
    return min(max(on / facts.excess, 0.0), 1.0) if facts.excess > 0 else NAN


def _operator(facts: Facts) -> bool:
    return facts.kind in ("compute", "memory", "host")


def _plain_python(facts: Facts) -> bool:
    return facts.kind == "python" and facts.family not in ("gc", "input", "loader", "wait")


def _busy(facts: Facts, policy: Policy) -> bool:
    return facts.on_excess >= max(policy.material_ratio * facts.iteration, policy.material_least_seconds)


def _lacks_core(facts: Facts, policy: Policy) -> bool:
    throttled = facts.throttle_excess >= policy.throttle_ratio
    delayed = facts.delay_excess >= policy.run_delay_ratio * facts.iteration
    return (throttled or delayed) and facts.delay_excess >= policy.explains_ratio * facts.excess


def _stopped(facts: Facts, _: Policy) -> bool:
    return facts.stopped


def _link(facts: Facts, _: Policy) -> bool:
    return facts.link


def _gc(facts: Facts, _: Policy) -> bool:
    return facts.kind == "python" and facts.family == "gc"


def _starved(facts: Facts, policy: Policy) -> bool:
    inside = facts.kind == "" or (_operator(facts) and math.isfinite(facts.on_excess))
    return inside and not facts.everyone and not _busy(facts, policy) and _lacks_core(facts, policy)


def _input(facts: Facts, _: Policy) -> bool:
    return facts.kind == "python" and facts.family in ("input", "loader")


def _imbalance(facts: Facts, policy: Policy) -> bool:
    return facts.kind == "compute" and not facts.everyone and _busy(facts, policy)


def _contention(facts: Facts, policy: Policy) -> bool:
    if facts.everyone:
        return facts.kind == "" and facts.delay_excess >= policy.material_ratio * facts.iteration
    uses_cpu = facts.peer_use >= policy.idle_use_ratio
    late = math.isfinite(facts.on_excess) and facts.delay_excess >= policy.explains_ratio * facts.excess
    return _operator(facts) and (uses_cpu or late) and not _busy(facts, policy)


def _overhead(facts: Facts, policy: Policy) -> bool:
    return _plain_python(facts) and on_cpu_share(facts) >= policy.on_cpu_ratio


def _blocked(facts: Facts, policy: Policy) -> bool:
    return _plain_python(facts) and on_cpu_share(facts) < policy.on_cpu_ratio


def _always(_: Facts, __: Policy) -> bool:
    return True


TABLE: tuple[Cause, ...] = (
    Cause(
        "process_stopped", CODE, "find what stops the process: a debugger, SIGSTOP, a suspended container or machine",
        _stopped, worker_wide=True,
    ),
    Cause(
        "nic_degraded", HARDWARE, "check speed, cable, counters and shaping of this link; drain the node if it stays",
        _link, worker_wide=True,
    ),
    Cause(
        "gc_pause", CODE, "call gc.freeze() after set-up, and collect at the same iteration on all ranks",
        _gc, worker_wide=True,
    ),
    Cause(
        "cpu_starved", HARDWARE, "raise this worker's CPU limit or move its neighbours away",
        _starved, worker_wide=True,
    ),
    Cause(
        "slow_input", DATA,
        "check where the data is read from, and make this function faster or prepare its result before the training",
        _input,
    ),
    Cause(
        "load_imbalance", DATA, "give all ranks equal work: check batch size, sequence lengths and sampler",
        _imbalance, worker_wide=True,
    ),
    Cause(
        "cpu_contention", HARDWARE, "see what else runs on the machine; more workers than cores slow each other",
        _contention, worker_wide=True,
    ),
    Cause("python_overhead", CODE, "move the work into DataLoader workers or off the training thread", _overhead),
    Cause("python_blocked", CODE, "take the blocking call (network, file, lock) out of the training thread", _blocked),
    Cause("unknown", CODE, "look at the function: the evidence does not settle why it takes longer", _always),
    Cause("gpu_throttled", HARDWARE, "check temperature, cooling and power of the GPU, and replace it if it stays"),
    Cause("gpu_power_capped", HARDWARE, "compare the power limits of the GPUs and set them alike"),
    Cause("gpu_memory_slow", HARDWARE, "check the GPU's memory errors and clocks, and replace it if it stays"),
    Cause("nvlink_degraded", HARDWARE, "check NVLink error counters and link states of this GPU"),
    Cause("pcie_degraded", HARDWARE, "check the PCIe width and generation of this GPU or NIC"),
    Cause("link_flapping", HARDWARE, "replace the cable or transceiver of this port"),
    Cause("network_congestion", HARDWARE, "check the switches between the nodes and the routing of this job"),
    Cause("collective_inefficient", CODE, "check message sizes, algorithm and channels of this collective"),
    Cause("storage_slow", HARDWARE, "check the file system that this rank reads from"),
    Cause("numa_misplaced", HARDWARE, "bind the process to the NUMA node of its GPU and NIC"),
    Cause("memory_pressure", HARDWARE, "give the worker more memory or find what grows"),
    Cause("host_sync", CODE, "remove the call that waits for the GPU: item(), print, a blocking copy"),
    Cause("allocator_churn", CODE, "keep tensor shapes constant or set the allocator to expandable segments"),
    Cause("pipeline_imbalance", CODE, "move layers from the slow stage to the others"),
    Cause("checkpoint_stall", CODE, "save asynchronously or to faster storage"),
    Cause("recompilation", CODE, "mark the changing dimensions dynamic or pad them"),
    Cause("hang_missing_rank", CODE, "compare its code path with the others': which branch leaves a collective out"),
    Cause("hang_in_python", CODE, "look at the function and what it calls: this rank does not leave it"),
)  # fmt: skip
"""In the order in which rules are tried; every cause of names.CAUSES has one row."""

BY_NAME = {row.name: row for row in TABLE}
