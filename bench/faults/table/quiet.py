"""Rows: jobs with which nothing is wrong, or nothing any more, and nobody may be named."""

from __future__ import annotations

from bench.faults.case import ALL, ENDS, FIRST, NONE, ONE_NODE, ONE_RANK, SILENCE, Case
from bench.faults.faults import inject

NOBODY: frozenset[str] = frozenset()


def _clean(name: str, workload: str, what: str = "nothing", *arguments: str, nodes: int = 2, ranks: int = 2) -> Case:
    return Case(
        name, "clean", workload, what, None, NONE, SILENCE, NOBODY, nodes=nodes, ranks=ranks, arguments=arguments
    )


CASES: tuple[Case, ...] = (
    _clean("clean-1", "ddp", "nothing, windows by hand"),
    _clean("clean-2", "ddp", "nothing, loader workers", "--loader-workers", "2"),
    _clean("clean-fsdp", "fsdp"),
    _clean("clean-accumulate", "accumulate"),
    _clean("clean-pipeline", "pipeline"),
    _clean("clean-experts", "experts"),
    _clean("clean-conv", "conv", ranks=1),
    _clean("clean-hf", "hf"),
    _clean("clean-accelerated", "accelerated"),
    _clean("clean-lightning", "lightning_"),
    _clean("clean-4-nodes", "ddp", "nothing, four nodes", nodes=4, ranks=1),
    _clean("clean-checkpoints", "ddp", "a checkpoint every 25th iteration", "--checkpoint-every", "25"),
    _clean("clean-validation", "ddp", "a validation every 40th iteration", "--validate-every", "40"),
    _clean("clean-epochs", "conv", "a new epoch every 60th iteration", "--epoch", "60", ranks=1),
    # Compilation at the beginning: slow until the shapes are known, as it should be.
    Case(
        "warm-up", "quiet", "ddp", "all ranks compile {size} in each of the first 30 iterations",
        inject.switch("recompile", iterations=30), ALL, SILENCE, NOBODY, 5, "layers", 2, 1, onset=FIRST,
    ),
    Case(
        "python-over", "quiet", "ddp", "one rank computes {size} in Python in 15 iterations, then no more",
        inject.switch("augment", iterations=15), ONE_RANK, SILENCE, NOBODY, 0.1, "s", onset=ENDS,
    ),
    Case(
        "link-over", "quiet", "ddp", "one node's link is at {size} for 3 s, then as before", inject.link_for(3.0),
        ONE_NODE, SILENCE, NOBODY, 150, "Mbit/s", 4, 1, onset=ENDS,
    ),
    Case(
        "neighbour-over", "quiet", "ddp", "{size} run for 2 s on the core of one rank", inject.neighbour(2.0),
        ONE_RANK, SILENCE, NOBODY, 3, "busy processes", 2, 1, onset=ENDS, needs=frozenset({"cgroups"}),
    ),
)  # fmt: skip
