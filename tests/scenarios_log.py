"""The rows themselves: those of whole iterations. What stands still is in scenarios_hang.py."""

from __future__ import annotations

from dataclasses import replace

from factories_localize import Rank, rank
from scenarios import (
    HEALTHY_HOST,
    Scenario,
    attention,
    backward_hook,
    collect,
    compile_frame,
    copied,
    free,
    grouped,
    hosted,
    kernel,
    launch,
    linked,
    malloc,
    many_frames,
    mixed,
    next_batch,
    operator,
    pack,
    pre_forward,
    prepare,
    read_file,
    read_own,
    record,
    save,
    sync,
    tokenize,
    transform,
    write_log,
)

CODE, DATA = "code", "data"
AWAY, NEAR = {"numa_away": 0.4}, {"numa_away": 0.0}


def _on_cpu(*ms: float, host: dict[str, float] = NEAR) -> list[Rank]:
    return pack(prepare, *ms, host=host, base=(kernel(13.9),))


_PREPARE = (0.22, 0.22, 44.0, 45.0, 46.0, 47.0, 48.0, 50.0)

PYTHON = (
    Scenario(
        "NVIDIA/srt-slurm#332", "prep 0.22 ms alone, 35 to 56 ms with 8 ranks; step 70.4 ms, 14.1 once bound",
        mixed(_on_cpu(*_PREPARE), _on_cpu(*_PREPARE, host=AWAY), 2, 3, 4, 5, 6, 7),
        _on_cpu(*_PREPARE, host=AWAY),
        "numa_misplaced", (2, 3, 4, 5, 6, 7), _on_cpu(*[0.22] * 8), window={"transfer_ms": 1.0},
    ),
    Scenario(
        "pytorch/torchtitan#148", "1.5 % of the step are collections, at another rank each time",
        pack(collect, 0, 0, 15, 0, base=(kernel(900),)), (), "", window={"transfer_ms": 85.0},
    ),
    Scenario(
        "marin-community/marin#9224", "pauses of 1.25 to 1.46 s: one of them in four iterations of 4 s",
        pack(collect, 0, 0, 1250 / 4, 0, base=(kernel(3600),)), pack(collect, *[1250 / 4] * 4, base=(kernel(3600),)),
        "gc_pause", (2,), domain=CODE, window={"iterations": 4, "transfer_ms": 100.0},
    ),
    Scenario(
        "pytorch/pytorch#117550", "one rank is longest in _pre_forward and shortest in the all-gather (no numbers)",
        pack(pre_forward, 2, 30, 2, 2), pack(pre_forward, *[30] * 4), "python_overhead", (1,), domain=CODE,
    ),
    Scenario(
        "traceopt-ai/traceml#252", "200 ms in backward of rank 1: 292 to 293 ms on all",
        pack(backward_hook, 0, 200, 0, 0), pack(backward_hook, *[200] * 4),
        "python_blocked", (1,), domain=CODE, window={"transfer_ms": 43.0},
    ),
    Scenario(
        "InternLM/xtuner#1790", "step 381 s: data time median 2.8 ms, ranks 144 to 147 195 to 332 s",
        hosted(pack(next_batch, *[2.8] * 144, 195e3, 240e3, 290e3, 332e3, *[2.8] * 12, base=(kernel(30e3),)), 4),
        hosted(pack(next_batch, *[332e3] * 160, base=(kernel(30e3),)), 4),
        "slow_input", (144, 145, 146, 147), domain=DATA, scope="node",
        window={"iterations": 3, "transfer_ms": 19e3},
    ),
    Scenario(
        "horovod/horovod#824", "the samples lie on an NFS share, a local SSD cures it (no numbers)",
        pack(read_file, *[60] * 4), pack(read_own, *[60] * 4), "storage_slow", (), pack(read_file, *[3] * 4),
    ),
    Scenario(
        "horovod/horovod#824", "the same, the file is opened by the data set itself",
        pack(read_own, *[60] * 4, host={"process_disk_read": 2e8}), pack(read_own, *[60] * 4),
        "storage_slow", (), pack(read_own, *[3] * 4),
    ),
    Scenario(
        "nasa-nccs-hpda/pytorch-caney#44", "0.19 against 2.47 batches a second: too few CPUs, not Lustre",
        pack(transform, *[5190] * 4, host={"cgroup_cpu": 1.0}, throttled_ratio=0.4), pack(transform, *[5190] * 4),
        "cpu_starved", (), pack(transform, *[330] * 4),
    ),
    Scenario(
        "mlfoundations/open_clip#703", "a stall every num_workers steps on 16 ranks, storage suspected",
        pack(next_batch, *[80] * 16), pack(next_batch, *[4] * 16), "slow_input", (), pack(next_batch, *[4] * 16),
        domain=DATA,
    ),
    Scenario(
        "AnswerDotAI/ModernBERT#236", "about 30 % of full speed: the tokenizer runs in the input",
        pack(tokenize, *[165] * 8), pack(tokenize, *[2] * 8), "slow_input", (), pack(tokenize, *[2] * 8), domain=DATA,
    ),
    Scenario(
        "", "a save in every window takes longer on rank 0",
        pack(save, 30, 2, 2, 2), pack(write_log, 30, 2, 2, 2), "checkpoint_stall", (0,), domain=CODE,
    ),
    Scenario(
        "pytorch/pytorch#147039", "many Python frames of rank 0 slightly slower while a thread of an async save runs",
        [rank(*many_frames(8 if at == 0 else 5), base=(kernel(50),), host_use=HEALTHY_HOST) for at in range(4)],
        [rank(*many_frames(8), base=(kernel(50),), host_use=HEALTHY_HOST) for at in range(4)],
        "python_blocked", (0,), domain=CODE,
    ),
    Scenario(
        "karpathy/nanochat#722", "the compiler's cache is warm on all nodes but one",
        pack(compile_frame, 2, 2, 90, 2), pack(write_log, 2, 2, 90, 2), "recompilation", (2,), domain=CODE,
    ),
    Scenario(
        "", "pages come back from swap while an operator runs",
        mixed(pack(operator, *[40] * 4), pack(operator, *[80] * 4, host={"major_faults": 300.0}), 1),
        pack(operator, 40, 80, 40, 40), "memory_pressure", (1,),
    ),
)  # fmt: skip

