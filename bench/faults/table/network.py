"""Rows: links that are slow, lose packets, come and go or are shared. Gloo's ring: rank r sends to a neighbour, so that
one slow node holds all of them up alike and only the links tell.
"""

from __future__ import annotations

from bench.faults.case import ALL, ENDS, HANG, JOB, LINK, ONE_NODE, ONE_RANK, SILENCE, TWO_RANKS, Case
from bench.faults.faults import inject
from bench.faults.table.right import ALL_LINKS, FLAPPING, SLOW_TRAFFIC

NIC = frozenset({"nic_degraded"})

CASES: tuple[Case, ...] = (
    Case(
        "link", "network", "ddp", "one node's link at {size}, both ways", inject.link(), ONE_NODE, LINK, NIC,
        150, "Mbit/s", 4, 1, source="NVIDIA/nccl-tests#106",
    ),
    Case(
        "link-send", "network", "ddp", "one node sends at {size}, receives as ever", inject.link("send"), ONE_NODE,
        LINK, NIC, 150, "Mbit/s", 4, 1,
    ),
    Case(
        "link-receive", "network", "ddp", "one node receives at {size}, sends as ever", inject.link("receive"),
        ONE_NODE, LINK, NIC, 150, "Mbit/s", 4, 1,
    ),
    Case(
        "link-mild", "network", "ddp", "one node's link at {size} where others have 1000", inject.link(), ONE_NODE,
        LINK, NIC, 400, "Mbit/s", 4, 1,
    ),
    Case(
        "link-severe", "network", "ddp", "one node's link at {size}", inject.link(), ONE_NODE, LINK, NIC,
        40, "Mbit/s", 4, 1, source="NVIDIA/nccl-tests#106",
    ),
    Case(
        "link-two-ranks-a-node", "network", "ddp", "the link of a node with two ranks at {size}", inject.link(),
        ONE_NODE, LINK, NIC, 150, "Mbit/s", 4, 2,
    ),
    Case(
        "link-fsdp", "network", "fsdp", "one node's link at {size}", inject.link(), ONE_NODE, LINK, NIC,
        200, "Mbit/s", 4, 1, source="NVIDIA/nccl-tests#106",
    ),
    Case(
        "link-experts", "network", "experts", "one node's link at {size}, tokens go from all to all", inject.link(),
        ONE_NODE, LINK, NIC, 150, "Mbit/s", 4, 1,
    ),
    Case(
        "link-hf", "network", "hf", "one node's link at {size}", inject.link(), ONE_NODE, LINK, NIC,
        150, "Mbit/s", 4, 1,
    ),
    Case(
        "link-20-s-window", "network", "ddp", "one node's link at {size}, both ways", inject.link(), ONE_NODE, LINK,
        NIC, 150, "Mbit/s", 4, 1, window_seconds=20.0,
    ),
    Case(
        "nic-shared", "network", "ddp", "two nodes behind one port of {size}", inject.shared_nic(), TWO_RANKS, LINK,
        NIC, 150, "Mbit/s", 6, 1, source="NVIDIA/nccl#820",
    ),
    Case(
        "foreign-traffic", "network", "ddp", "another job copies data from one node over its link", inject.traffic(),
        ONE_NODE, LINK, SLOW_TRAFFIC, nodes=4, ranks=1,
    ),
    Case(
        "link-flapping", "network", "ddp", "one node's link is down for {size} of every 2.5 s", inject.flapping(2.1),
        ONE_NODE, LINK, FLAPPING, 0.4, "s", 4, 1, source="NVIDIA/nccl#905",
    ),
    Case(
        "link-flapping-often", "network", "fsdp", "one node's link is down for {size} about every second",
        inject.flapping(0.9), ONE_NODE, LINK, FLAPPING, 0.1, "s", 4, 1, source="NVIDIA/nccl#905",
    ),
    Case(
        "packet-loss", "network", "ddp", "{size} of the packets to one node are lost", inject.loss(), ONE_NODE, LINK,
        NIC, 10, "%", 4, 1, source="NVIDIA/nccl#2157",
    ),
    Case(
        "packet-loss-fsdp", "network", "fsdp", "{size} of the packets to one node are lost", inject.loss(), ONE_NODE,
        LINK, NIC, 12, "%", 4, 1,
    ),
    Case(
        "all-links", "network", "ddp", "all links at {size} where they had 1000", inject.link(), ALL, JOB, ALL_LINKS,
        150, "Mbit/s", 4, 1, source="areal-project/AReaL#639",
    ),
    Case(
        "all-packet-loss", "network", "ddp", "{size} of all packets are lost", inject.loss(), ALL, JOB, ALL_LINKS,
        8, "%", 4, 1, source="NVIDIA/nccl#1403",
    ),
    # The reports stop at the cut link: nothing of this rank arrives any more, which is what a dead node looks like.
    Case(
        "link-cut", "network", "ddp", "one node's link goes down and stays down", inject.cut(), ONE_RANK, HANG,
        frozenset({"hang_missing_rank"}), nodes=4, ranks=1, source="NVIDIA/nccl#2157",
    ),
    # Over before the job is slow for long enough to be looked at: what is left to see is a healthy job.
    Case(
        "link-down-for-seconds", "network", "ddp", "one node's link is down for {size}, once", inject.down(),
        ONE_RANK, SILENCE, frozenset(), 4, "s", 4, 1, onset=ENDS, source="NVIDIA/nccl#905",
    ),
)  # fmt: skip
