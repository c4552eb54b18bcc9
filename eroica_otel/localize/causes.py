"""The table of causes: takes Facts about one candidate, gives the first cause whose rule holds; with Signs of it, the
cause that they show.

Rows are data. Facts are of all candidates and cost little; Signs (signs.py) are looked up for what becomes a finding. A
row with neither rule nor sign is decided elsewhere: by stages of a pipeline, and where nothing moves.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from eroica_otel.localize import signs as by
from eroica_otel.localize.policy import Policy
from eroica_otel.localize.signs import Sign, Signs

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
        evidence: What shows it, for docs/method.md.
        advice: What to do, without a final stop.
        rule: Whether the facts show it, None where they cannot.
        sign: Whether the signs show it, None where they cannot.
        worker_wide: True where the cause is of the worker, whatever function shows it, so one finding per worker.
        by_use: True where the measured use of a resource is the evidence, so that it is told.
    """

    name: str
    domain: str
    evidence: str
    advice: str
    rule: Rule | None = None
    sign: Sign | None = None
    worker_wide: bool = False
    by_use: bool = False


def cause_of(facts: Facts, policy: Policy) -> Cause:
    """Return the first row whose rule holds; ``unknown`` holds always."""
    return next(row for row in TABLE if row.rule is not None and row.rule(facts, policy))


def refined(cause: Cause, signs: Signs, policy: Policy) -> Cause:
    """Return the first row whose sign holds, else ``cause``; what facts prove by themselves no sign changes."""
    if cause.name not in REFINABLE:
        return cause
    return next((row for row in TABLE if row.sign is not None and row.sign(signs, policy)), cause)


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


REFINABLE = frozenset(
    {"unknown", "slow_input", "python_blocked", "python_overhead", "cpu_contention", "load_imbalance"}
)
"""Causes that say what is slow, of which signs may show why; the others rest on evidence of their own."""

