"""Cases that nothing is tuned on, written by one who had not seen the rules of the causes: what is expected of them was
reasoned from what is done alone.
"""

from __future__ import annotations

from functools import partial

from bench.faults.case import (
    ALL,
    ENDS,
    HALF,
    HANG,
    JOB,
    LINK,
    NONE,
    ONE_NODE,
    ONE_RANK,
    RANK_0,
    ROLE,
    SILENCE,
    TWO_RANKS,
    UNSEEN,
    WORKER,
    Case,
)
from bench.faults.faults import inject
from bench.faults.faults.unseen import left_over

unseen = partial(Case, group=UNSEEN)

SLOW: tuple[Case, ...] = (
    unseen(
        "u-tracker-answers-late", "python", "hf",
        "after each step rank 0 sends its metrics to an experiment tracker and waits {size} for the answer",
        inject.switch("push-metrics"), RANK_0, WORKER, frozenset({"python_blocked"}), 0.06, "s",
    ),
    unseen(
        "u-poll-without-pause", "python", "fsdp",
        "before each step one rank asks in a loop without a pause whether a thread is done, for {size}",
        inject.switch("wait-for-flag"), ONE_RANK, WORKER, frozenset({"python_overhead"}), 0.06, "s",
    ),
    unseen(
        "u-greedy-pattern", "input", "conv",
        "the texts of one rank meet a regular expression that tries far too much, {size} of CPU time for each batch in "
        "the loader's only process",
        inject.switch("clean-text"), ONE_RANK, WORKER, frozenset({"slow_input"}), 0.22, "s",
        nodes=3, ranks=1, arguments=("--loader-workers", "1"),
    ),
    # A store that answers late is seen as a wait in the loader; either name leads to the same place.
    unseen(
        "u-store-tail", "input", "accelerated",
        "the object store answers each rank's every fourth request {size} late",
        inject.store("objects", every=4), ALL, JOB, frozenset({"slow_input", "storage_slow"}), 0.25, "s",
        arguments=("--source", "objects"),
    ),
    unseen(
        "u-bond-lost-members", "network", "fsdp",
        "the bonded port of one node has lost members and carries {size} both ways",
        inject.link(), ONE_RANK, LINK, frozenset({"nic_degraded"}), 300, "Mbit/s", nodes=4, ranks=1,
    ),
    unseen(
        "u-oversubscribed-switch", "network", "ddp",
        "the switch of all nodes gives each {size}",
        inject.link(), ALL, JOB, frozenset({"network_congestion"}), 200, "Mbit/s", nodes=4, ranks=1,
    ),
    unseen(
        "u-unfused-buffers", "collectives", "lightning_",
        "after each step {size} of 1 KiB are added up over all ranks, each in a collective of its own",
        inject.together("sync-buffers"), ALL, JOB, frozenset({"collective_inefficient"}), 60, "buffers",
    ),
    unseen(
        "u-pod-limit-copied", "cpu", "ddp",
        "the workers of one node got the CPU limit of a sidecar, {size} each",
        inject.quota(), ONE_NODE, WORKER, frozenset({"cpu_starved"}), 0.1, "cores", needs=frozenset({"cgroups"}),
    ),
    unseen(
        "u-job-left-over", "cpu", "experts",
        "an earlier job was not ended and runs {size} on each core",
        left_over(), ALL, JOB, frozenset({"cpu_contention"}), 3, "busy processes",
    ),
    unseen(
        "u-two-heaps", "gc", "accelerated",
        "two ranks keep a large cache of Python objects and collect garbage in every third iteration, one after the "
        "other, {size} each",
        inject.switch("collect-garbage", every=3, stagger=1), TWO_RANKS, WORKER, frozenset({"gc_pause"}), 0.1, "s",
    ),
    unseen(
        "u-half-with-long-bucket", "work", "lightning_",
        "half of the ranks draw from the bucket of long documents, {size} more in each batch",
        inject.switch("more-samples"), HALF, WORKER, frozenset({"load_imbalance"}), 4, "samples",
    ),
    unseen(
        "u-head-in-one-stage", "work", "pipeline",
        "one of three stages holds a large head as well, {size} of products for each micro-batch",
        inject.switch("stage-work"), ROLE, WORKER, frozenset({"pipeline_imbalance"}), 0.025, "s", nodes=3,
    ),
    unseen(
        "u-node-saves-to-full-disk", "checkpoint", "accumulate",
        "both ranks of one node save in every fifth iteration to a local disk that has become slow, {size} each",
        inject.switch("save-checkpoint", every=5), ONE_NODE, WORKER, frozenset({"checkpoint_stall"}), 0.3, "s",
    ),
    unseen(
        "u-ragged-shapes", "compile", "hf",
        "the batches of one rank are not padded and {size} are compiled for each new shape",
        inject.switch("recompile"), ONE_RANK, WORKER, frozenset({"recompilation"}), 10, "layers",
    ),
    unseen(
        "u-guest-suspended", "stopped", "experts",
        "a rank is stopped for {size} and runs for 0.6 s, again and again, as under a hypervisor that migrates it",
        inject.stop(running_seconds=0.6), ONE_RANK, WORKER, frozenset({"process_stopped"}), 0.15, "s",
    ),
)  # fmt: skip
HANGS: tuple[Case, ...] = (
    unseen(
        "u-hang-stale-lock", "hang", "hf",
        "both ranks of one node wait for the lock file of an extension's build that died",
        inject.folder_switch("wait-for-baton"), ONE_NODE, HANG, frozenset({"hang_in_python"}),
    ),
    unseen(
        "u-hang-early-stop", "hang", "ddp",
        "one rank decides by its own loss to stop early and waits in the barrier at the end, the others train on",
        inject.switch("stop-early"), ONE_RANK, HANG, frozenset({"hang_missing_rank"}), nodes=3, ranks=1,
    ),
)  # fmt: skip
SILENT: tuple[Case, ...] = (
    unseen(
        "u-quiet-epochs", "clean", "conv",
        "nothing but epochs of 60 batches, at whose end all loaders start anew",
        None, NONE, SILENCE, arguments=("--epoch", "60"),
    ),
    unseen(
        "u-quiet-heartbeat", "quiet", "pipeline",
        "a thread of each rank notes all 50 ms that the rank lives",
        inject.switch("beat"), ALL, SILENCE,
    ),
    unseen(
        "u-quiet-passing-copy", "quiet", "ddp",
        "a copy leaves one node {size} of its link for two seconds, long before the window",
        inject.link_for(2.0), ONE_NODE, SILENCE, size=300, unit="Mbit/s", onset=ENDS,
    ),
)  # fmt: skip
CASES: tuple[Case, ...] = (*SLOW, *HANGS, *SILENT)
