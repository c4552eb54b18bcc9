"""What the use of resources, host readings and stacks say of one case: takes Signs, gives whether a cause shows.

Each rule asks for evidence of its own cause; that nothing else is known is none. What a device or link is slower by is
told from more work by one argument: the same work at a lower rate takes longer by the ratio of the rates.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from eroica_otel.localize.policy import Policy

NAN = math.nan

SM_BOUND = ("gemm", "attention", "convolution")
"""Families of kernels whose time follows the clock of the SMs and the number of operations, hardly the memory."""


@dataclass(frozen=True, slots=True)
class Signs:
    """One case; "the others" are the peers, or the reference where all workers changed alike. NaN unknown.

    Attributes:
        kind, family: Of the unit, "" for all own work, "" for several families.
        everyone: True where all workers changed alike.
        excess: Seconds per iteration above the others.
        others: Seconds per iteration of the others.
        on_share: Share of the excess that was CPU time, 0 to 1.
        resource: What ``use`` is of, "" where nothing was measured or the others measured another resource.
        use, use_others: Mean use of it while critical, 0 to 1 (mu of the pattern).
        unsteady, unsteady_others: Standard deviation of the same (sigma).
        peak, peak_others: 90th percentile of the link's rate, 0 to 1, communication only.
        throttled: Share of the window throttled above the others.
        slowdown: Share of the window in which heat or the power supply held the GPU's clock down here.
        pause: Family of the intended pause on the function's stack, "" without.
        storage: Whether the innermost frame reads from a file or a store.
        host: Readings of the hosts that are out of the ordinary and not so on the others, by model.HOST_RATIOS and
            HOST_RATES.
    """

    kind: str = ""
    family: str = ""
    everyone: bool = False
    excess: float = NAN
    others: float = NAN
    on_share: float = NAN
    resource: str = ""
    use: float = NAN
    use_others: float = NAN
    unsteady: float = NAN
    unsteady_others: float = NAN
    peak: float = NAN
    peak_others: float = NAN
    throttled: float = NAN
    slowdown: float = NAN
    pause: str = ""
    storage: bool = False
    host: Mapping[str, float] = field(default_factory=dict)


Sign = Callable[[Signs, Policy], bool]


def explained(signs: Signs) -> float:
    """Return which share of the excess the same work takes longer at the lower rate, NaN unknown."""
    if not (signs.use > 0 and signs.excess > 0):
        return math.inf if signs.use == 0 and signs.use_others > 0 else NAN
    return signs.others * (signs.use_others / signs.use - 1) / signs.excess


def _slower(signs: Signs, policy: Policy, *resources: str) -> bool:
    lower = signs.use_others - signs.use >= policy.floor_mu
    return signs.resource in resources and lower and explained(signs) >= policy.explains_ratio


def _same_bytes(signs: Signs, policy: Policy) -> bool:
    """A link that carries fewer bytes at a lower rate has less to do; one that is slow carries as many for longer."""
    before = signs.others * signs.use_others
    ratio = (signs.others + signs.excess) * signs.use / before if before > 0 else NAN
    return 1 / policy.peers_factor <= ratio <= policy.peers_factor


def _off_cpu(signs: Signs, policy: Policy) -> bool:
    return signs.on_share < policy.on_cpu_ratio


def _input(signs: Signs) -> bool:
    return signs.kind == "python" and signs.family in ("input", "loader")


def _by_cpu(signs: Signs) -> bool:
    """Whether a core does this work: of compute only where its resource is the CPU."""
    return signs.kind in ("python", "host") or signs.resource == "cpu"


def _same_work(signs: Signs) -> bool:
    """Whether the others do this too: a function that only these ranks run is slow by itself."""
    return signs.others > 0


def saves(signs: Signs, _: Policy) -> bool:
    """A frame of a save is on the stack: the iteration is longer by what the save takes, on or off the CPU."""
    return signs.kind == "python" and signs.pause == "save"


def compiles(signs: Signs, _: Policy) -> bool:
    """A frame of the compiler is on the stack, or a CUDA graph is recorded: both are done once where shapes stay."""
    recorded = signs.kind == "host" and signs.family == "capture"
    return recorded or (signs.kind == "python" and signs.pause == "compilation")


def allocates(signs: Signs, _: Policy) -> bool:
    """Calls that allocate device memory: the caching allocator makes none once shapes repeat, and cudaFree waits for
    the device.
    """
    return signs.kind == "host" and signs.family == "alloc"


def synchronises(signs: Signs, _: Policy) -> bool:
    """Calls that wait for the device, charged only while it does nothing, on all ranks; on one rank they are how a
    victim waits.
    """
    return signs.kind == "host" and signs.family == "sync" and signs.everyone


def _clock(signs: Signs, policy: Policy) -> bool:
    """Kernels take longer by what the lower clock of the SMs explains: time x clock is the work, and it is the same."""
    return signs.kind == "compute" and _slower(signs, policy, "sm_clock")


def clock_low(signs: Signs, policy: Policy) -> bool:
    """The clock is lower by heat or by the power supply, where the reasons are known: somebody may have set it so."""
    return _clock(signs, policy) and not signs.slowdown < policy.gpu_slowdown_ratio


def capped(signs: Signs, policy: Policy) -> bool:
    """The power limit held the clock for a share of the window in which it did not on the others (most GPUs under load
    touch theirs), and neither heat nor the power supply did.
    """
    held = "gpu_power_cap" in signs.host and not signs.slowdown >= policy.gpu_slowdown_ratio
    return _clock(signs, policy) and held


def memory_slow(signs: Signs, policy: Policy) -> bool:
    """Copies inside the device move as many bytes at a lower rate of its memory."""
    return signs.kind == "memory" and _slower(signs, policy, "dram") and _same_bytes(signs, policy)


def pcie_slow(signs: Signs, policy: Policy) -> bool:
    """Copies over PCIe move as many bytes at a lower rate: fewer lanes, or an older generation. Of a process group, its
    collectives are slower than those of others that move as much.
    """
    copies = signs.kind == "memory" and _same_bytes(signs, policy)
    return (copies or _of_a_group(signs)) and _slower(signs, policy, "pcie")


def nvlink_slow(signs: Signs, policy: Policy) -> bool:
    """The same of a process group over NVLink."""
    return _of_a_group(signs) and _slower(signs, policy, "nvlink")


def _of_a_group(signs: Signs) -> bool:
    """Whether these are the members of a process group, whose fastest call is compared with those of other groups."""
    return signs.kind == "communication" and not signs.everyone


def waits_for_memory(signs: Signs, policy: Policy) -> bool:
    """Pages come from disk while work of a core stands still. In the input that is how a mapped file is read, and a
    full memory limit alone is no evidence: what files leave in memory counts to it and is given back.
    """
    idle = signs.on_share <= 1 - policy.explains_ratio
    work = _by_cpu(signs) and _same_work(signs) and not _input(signs)
    return work and "major_faults" in signs.host and idle


def misplaced(signs: Signs, policy: Policy) -> bool:
    """Work of a core takes more CPU time, as reads from another node's memory do, while the process changes nodes."""
    work = _by_cpu(signs) and _same_work(signs) and signs.on_share >= policy.on_cpu_ratio
    return work and "numa_away" in signs.host


