"""Rows: a rank without the cores it needs, and memory that is not there or is taken and given back."""

from __future__ import annotations

from bench.faults.case import ALL, HALF, JOB, ONE_NODE, ONE_RANK, WORKER, Case
from bench.faults.faults import inject
from bench.faults.table.right import ALL_LIMITED, CHURN, CROWDED_LOADER, NO_CORE

STARVED = frozenset({"cpu_starved"})
CGROUPS = frozenset({"cgroups"})
BUSY = ("--repeats", "60")
"""Enough work of a core for a quarter of one to be too little."""

CASES: tuple[Case, ...] = (
    Case(
        "quota", "cpu", "ddp", "one rank may use {size} of a core", inject.quota(), ONE_RANK, WORKER, STARVED,
        0.2, "", arguments=BUSY, needs=CGROUPS,
    ),
    Case(
        "quota-fsdp", "cpu", "fsdp", "one rank may use {size} of a core", inject.quota(), ONE_RANK, WORKER, STARVED,
        0.2, "", arguments=BUSY, needs=CGROUPS,
    ),
    Case(
        "quota-accumulate", "cpu", "accumulate", "one rank may use {size} of a core", inject.quota(), ONE_RANK,
        WORKER, STARVED, 0.2, "", arguments=BUSY, needs=CGROUPS,
    ),
    Case(
        "quota-lightning", "cpu", "lightning_", "one rank may use {size} of a core", inject.quota(), ONE_RANK,
        WORKER, STARVED, 0.2, "", arguments=BUSY, needs=CGROUPS,
    ),
    Case(
        "quota-node", "cpu", "ddp", "each rank of one node may use {size} of a core", inject.quota(), ONE_NODE,
        WORKER, STARVED, 0.2, "", arguments=BUSY, needs=CGROUPS,
    ),
    Case(
        "quota-half", "cpu", "ddp", "each of half the ranks may use {size} of a core", inject.quota(), HALF, WORKER,
        STARVED, 0.2, "", arguments=BUSY, needs=CGROUPS,
    ),
    Case(
        "quota-all", "cpu", "ddp", "every rank may use {size} of a core", inject.quota(), ALL, JOB, ALL_LIMITED,
        0.2, "", arguments=BUSY, needs=CGROUPS,
    ),
    Case(
        "quota-20-s-window", "cpu", "ddp", "one rank may use {size} of a core", inject.quota(), ONE_RANK, WORKER,
        STARVED, 0.2, "", arguments=BUSY, needs=CGROUPS, window_seconds=20.0,
    ),
    Case(
        "neighbour", "cpu", "ddp", "{size} of another container on the core of one rank", inject.neighbour(),
        ONE_RANK, WORKER, NO_CORE, 3, "busy processes", 2, 1, arguments=BUSY, needs=CGROUPS,
    ),
    Case(
        "neighbour-conv", "cpu", "conv", "{size} of another container on the core of one rank", inject.neighbour(),
        ONE_RANK, WORKER, NO_CORE | CROWDED_LOADER, 3, "busy processes", 2, 1, needs=CGROUPS,
    ),
    Case(
        "bound-to-one-core", "cpu", "ddp", "both ranks of a node and {size} of its own are bound to one core",
        inject.both(inject.one_core(), inject.busy_on_last_core()), ONE_NODE, WORKER, NO_CORE, 2, "busy processes",
        2, 2, arguments=BUSY, needs=CGROUPS, source="NVIDIA/srt-slurm#332",
    ),
    # The quota holds for the trainer and for the processes that load for it, and these need most of it.
    Case(
        "loader-without-cores", "cpu", "conv", "tokenising loaders and trainer of one rank share {size} of a core",
        inject.both(inject.switch("tokenize", everybody=True, fixed=0.05), inject.quota()), ONE_RANK, WORKER,
        CROWDED_LOADER, 0.3, "", 2, 1, needs=CGROUPS, source="nasa-nccs-hpda/pytorch-caney#44",
    ),
    Case(
        "threads-all", "cpu", "ddp", "operators use {size} on every rank, more than there are cores",
        inject.switch("many-threads"), ALL, JOB, frozenset({"cpu_contention"}), 8, "threads", 2, 2, arguments=BUSY,
        source="pytorch/torchtitan#4038",
    ),
    Case(
        "memory-limit", "memory", "ddp", "a table of embeddings in a file, and {size} of memory beyond the model's "
        "on one rank", inject.both(inject.files_switch("look-up", everybody=True, fixed=600), inject.memory_limit()),
        ONE_RANK, WORKER, frozenset({"memory_pressure"}), 14, "MB", 2, 2, needs=CGROUPS,
    ),
    Case(
        "memory-limit-node", "memory", "fsdp", "a table of embeddings in a file, and {size} of memory beyond the "
        "model's on the ranks of one node",
        inject.both(inject.files_switch("look-up", everybody=True, fixed=600), inject.memory_limit()),
        ONE_NODE, WORKER, frozenset({"memory_pressure"}), 14, "MB", 2, 2, needs=CGROUPS,
    ),
    Case(
        "churn", "memory", "ddp", "one rank takes {size} from the system and gives it back in every forward",
        inject.switch("churn"), ONE_RANK, WORKER, CHURN, 160, "MiB", source="Lightning-AI/lightning-thunder#420",
    ),
    Case(
        "churn-fsdp", "memory", "fsdp", "one rank takes {size} from the system and gives it back in every forward",
        inject.switch("churn"), ONE_RANK, WORKER, CHURN, 160, "MiB", source="pytorch/pytorch#104509",
    ),
)  # fmt: skip
