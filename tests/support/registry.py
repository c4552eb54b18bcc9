"""The table of launchers and loops that are tested: tests/e2e runs every line, page.py writes docs/support.md from it.

Nothing is imported here but the standard library, so that the page can be written without torch.
"""

from __future__ import annotations

from dataclasses import dataclass

FRAMEWORK = "Frameworks"
AHEAD = "it fetches one batch ahead: up to three updates around the end of an epoch are counted, not timed"
AROUND = "the iteration around a validation is counted, not timed"
BETWEEN = "timed from update to update, without an input time"


@dataclass(frozen=True, slots=True)
class Case:
    """One training.

    Attributes:
        name: Its function in single.py, updates.py, parallel.py, frameworks.py or inputs.py, and the name of
            its job.
        title: The line of the page.
        group: Heading of the page: "Launchers", "Loops" or "Frameworks".
        loop: The function, where it has another name than the case.
        launcher: How it is started (launch.py).
        ranks: Processes that train.
        per_iteration: How many of them are one iteration.
        unmatched: Whether the loop cannot be recognised; the worker has to say so.
        inputs: Whether inputs are seen: else a duration is not known. A tuple says it of each rank.
        untimed_every: After so many updates some iterations (UNTIMED at most) are counted and not timed: there is a
            validation, or the end of an epoch; 0 = never.
        before: Updates that the framework makes before the first input, which are counted too.
        hot: Start of the name of the function that costs most.
        package: Distribution whose version the page shows; "" is torch.
        note: What a reader has to know.
    """

    name: str
    title: str
    group: str = "Loops"
    loop: str = ""
    launcher: str = "python"
    ranks: int = 1
    per_iteration: int = 1
    unmatched: bool = False
    inputs: bool | tuple[bool, ...] = True
    untimed_every: int = 0
    before: int = 0
    hot: str = "known_work ("
    package: str = ""
    note: str = ""

    def has_inputs(self, rank: int) -> bool:
        return self.inputs[rank] if isinstance(self.inputs, tuple) else self.inputs


def _launcher(name: str, title: str, note: str = "") -> Case:
    return Case(f"launch_{name}", title, "Launchers", "ddp", name, 2, note=note)


def _ranks(name: str, title: str, note: str = "", **rest: object) -> Case:
    return Case(name, title, launcher="variables", ranks=2, note=note, **rest)  # type: ignore[arg-type]


LAUNCHERS = (
    _launcher("torchrun", "`torchrun`"),
    _launcher("srun", "`srun` (`SLURM_PROCID`, `SLURM_NTASKS`, `SLURM_LOCALID`)", "`MASTER_ADDR` and `_PORT` set"),
    _launcher("mpirun", "`mpirun` (`OMPI_COMM_WORLD_*`)", "`tcp://` rendezvous, no `MASTER_*`"),
    _launcher("pmi", "PMI (`PMI_RANK`, `PMI_SIZE`)", "`file://` rendezvous"),
    _launcher("spawn", "`torch.multiprocessing.spawn`"),
    _launcher("fork", "`torch.multiprocessing.start_processes`, fork"),
    _launcher("late", "as Ray starts workers", "variables set late, training in a thread that is not the main one"),
)

LOOPS = (
    Case("plain", "plain"),
    Case("device", "the work is an operator", hot="eroica_demo::device"),
    Case("hot_loop", "pure Python in calls of 0.4 ms", hot="known_hot_loop ("),
    Case("accumulate_4", "gradient accumulation, 4"),
    Case("accumulate_32", "gradient accumulation, 32"),
    Case(
        "accumulate_uneven",
        "gradient accumulation, 4, epochs that it does not divide",
        untimed_every=100,
        note="the update across the end of an epoch is counted, not timed",
    ),
    Case("scaler", "AMP `GradScaler` with skipped updates", note="a skipped update is an iteration"),
    Case("scaler_fused", "AMP `GradScaler`, fused optimizer"),
    Case("fused", "fused optimizer"),
    Case("foreach", "foreach optimizer"),
    Case("gan", "two optimizers (GAN)"),
    Case("gan_5", "two optimizers, 5 critic updates", per_iteration=5),
    Case("in_backward", "optimizer in backward"),
    Case("applied_in_backward", "optimizer in backward, by torch's `_apply_optimizer_in_backward`"),
    Case("wrapped", "an optimizer of your own around one of torch's"),
    Case("lbfgs", "`LBFGS`, 5 inner iterations"),
    Case("iterable", "`IterableDataset`"),
    Case("watched", "an iterator of your own, `eroica_otel.watch()`"),
    Case("unwatched", "an iterator of your own, not watched", inputs=False, note=BETWEEN),
    Case("workers", "persistent loader workers, fork"),
    Case("spawned_workers", "persistent loader workers, spawn"),
    Case("rebuilt", "data set and loader rebuilt each epoch"),
    Case(
        "validating",
        "validation of 220 inputs inside",
        untimed_every=100,
        note="the iteration around it is counted, not timed",
    ),
    Case("queued", "a thread that fetches ahead", inputs=False, note=BETWEEN),
    Case("compiled", "`torch.compile` of the forward pass"),
    Case("compiled_step", "`torch.compile` of `optimizer.step()`"),
    Case("late", "attached after iterator and optimizer exist"),
    Case(
        "own_step",
        "an optimizer that is no `torch.optim.Optimizer`",
        unmatched=True,
        note="state `unmatched`; no window. `eroica_otel.step()` makes it work:",
    ),
    Case("own_step_told", "the same with `eroica_otel.step()` after each update"),
    _ranks("sampler", "`DistributedDataParallel`, `DistributedSampler`"),
    _ranks("no_sync", "`DistributedDataParallel`, `no_sync`, 4 micro-batches"),
    _ranks("join", "`DistributedDataParallel` with `Join`, uneven inputs"),
    _ranks("fsdp1", "`FullyShardedDataParallel` (FSDP1)"),
    _ranks("fsdp2", "`fully_shard` (FSDP2)"),
    _ranks("fsdp2_in_backward", "`fully_shard` (FSDP2), optimizer in backward"),
    _ranks("zero", "`ZeroRedundancyOptimizer`"),
    _ranks("post_local_sgd", "`PostLocalSGDOptimizer`"),
    _ranks("pipeline", "pipeline of 2 stages (GPipe), the last without a loader", inputs=(True, False)),
    _ranks("pipeline_1f1b", "pipeline of 2 stages (1F1B), all ranks read"),
)