def starved(signs: Signs, policy: Policy) -> bool:
    """The input is slow while its cgroup uses up its quota and is throttled for it."""
    return _input(signs) and "cgroup_cpu" in signs.host and signs.throttled >= policy.throttle_ratio


def crowded(signs: Signs, policy: Policy) -> bool:
    """Operators or launches of all ranks are longer with little CPU time of their own, while the processes fill all
    cores that they may use: their own threads wait for each other.
    """
    work = signs.kind in ("compute", "host") and _by_cpu(signs) and _same_work(signs)
    return signs.everyone and work and "process_cpu" in signs.host and signs.on_share <= 1 - policy.explains_ratio


def reads_slowly(signs: Signs, policy: Policy) -> bool:
    """The input stands still off the CPU, in a frame that reads from storage, or while its process reads from disks
    what the others do not.
    """
    reads = signs.storage or "process_disk_read" in signs.host or "major_faults" in signs.host
    return _input(signs) and reads and _off_cpu(signs, policy)


def more_work(signs: Signs, policy: Policy) -> bool:
    """Kernels bound by the SMs take longer at the same clock: there is more to compute."""
    same = abs(signs.use_others - signs.use) < policy.floor_mu and signs.resource == "sm_clock"
    return signs.kind == "compute" and signs.family in SM_BOUND and same and not signs.everyone


def _transfers_slower(signs: Signs, policy: Policy) -> bool:
    links = ("nic", "nvlink", "pcie")
    return signs.kind == "communication" and signs.everyone and _slower(signs, policy, *links)


def flaps(signs: Signs, _: Policy) -> bool:
    """Communication takes longer while the link of these ranks went down, which it did not on the others."""
    return signs.kind == "communication" and "link_down" in signs.host


def congested(signs: Signs, policy: Policy) -> bool:
    """All links to other nodes carry less than before and unsteadily, even in their best moments: who shares the way
    comes and goes.
    """
    unsteady = signs.unsteady - signs.unsteady_others >= policy.floor_sigma
    lower = not signs.peak > policy.link_ratio * signs.peak_others
    return signs.resource == "nic" and _transfers_slower(signs, policy) and unsteady and lower


def inefficient(signs: Signs, policy: Policy) -> bool:
    """All links carry steadily less than before: another way, protocol or message size, since nothing disturbs. Of a
    process group over the network, its members share a link that those of other groups have for themselves.
    """
    unsteady = signs.unsteady - signs.unsteady_others >= policy.floor_sigma
    group = _of_a_group(signs) and _slower(signs, policy, "nic")
    return (group or _transfers_slower(signs, policy)) and not unsteady