_BUSY = {"process_cpu": 118 / 128}

HOST = (
    Scenario(
        "pytorch/pytorch#25010", "all cores are busy with copies of the pin-memory thread",
        pack(operator, *[80] * 4, host={"process_cpu": 0.98}), pack(operator, *[80] * 4),
        "cpu_contention", (), pack(operator, *[40] * 4), info=True, window={"reason": "degraded"},
    ),
    Scenario(
        "pytorch/torchtitan#4038", "step 112 against 87 s, 118 against 18 busy cores: OMP_NUM_THREADS unset",
        pack(launch, *[30e3] * 8, host=_BUSY, base=(kernel(77e3),)), pack(launch, *[30e3] * 8, base=(kernel(77e3),)),
        "cpu_contention", (), pack(launch, *[5e3] * 8, base=(kernel(77e3),)), info=True,
        window={"transfer_ms": 5e3, "iterations": 16},
    ),
    Scenario(
        "Lightning-AI/lightning-thunder#420", "868 against 729 ms on 8 H100: cudaMalloc and cudaFree",
        pack(malloc, *[141] * 8, base=(kernel(690), free(2))), pack(launch, *[141] * 8, base=(kernel(690),)),
        "allocator_churn", (), pack(malloc, *[2] * 8, base=(kernel(690), free(2))), domain=CODE,
        window={"transfer_ms": 35.0},
    ),
    Scenario(
        "pytorch/pytorch#104509", "7.3 against 5.3 s: 46 against 0 retries of cudaMalloc",
        pack(free, *[2000] * 4, base=(kernel(5100),)), pack(launch, *[2000] * 4, base=(kernel(5100),)),
        "allocator_churn", (), pack(free, *[0] * 4, base=(kernel(5100),)), domain=CODE, window={"transfer_ms": 200.0},
    ),
    Scenario(
        "pytorch/pytorch#103737", "many cudaFree after the sharded optimizer's state was loaded (no numbers)",
        pack(free, *[30] * 4), pack(free, *[3] * 4), "allocator_churn", (), pack(free, *[3] * 4), domain=CODE,
    ),
    Scenario(
        "meta-pytorch/torchtune#522", "40 to 50 ms a step in cudaStreamSynchronize on all: loss.item()",
        pack(sync, *[45] * 4, base=(kernel(120),)), pack(sync, *[10] * 4, base=(kernel(120),)),
        "host_sync", (), pack(sync, *[45] * 4, base=(kernel(120),)), domain=CODE, info=True,
        window={"reason": "manual"},
    ),
    Scenario(
        "meta-pytorch/torchtune#522", "the same from the day on which it came in",
        pack(sync, *[47] * 4, base=(kernel(120),)), pack(launch, *[47] * 4, base=(kernel(120),)),
        "host_sync", (), pack(sync, *[2] * 4, base=(kernel(120),)), domain=CODE,
    ),
    Scenario(
        "hao-ai-lab/FastVideo#1217", "45.2 % of the time the GPU is idle, in item() and copies that block",
        pack(sync, *[452, 452], base=(kernel(520),)), pack(sync, *[50, 50], base=(kernel(520),)),
        "host_sync", (), pack(sync, *[452, 452], base=(kernel(520),)), domain=CODE, info=True,
        window={"reason": "manual", "transfer_ms": 28.0},
    ),
    Scenario(
        "lnccbrown/LANfactory#120", "the sync showed work that was waited for anyway: 4 %, not 85 %, to be had",
        pack(sync, *[4] * 4, base=(kernel(90),)), (), "", (), pack(sync, *[4] * 4, base=(kernel(90),)),
        window={"transfer_ms": 6.0, "reason": "manual"},
    ),
    Scenario(
        "pytorch/pytorch#183451", "760,795 to 598,963 tokens a second: CUDA graphs recorded again, 144 against 40",
        pack(record, *[213] * 4, base=(kernel(700),)), pack(launch, *[213] * 4, base=(kernel(700),)),
        "recompilation", (), pack(record, *[0] * 4, base=(kernel(700),)), domain=CODE, window={"transfer_ms": 87.0},
    ),
)  # fmt: skip