def _framework(name: str, package: str, title: str, note: str = "", **rest: object) -> Case:
    return Case(name, title, FRAMEWORK, package=package, note=note, **rest)  # type: ignore[arg-type]


FRAMEWORKS = (
    _framework(
        "hf_trainer", "transformers", "Hugging Face `Trainer`", AHEAD, untimed_every=25, launcher="torchrun", ranks=2
    ),
    _framework(
        "hf_trainer_evaluating",
        "transformers",
        "Hugging Face `Trainer`, 2 micro-batches, evaluation and checkpoints",
        AROUND,
        untimed_every=100,
    ),
    _framework("accelerated", "accelerate", "Accelerate", AHEAD, untimed_every=50, launcher="torchrun", ranks=2),
    _framework("accelerated_2", "accelerate", "Accelerate, 2 micro-batches", AHEAD, untimed_every=50),
    _framework(
        "lightning_automatic",
        "lightning",
        "Lightning, automatic optimization, 2 micro-batches, sanity check, validation",
        AROUND,
        untimed_every=100,
    ),
    _framework("lightning_manual", "lightning", "Lightning, manual optimization, 2 optimizers", untimed_every=200),
    _framework("fabric", "lightning", "Lightning Fabric"),
    _framework("deepspeed_zero_0", "deepspeed", "DeepSpeed, 4 micro-batches", launcher="torchrun", ranks=2),
    _framework(
        "deepspeed_zero_0_bf16",
        "deepspeed",
        "DeepSpeed, ZeRO 0, bf16",
        "its update before the first input is counted, not timed",
        launcher="torchrun",
        ranks=2,
        before=1,
    ),
    _framework("deepspeed_zero_1", "deepspeed", "DeepSpeed, ZeRO 1", launcher="torchrun", ranks=2),
    _framework("deepspeed_zero_2", "deepspeed", "DeepSpeed, ZeRO 2, bf16", launcher="torchrun", ranks=2),
    _framework("deepspeed_zero_3", "deepspeed", "DeepSpeed, ZeRO 3", launcher="torchrun", ranks=2),
    _framework("stateful_loader", "torchdata", "`StatefulDataLoader` with workers"),
    _framework("stateful_loader_0", "torchdata", "`StatefulDataLoader` without workers"),
    _framework("nodes", "torchdata", "`torchdata.nodes`", BETWEEN, inputs=False),
    _framework("datasets", "datasets", "a Hugging Face data set in a DataLoader"),
    _framework(
        "datasets_iter",
        "datasets",
        "a Hugging Face data set by its own `iter`",
        BETWEEN,
        inputs=False,
    ),
    _framework("litdata_loader", "litdata", "LitData `StreamingDataLoader`"),
    _framework("litdata_iter", "litdata", "LitData `StreamingDataset` by its own `iter`", BETWEEN, inputs=False),
    _framework(
        "ray_train",
        "ray",
        "Ray Train, its prepared model and loader",
        f"{AHEAD}; Ray kills its workers: `handle.close()` at the function's end delivers the last second",
        untimed_every=50,
        launcher="ray",
        ranks=2,
    ),
    _framework("ray_data", "ray", "Ray Data `iter_torch_batches`", BETWEEN, inputs=False),
    _framework("webdataset", "webdataset", "`WebLoader`"),
    _framework("webdataset_raw", "webdataset", "`WebDataset` by its own `iter`", BETWEEN, inputs=False),
)

NOT_TESTED = (
    (
        "a `StreamingDataset` of MosaicML by its own `iter`",
        BETWEEN + "; it needs numpy below 2.2 and transformers below 5, which the others above do not have",
    ),
)
"""Loops that are often used and have no test yet, and what is expected of them."""

CASES = (*LAUNCHERS, *LOOPS, *FRAMEWORKS)
OFTEN = (
    *LAUNCHERS,
    *(
        case
        for case in LOOPS
        if case.name
        in (
            *("plain", "accumulate_4", "scaler", "gan_5", "in_backward", "watched", "workers", "validating"),
            *("fsdp2", "zero", "pipeline"),
        )
    ),
)
"""Every launcher, and a loop for each way of seeing an iteration; the others are run by ``make support`` alone."""
BY_NAME = {case.name: case for case in CASES}
