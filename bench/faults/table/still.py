"""Rows: what stops or stands still."""

from __future__ import annotations

from bench.faults.case import ALL, HANG, ONE_RANK, RANK_0, WORKER, Case
from bench.faults.faults import inject
from bench.faults.table.right import GONE

STOPPED = frozenset({"process_stopped"})
PYTHON = frozenset({"hang_in_python"})
MISSING = frozenset({"hang_missing_rank"})
LOCK = inject.switch("wait-for-lock")
AVERAGE = ("--average-loss",)

CASES: tuple[Case, ...] = (
    Case("stopped", "stopped", "ddp", "SIGSTOP to one rank", inject.stop_for_ever(), ONE_RANK, HANG, STOPPED),
    Case(
        "stopped-pipeline", "stopped", "pipeline", "SIGSTOP to one rank", inject.stop_for_ever(), ONE_RANK, HANG,
        STOPPED,
    ),
    Case(
        "stopped-for-a-while", "stopped", "lightning_", "SIGSTOP to one rank, SIGCONT after {size}", inject.stop(),
        ONE_RANK, HANG, STOPPED, 40, "s",
    ),
    Case(
        "stopped-again", "stopped", "hf", "one rank is stopped for {size} and runs for 2 s, again and again",
        inject.stop(2.0), ONE_RANK, WORKER, STOPPED, 2, "s",
    ),
    Case(
        "stopped-often", "stopped", "fsdp", "one rank is stopped for {size} and runs for 1.5 s, again and again",
        inject.stop(1.5), ONE_RANK, WORKER, STOPPED, 0.5, "s",
    ),
    Case(
        "hang", "hang", "ddp", "one rank waits for a lock that nobody gives back", LOCK, ONE_RANK, HANG, PYTHON,
        function="wait_for_lock",
    ),
    Case(
        "hang-fsdp", "hang", "fsdp", "one rank waits for a lock that nobody gives back", LOCK, ONE_RANK, HANG, PYTHON,
        function="wait_for_lock",
    ),
    Case(
        "hang-pipeline", "hang", "pipeline", "one rank waits for a lock that nobody gives back",
        inject.switch("lock-in-stage"), ONE_RANK, HANG, PYTHON, function="wait_for_lock",
    ),
    Case(
        "hang-hf", "hang", "hf", "one rank waits for a lock that nobody gives back", LOCK, ONE_RANK, HANG, PYTHON,
        function="wait_for_lock",
    ),
    Case(
        "left-out", "hang", "ddp", "one rank leaves a collective out", inject.switch("leave-out"), ONE_RANK, HANG,
        MISSING, arguments=AVERAGE, source="konstmish/prodigy#35",
    ),
    Case(
        "left-out-fsdp", "hang", "fsdp", "one rank leaves a collective out", inject.switch("leave-out"), ONE_RANK,
        HANG, MISSING, arguments=AVERAGE, source="konstmish/prodigy#35",
    ),
    Case(
        "metric-keys", "hang", "accelerated", "one rank reduces one metric fewer than the others",
        inject.together("log-dict"), ONE_RANK, HANG, MISSING, source="Lightning-AI/pytorch-lightning#19106",
    ),
    Case(
        "other-order", "hang", "ddp", "one rank calls the collectives of two groups in another order",
        inject.together("other-order"), ONE_RANK, HANG, MISSING,
    ),
    Case(
        "barrier-rank-0", "hang", "ddp", "rank 0 alone calls a save that has a barrier in it",
        inject.switch("save-with-barrier"), RANK_0, HANG, MISSING, source="alan-turing-institute/autocast#386",
    ),
    Case(
        "fewer-batches", "hang", "ddp", "one rank's epoch has {size} fewer than the others'",
        inject.switch("fewer-batches"), ONE_RANK, HANG, MISSING, 3, "batches", arguments=("--epoch", "40"),
        source="lightseekorg/TorchSpec#126",
    ),
    # The trainer waits for its loader, which waits for a lock: it stands in the input, in Python.
    Case(
        "lock-across-fork", "hang", "conv", "a loader worker is forked while a thread holds a lock, and takes it",
        inject.both(inject.switch("fork-lock"), inject.switch("fork-lock-loader")), ONE_RANK, HANG, PYTHON,
        arguments=("--epoch", "40"), source="ultralytics/ultralytics#26085",
    ),
    Case(
        "full-pipe", "hang", "lightning_", "rank 0 prints into a pipe that nobody reads any more",
        inject.switch("full-pipe"), RANK_0, HANG, PYTHON, function="print_into_full_pipe",
    ),
    Case(
        "endless-loop", "hang", "experts", "one rank loops without an end in Python", inject.switch("search-for-ever"),
        ONE_RANK, HANG, PYTHON, function="search_for_ever",
    ),
    Case(
        "endless-loop-in-c", "hang", "ddp", "one rank loops without an end in C and holds the interpreter",
        inject.switch("spin-in-c"), ONE_RANK, HANG, PYTHON,
    ),
    Case(
        "dead-thread", "hang", "accumulate", "one rank's training fails while another thread keeps its process alive",
        inject.switch("die-quietly"), ONE_RANK, HANG, GONE,
    ),
    Case(
        "lost-node", "hang", "ddp", "one node loses power: its link is gone and so is its trainer", inject.lose_node(),
        ONE_RANK, HANG, MISSING, nodes=4, ranks=1,
    ),
    # Nobody is ahead and nobody behind: all wait in their input, each for a name of its own.
    Case(
        "own-names", "hang", "ddp", "every rank waits for another name, for nobody seeded them",
        inject.together("wait-for-own-name"), ALL, HANG, PYTHON, source="mosaicml/streaming#145",
    ),
)  # fmt: skip