def _copies(*changed: tuple[int, float, float], resource: str = "pcie") -> list[Rank]:
    """Ranks with a copy of 10 ms at 90 % of the rate; changed are rank, ms and rate."""
    other = {at: (ms, rate) for at, ms, rate in changed}
    copies = [copied(*other.get(at, (10.0, 0.9)), resource) for at in range(4)]
    return [rank(copy, base=(kernel(50),), host_use=HEALTHY_HOST) for copy in copies]


def _clocks(*each: tuple[float, float | None], **host: float) -> list[Rank]:
    return [
        rank(kernel(*one), base=(), host_use=HEALTHY_HOST | (host if at == 2 else {})) for at, one in enumerate(each)
    ]


_COOL = (100.0, 0.95)
_LINKS = linked(8, 0.8, 0.05, 0.88)
_RING = hosted(linked(8, 0.8, 0.05, 0.88), 1)
_SLOW = {"nic_tx": 0.49, "nic_rx": 0.49}
_BESIDE = {4: {"nic_tx": 0.88, "nic_rx": 0.49}, 6: {"nic_tx": 0.49, "nic_rx": 0.88}, 5: _SLOW}

DEVICES = (
    Scenario(
        "Tencent-Hunyuan/UniRL#45", "28.4 against 15.3 s: long sequences on one rank, the GPU as the others",
        pack(attention, 13.1e3, 26.2e3, 13.1e3, 13.1e3, base=()),
        [rank(replace(attention(ms), use=("sm_clock", clock, 0.01)), base=(), host_use=HEALTHY_HOST)
         for ms, clock in ((13.1e3, 0.95), (26.2e3, 0.48), (13.1e3, 0.95), (13.1e3, 0.95))],
        "load_imbalance", (1,), domain=DATA, window={"transfer_ms": 2.2e3},
    ),
    Scenario(
        "local-inference-lab/rtx6kpro#88", "PCIe Gen2: 8, not 64 GB/s, while utilisation shows 100 %",
        _copies((3, 72.0, 8 / 64)), _copies((3, 72.0, 0.9)), "pcie_degraded", (3,),
    ),
    Scenario(
        "tensorflow/tensorflow#40042", "the GPU overheats: its kernels take longer at a lower clock (no numbers)",
        _clocks(_COOL, _COOL, (150.0, 0.63), _COOL, gpu_slowdown=1.0, gpu_power_cap=1.0),
        _clocks(_COOL, _COOL, (150.0, None), _COOL, gpu_slowdown=1.0), "gpu_throttled", (2,),
    ),
    Scenario(
        "tensorflow/tensorflow#40042", "the same, without a node agent that tells why the clock is low",
        [replace(one, changes={}) for one in _clocks(_COOL, _COOL, (150.0, 0.63), _COOL)],
        _clocks(_COOL, _COOL, (150.0, 0.63), _COOL), "gpu_throttled", (2,),
    ),
    Scenario(
        "", "one GPU's power limit is lower than the others'",
        _clocks(_COOL, _COOL, (150.0, 0.63), _COOL, gpu_power_cap=1.0), _clocks(_COOL, _COOL, (150.0, 0.63), _COOL),
        "gpu_power_capped", (2,),
    ),
    Scenario(
        "", "the memory of one GPU is slower than the others'",
        _copies((3, 40.0, 0.2), resource="dram"), _copies((3, 40.0, 0.88), resource="dram"), "gpu_memory_slow", (3,),
    ),
    Scenario(
        "NVIDIA/nccl-tests#106", "49 against 88 GB/s in all pairs with the same host",
        [replace(one, peaks=_BESIDE.get(at, one.peaks)) for at, one in enumerate(_RING)], _RING,
        "nic_degraded", (5,), window={"transfer_ms": 60.0},
    ),
    Scenario(
        "areal-project/AReaL#639", "an all-reduce of 1 GB takes 370, not 50 ms: sockets, not InfiniBand",
        linked(4, 0.11, 0.02, 0.12), linked(4, 0.8, 0.02, 0.9), "collective_inefficient", (),
        linked(4, 0.8, 0.02, 0.9), domain=CODE, window={"transfer_ms": 370.0}, earlier={"transfer_ms": 50.0},
    ),
    Scenario(
        "NVIDIA/nccl#1403", "a low, unstable rate over RoCE (no numbers)",
        linked(4, 0.3, 0.25, 0.6), linked(4, 0.3, 0.05, 0.35), "network_congestion", (), linked(4, 0.8, 0.05, 0.9),
        window={"transfer_ms": 130.0}, earlier={"transfer_ms": 50.0},
    ),
    Scenario(
        "NVIDIA/nccl#820", "two GPUs share a NIC, another is idle: half the rate in that group only",
        grouped(1, 4, (0.04, 0.02), "nic", (0.4, 0.8)), grouped(1, 4, (0.02, 0.02), "nic", (0.4, 0.8)),
        "collective_inefficient", (2, 3), domain=CODE, window={"transfer_ms": 50.0},
    ),
    Scenario(
        "NVIDIA/nccl#1086", "slower within a NUMA node than across: access control of PCIe sends it the long way",
        grouped(2, 4, (0.04, 0.02), "pcie", (0.4, 0.8)), grouped(2, 4, (0.04, 0.02), "pcie", (0.8, 0.8)),
        "pcie_degraded", (4, 5), window={"transfer_ms": 50.0},
    ),
    Scenario(
        "", "half of the NVLinks of one node are down",
        grouped(0, 4, (0.04, 0.02), "nvlink", (0.4, 0.8)), grouped(-1, 4, (0.04, 0.04), "nvlink", (0.4, 0.4)),
        "nvlink_degraded", (0, 1), window={"transfer_ms": 50.0},
    ),
    Scenario(
        "NVIDIA/nccl#905", "a link goes down and comes back (no numbers): twice in a window",
        mixed(_LINKS, linked(8, 0.8, 0.3, 0.88, link_down=0.1), 3), _LINKS, "link_flapping", (3,), _LINKS,
        window={"transfer_ms": 130.0}, earlier={"transfer_ms": 50.0},
    ),
)  # fmt: skip

ALL = PYTHON + HOST + DEVICES