TABLE: tuple[Cause, ...] = (
    Cause(
        "process_stopped", CODE, "process state T for 5 % of the window, or no stack for 1 s more than on the peers",
        "find what stops the process: a debugger, SIGSTOP, a suspended container or machine",
        _stopped, worker_wide=True,
    ),
    Cause(
        "nic_degraded", HARDWARE, "links of this host carry less than 0.9 of the best two in their best moments",
        "check speed, cable, counters and shaping of this link; drain the node if it stays",
        _link, worker_wide=True,
    ),
    Cause(
        "gc_pause", CODE, "Python, family gc",
        "call gc.freeze() after set-up, and collect at the same iteration on all ranks",
        _gc, worker_wide=True,
    ),
    Cause(
        "cpu_starved", HARDWARE,
        "an operator (or all own work) is longer with no more CPU time, throttled 5 % or without a core 10 % of the "
        "window above the peers, and that explains half; unthrottled and below 20 % only info. Of an input: it is "
        "longer while 90 % of the CPU quota is used and 5 % more of the window throttled",
        "raise this worker's CPU limit or move its neighbours away",
        _starved, by.starved, worker_wide=True,
    ),
    Cause(
        "checkpoint_stall", CODE,
        "a frame that saves is on the stack of a function that takes longer; or stage 5 of a standstill",
        "save asynchronously or to faster storage",
        sign=by.saves, worker_wide=True,
    ),
    Cause(
        "recompilation", CODE, "a frame of the compiler is on the stack, or host calls that record CUDA graphs",
        "mark the changing dimensions dynamic or pad them, and keep the cache of compiled code on all nodes",
        sign=by.compiles, worker_wide=True,
    ),
    Cause(
        "allocator_churn", CODE, "host calls that allocate or free device memory: none are needed once shapes repeat",
        "keep tensor shapes constant or set the allocator to expandable segments",
        sign=by.allocates, worker_wide=True,
    ),
    Cause(
        "host_sync", CODE, "host calls that wait for the device, on all ranks, while it does nothing",
        "remove the call that waits for the GPU: item(), print, a blocking copy",
        sign=by.synchronises,
    ),
    Cause(
        "gpu_power_capped", HARDWARE,
        "as gpu_throttled, while its power limit holds the clock, twice as long as on the peers, and no heat does",
        "compare the power limits of the GPUs and set them alike",
        sign=by.capped, worker_wide=True, by_use=True,
    ),
    Cause(
        "gpu_throttled", HARDWARE,
        "kernels take longer, the clock of the SMs is lower by 0.05 of its highest, and that explains half; where the "
        "reasons are known, heat or the power supply hold it for 10 % of the window",
        "check temperature, cooling and power of the GPU, and replace it if it stays",
        sign=by.clock_low, worker_wide=True, by_use=True,
    ),
    Cause(
        "gpu_memory_slow", HARDWARE,
        "copies inside the device move as many bytes at a rate of its memory that is lower by 0.05 and explains half",
        "check the GPU's memory errors and clocks, and replace it if it stays",
        sign=by.memory_slow, worker_wide=True, by_use=True,
    ),
    Cause(
        "pcie_degraded", HARDWARE,
        "copies over PCIe move as many bytes at a rate that is lower by 0.05 and explains half; or as nvlink_degraded, "
        "over PCIe",
        "check the PCIe width and generation of this GPU or NIC",
        sign=by.pcie_slow, worker_wide=True, by_use=True,
    ),
    Cause(
        "memory_pressure", HARDWARE,
        "work of a core outside the input, that the others do too, is longer and mostly off the CPU, with 10 major "
        "page faults a second and twice what the others have",
        "give the worker more memory or find what grows",
        sign=by.waits_for_memory, worker_wide=True,
    ),
    Cause(
        "numa_misplaced", HARDWARE,
        "work of a core that the others do too takes more CPU time, and the process is on another NUMA node for 10 % "
        "of the time and twice what the others are",
        "bind the process to the NUMA node of its GPU and NIC",
        sign=by.misplaced, worker_wide=True,
    ),
    Cause(
        "storage_slow", HARDWARE,
        "an input off the CPU, in a frame that reads files or a store, or while its process reads 50 MB/s from disks "
        "(or 10 major page faults a second) and twice what the others do",
        "check the file system that this rank reads from",
        sign=by.reads_slowly,
    ),
    Cause(
        "slow_input", DATA,
        "Python inside an input call, or in a process of the DataLoader that the training waits for; on or off the CPU",
        "check where the data is read from, and make this function faster or prepare its result before the training",
        _input,
    ),
    Cause(
        "load_imbalance", DATA,
        "CPU seconds of compute above the peers by 5 % of the iteration; on a GPU, kernels bound by the SMs at the "
        "same clock as on the peers",
        "give all ranks equal work: check batch size, sequence lengths and sampler",
        _imbalance, by.more_work, worker_wide=True, by_use=True,
    ),
    Cause(
        "cpu_contention", HARDWARE,
        "an operator that uses the CPU is longer with no more CPU time and no proof; stage 7; or on all ranks while "
        "their processes keep 90 % of their cores busy and twice what they did before",
        "see what else runs on the machine; more workers or threads than cores slow each other",
        _contention, by.crowded, worker_wide=True,
    ),
    Cause(
        "python_overhead", CODE, "other Python, 25 % of the excess or more on the CPU",
        "move the work into DataLoader workers or off the training thread", _overhead,
    ),
    Cause(
        "python_blocked", CODE, "other Python, less than 25 % of the excess on the CPU",
        "take the blocking call (network, file, lock) out of the training thread", _blocked,
    ),
    Cause(
        "link_flapping", HARDWARE, "communication grew, and the link of these ranks went down in the window",
        "replace the cable or transceiver of this port",
        sign=by.flaps, worker_wide=True,
    ),
    Cause(
        "nvlink_degraded", HARDWARE,
        "the fastest call of a process group takes 1.4 x what that of others with as many ranks, hosts and bytes does, "
        "at a rate of NVLink that is lower by 0.05 and explains half",
        "check NVLink error counters and link states of these GPUs",
        sign=by.nvlink_slow, by_use=True,
    ),
    Cause(
        "network_congestion", HARDWARE,
        "all links to other nodes carry less than in the reference, at most 0.9 in their best moments, and unsteadily",
        "check the switches between the nodes and the routing of this job",
        sign=by.congested, by_use=True,
    ),
    Cause(
        "collective_inefficient", CODE,
        "the links of all ranks carry as much as before at a lower, steady rate; or as nvlink_degraded, over the "
        "network",
        "check message sizes, algorithm and channels of this collective",
        sign=by.inefficient, by_use=True,
    ),
    Cause(
        "pipeline_imbalance", CODE, "exactly the ranks of one stage of a pipeline compute for longer, all alike",
        "move layers from the slow stage to the others", worker_wide=True,
    ),
    Cause(
        "unknown", CODE, "none of the others",
        "look at the function: the evidence does not settle why it takes longer", _always,
    ),
    Cause(
        "hang_missing_rank", CODE, "stages 2, 6, 9 and 10 of a standstill",
        "compare its code path with the others': which branch leaves a collective out",
    ),
    Cause(
        "hang_in_python", CODE, "stages 6, 7, 8 and 11 of a standstill",
        "look at the function and what it calls: this rank does not leave it",
    ),
)  # fmt: skip
"""In the order in which rules are tried, and signs; every cause of names.CAUSES has one row."""

BY_NAME = {row.name: row for row in TABLE}
