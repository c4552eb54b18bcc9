"""Rows: an input that is late, by its store, its disk or its own code."""

from __future__ import annotations

from bench.faults.case import ALL, FIRST, HALF, JOB, ONE_NODE, ONE_RANK, SILENCE, TWO_RANKS, WORKER, Case
from bench.faults.faults import inject
from bench.faults.table.right import LOCKED_CACHE, SLOW_STORE

INPUT = frozenset({"slow_input"})
DISK = frozenset({"cgroups", "disk"})
FETCH, OBJECT = "Remote.fetch_remote", "Remote.fetch_object"
OBJECTS = ("--source", "objects")
WORKERS = ("--loader-workers", "2")
COLD = inject.files_switch("read-shard", everybody=True, fixed=1024)
"""From the onset on every rank reads 1 MiB a batch from disk, which takes a healthy one a few milliseconds."""

CASES: tuple[Case, ...] = (
    Case(
        "input", "input", "ddp", "one rank's batches come {size} late from their server", inject.store("samples"),
        ONE_RANK, WORKER, SLOW_STORE, 0.07, "s", function=FETCH,
    ),
    Case(
        "input-workers", "input", "ddp", "one rank's batches come {size} late behind two loader workers",
        inject.store("samples"), ONE_RANK, WORKER, SLOW_STORE, 0.6, "s", arguments=WORKERS, function=FETCH,
    ),
    Case(
        "input-node", "input", "accelerated", "the batches of one node come {size} late", inject.store("samples"),
        ONE_NODE, WORKER, SLOW_STORE, 0.07, "s", function=FETCH, source="InternLM/xtuner#1790",
    ),
    Case(
        "input-half", "input", "ddp", "the batches of half the ranks come {size} late", inject.store("samples"), HALF,
        WORKER, SLOW_STORE, 0.07, "s", function=FETCH,
    ),
    Case(
        "input-all", "input", "lightning_", "all batches come {size} late", inject.store("samples"), ALL, JOB,
        SLOW_STORE, 0.07, "s", function=FETCH, source="horovod/horovod#824",
    ),
    Case(
        "input-every-8th", "input", "ddp", "every 8th batch of one rank comes {size} late",
        inject.store("samples", every=8), ONE_RANK, WORKER, SLOW_STORE, 0.6, "s", function=FETCH,
    ),
    Case(
        "input-conv", "input", "conv", "one rank's batches come {size} late behind two loader workers",
        inject.store("samples"), ONE_RANK, WORKER, SLOW_STORE, 0.6, "s", function=FETCH,
    ),
    Case(
        "input-hf", "input", "hf", "one rank's batches come {size} late", inject.store("samples"), ONE_RANK, WORKER,
        SLOW_STORE, 0.07, "s", function=FETCH,
    ),
    Case(
        "input-accelerated", "input", "accelerated", "one rank's batches come {size} late", inject.store("samples"),
        ONE_RANK, WORKER, SLOW_STORE, 0.07, "s", function=FETCH,
    ),
    Case(
        "input-lightning", "input", "lightning_", "one rank's batches come {size} late", inject.store("samples"),
        ONE_RANK, WORKER, SLOW_STORE, 0.07, "s", function=FETCH,
    ),
    Case(
        "input-20-s-window", "input", "ddp", "one rank's batches come {size} late", inject.store("samples"), ONE_RANK,
        WORKER, SLOW_STORE, 0.07, "s", function=FETCH, window_seconds=20.0,
    ),
    Case(
        "input-first", "input", "ddp", "one rank's batches come {size} late from the first iteration on",
        inject.store("samples"), ONE_RANK, WORKER, SLOW_STORE, 0.07, "s", function=FETCH, onset=FIRST,
    ),
    Case(
        "input-300", "input", "ddp", "one rank's batches come {size} late, three iterations' time",
        inject.store("samples"), ONE_RANK, WORKER, SLOW_STORE, 0.375, "s", function=FETCH,
    ),
    Case(
        "input-15", "input", "ddp", "one rank's batches come {size} late, 15 % of an iteration",
        inject.store("samples"), ONE_RANK, WORKER, SLOW_STORE, 0.019, "s", function=FETCH,
    ),
    # Two workers have two iterations' time for a batch, 200 ms and more: the training never waits.
    Case(
        "input-hidden", "quiet", "ddp", "one rank's batches come {size} late, hidden behind two loader workers",
        inject.store("samples"), ONE_RANK, SILENCE, frozenset(), 0.06, "s", arguments=WORKERS,
    ),
    Case(
        "objects", "input", "ddp", "one rank's object store answers {size} late", inject.store("objects"), ONE_RANK,
        WORKER, SLOW_STORE, 0.07, "s", arguments=OBJECTS, function=OBJECT,
    ),
    Case(
        "objects-slow-node", "input", "fsdp", "the object store sends one node {size}", inject.slow_store("objects"),
        ONE_NODE, WORKER, SLOW_STORE, 60, "kB/s", arguments=OBJECTS, function=OBJECT,
    ),
    Case(
        "objects-all", "input", "fsdp", "the object store answers everybody {size} late", inject.store("objects"),
        ALL, JOB, SLOW_STORE, 0.07, "s", arguments=OBJECTS, function=OBJECT,
    ),
    Case(
        "disk", "input", "ddp", "samples are read from disk, which gives one rank {size}",
        inject.both(COLD, inject.disk()), ONE_RANK, WORKER, SLOW_STORE, 12, "MB/s", needs=DISK,
        function="read_shard",
    ),
    Case(
        "disk-node", "input", "fsdp", "samples are read from disk, which gives each rank of one node {size}",
        inject.both(COLD, inject.disk()), ONE_NODE, WORKER, SLOW_STORE, 12, "MB/s", needs=DISK,
        function="read_shard",
    ),
    Case(
        "disk-all", "input", "ddp", "samples are read from disk, which gives each rank {size}",
        inject.both(COLD, inject.disk()), ALL, JOB, SLOW_STORE, 12, "MB/s", needs=DISK, function="read_shard",
        source="mlfoundations/open_clip#703",
    ),
    # Each of the two waits for the other, and so both are slower than the ranks of other nodes.
    Case(
        "locked-cache", "input", "experts", "two ranks lock one cache for {size} a batch",
        inject.folder_switch("read-cache"), TWO_RANKS, WORKER, LOCKED_CACHE, 0.05, "s", function="read_cache",
    ),
    Case(
        "tokenize", "input", "ddp", "one rank tokenises in the input, {size} of a core a batch",
        inject.switch("tokenize"), ONE_RANK, WORKER, INPUT, 0.05, "s",
    ),
    Case(
        "tokenize-all", "input", "hf", "all tokenise in the input, {size} of a core a batch",
        inject.switch("tokenize"), ALL, JOB, INPUT, 0.05, "s", 2, 1, source="AnswerDotAI/ModernBERT#236",
    ),
    Case(
        "tokenize-hf", "input", "hf", "one rank tokenises in the input, {size} of a core a batch",
        inject.switch("tokenize"), ONE_RANK, WORKER, INPUT, 0.05, "s",
    ),
    Case(
        "too-few-workers", "input", "conv", "one loader worker tokenises for {size} a batch, longer than an iteration",
        inject.switch("tokenize"), ALL, JOB, INPUT, 0.25, "s", 2, 1, arguments=("--loader-workers", "1"),
    ),
    Case(
        "enough-workers", "quiet", "conv", "two loader workers tokenise for {size} a batch, which hides it",
        inject.switch("tokenize"), ALL, SILENCE, frozenset(), 0.025, "s", 2, 1,
    ),
    Case(
        "stall-every-8", "input", "ddp", "one rank unpacks a shard every 8th batch, {size} of a core",
        inject.switch("unpack-shard", every=8), ONE_RANK, WORKER, INPUT, 0.5, "s",
        source="mlfoundations/open_clip#703",
    ),
    Case(
        "stall-all-workers", "input", "conv", "each loader worker unpacks a shard every 6th batch, {size} of a core",
        inject.switch("unpack-shard", every=6), ALL, JOB, INPUT, 1.5, "s", 2, 1,
        source="mlfoundations/open_clip#703",
    ),
    # All are as slow as at the beginning: there is nothing to compare with, and D alone is info.
    Case(
        "input-all-first", "quiet", "ddp", "all batches come {size} late from the first iteration on",
        inject.store("samples"), ALL, SILENCE, frozenset(), 0.07, "s", onset=FIRST, source="horovod/horovod#824",
    ),
)  # fmt: skip
