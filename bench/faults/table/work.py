"""Rows: ranks with more to do, code compiled again, saving, and metrics fetched one by one."""

from __future__ import annotations

from bench.faults.case import ALL, HALF, JOB, ONE_RANK, RANK_0, ROLE, SILENCE, WORKER, Case
from bench.faults.faults import inject
from bench.faults.table.right import LENGTHS, METRICS

MORE = frozenset({"load_imbalance"})
COMPILED = frozenset({"recompilation"})
SAVED = frozenset({"checkpoint_stall"})
BATCH = inject.switch("more-samples")

CASES: tuple[Case, ...] = (
    Case(
        "batch", "work", "ddp", "one rank gets {size} more than the others' 8", BATCH, ONE_RANK, WORKER, MORE,
        8, "samples",
        explanation="unknown: its operators took 3.6 % of the iteration more CPU time than its peers'. 5 % are asked "
        "for, and that all of its work grew alike is not looked at yet",
    ),
    Case(
        "batch-small", "work", "ddp", "one rank gets {size} more than the others' 8", BATCH, ONE_RANK, WORKER, MORE,
        2.5, "samples",
    ),
    Case(
        "batch-fsdp", "work", "fsdp", "one rank gets {size} more than the others' 8", BATCH, ONE_RANK, WORKER, MORE,
        6, "samples",
    ),
    Case(
        "batch-conv", "work", "conv", "one rank gets {size} more than the others' 8", BATCH, ONE_RANK, WORKER, MORE,
        6, "samples",
    ),
    Case(
        "batch-hf", "work", "hf", "one rank gets {size} more than the others' 8", BATCH, ONE_RANK, WORKER, MORE,
        6, "samples",
    ),
    Case(
        "batch-half", "work", "accelerated", "half of the ranks get {size} more than the others' 8", BATCH, HALF,
        WORKER, MORE, 6, "samples",
    ),
    Case(
        "micro-batches", "work", "accumulate", "one rank's micro-batches have {size} more",
        inject.switch("uneven-micro"), ONE_RANK, WORKER, MORE, 3, "samples",
    ),
    Case(
        "long-sequences", "work", "hf", "one rank draws longer sequences, up to {size} more",
        inject.switch("long-sequences"), ONE_RANK, WORKER, MORE, 14, "samples", source="Tencent-Hunyuan/UniRL#45",
    ),
    Case(
        "uneven-sequences", "work", "ddp", "all ranks draw lengths at random, up to {size} more",
        inject.switch("long-sequences"), ALL, JOB, LENGTHS, 8, "samples", source="Tencent-Hunyuan/UniRL#45",
    ),
    Case(
        "experts-collapsed", "work", "experts", "the router sends {size} of all tokens to one rank's expert",
        inject.route(), ONE_RANK, WORKER, MORE, 0.4, "",
    ),
    Case(
        "experts-uneven", "work", "experts", "the router sends {size} of all tokens to one rank's expert beside its "
        "own", inject.route(), ONE_RANK, WORKER, MORE, 0.2, "",
    ),
    Case(
        "stage", "work", "pipeline", "one stage of a pipeline has {size} more work a micro-batch",
        inject.switch("stage-work"), ROLE, WORKER, frozenset({"pipeline_imbalance"}), 0.03, "s",
    ),
    # One replica of a stage is slow, its twin of the other pipeline is not: no stage, a rank.
    Case(
        "stage-replica", "work", "pipeline", "one rank of one stage has {size} more work a micro-batch",
        inject.switch("stage-work"), ONE_RANK, WORKER, MORE, 0.03, "s",
    ),
    Case(
        "recompile", "compile", "experts", "one rank compiles {size} anew for a new shape in every iteration",
        inject.switch("recompile"), ONE_RANK, WORKER, COMPILED, 10, "layers", source="karpathy/nanochat#722",
    ),
    Case(
        "recompile-all", "compile", "ddp", "all ranks compile {size} anew for a new shape in every iteration",
        inject.switch("recompile"), ALL, JOB, COMPILED, 5, "layers", 2, 1, source="pytorch/pytorch#183451",
    ),
    Case(
        "metrics", "collectives", "ddp", "all ranks reduce {size} one by one and fetch each with item()",
        inject.together("log-metrics"), ALL, JOB, METRICS, 40, "metrics", source="meta-pytorch/torchtune#522",
    ),
    Case(
        "checkpoint-rank-0", "checkpoint", "ddp", "rank 0 saves in the loop every 4th iteration, {size} each",
        inject.switch("save-checkpoint", every=4), RANK_0, WORKER, SAVED, 0.3, "s",
    ),
    Case(
        "checkpoint-one", "checkpoint", "fsdp", "one rank saves in the loop every 8th iteration, {size} each",
        inject.switch("save-checkpoint", every=8), ONE_RANK, WORKER, SAVED, 0.8, "s",
    ),
    Case(
        "checkpoint-all", "checkpoint", "ddp", "all ranks save together every 4th iteration, {size} each",
        inject.switch("save-checkpoint", every=4), ALL, JOB, SAVED, 0.3, "s",
    ),
    Case(
        "checkpoint-slower", "checkpoint", "ddp", "rank 0 saves every 10th iteration as ever, but {size} longer",
        inject.switch("slow-save"), RANK_0, WORKER, SAVED, 0.8, "s",
        arguments=("--checkpoint-every", "10", "--checkpoint-rank", "0"),
    ),
    # Pauses of seconds that every training has: no fault.
    Case(
        "checkpoint-pause", "quiet", "fsdp", "all ranks save once, which takes {size}",
        inject.together("save-checkpoint", iterations=1), ALL, SILENCE, frozenset(), 8, "s",
    ),
    Case(
        "checkpoint-pause-rank-0", "quiet", "ddp", "rank 0 saves once, which takes {size}, and the others wait",
        inject.switch("save-checkpoint", iterations=1), RANK_0, SILENCE, frozenset(), 8, "s",
    ),
    Case(
        "validation-pause", "quiet", "lightning_", "all ranks validate once, which takes {size}",
        inject.together("evaluate", iterations=1), ALL, SILENCE, frozenset(), 8, "s",
    ),
)  # fmt: skip
