"""Writes a Kineto trace of one GPU worker as torch prints it, of any size, streaming, the same bytes for a seed.

A launch is four complete events: two nested operators, the runtime's call and its kernel; every fourth has its flow
events. Now and then there is a collective on a stream of its own, a copy and a synchronisation, and each iteration has
its ProfilerStep. Without python_function events (capture mode ``light`` samples stacks itself). About 333 bytes for
each complete event, so 5 million are 1.67 GB, as on an 8-GPU node with shapes off.

    python -m bench.synthetic.kineto FILE --events 1000000
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

BASE_NS = 1_790_857_026_000_000_000
"""baseTimeNanoseconds: times in the file are microseconds from here on."""
WINDOW_NS = 20_000_000_000
ITERATIONS = 100
A_LAUNCH, A_STEP = 4, 1
CHUNK = 4096
"""Launches between two writes."""
_PID, _THREAD, _STREAM, _COMMS = 3412, 3412, 7, 20

_HEADER = """\
{
  "schemaVersion": 1,
  "deviceProperties": [
    {
      "id": 0, "name": "Synthetic GPU", "totalGlobalMem": 84974239744, "computeMajor": 9, "computeMinor": 0,
      "numSms": 132
    }
  ],
  "cupti_version": 26,
  "distributedInfo": {"backend": "nccl", "rank": %d, "world_size": %d, "pg_count": 1, "pg_config": [{"pg_name": "0",\
 "pg_desc": "default_pg", "backend_config": "cuda:nccl", "pg_size": %d, "ranks": []}], "nccl_version": "2.27.5"},
  "record_shapes": 0,
  "with_stack": 0,
  "baseTimeNanoseconds": %d,
  "displayTimeUnit": "ms",
  "traceEvents": ["""
_OPERATOR = """
  {
    "ph": "X", "cat": "cpu_op", "name": "%s", "pid": %d, "tid": %d,
    "ts": %s, "dur": %s,
    "args": {
      "External id": %d,"Record function id": 0, "Ev Idx": %d
    }
  },"""
_RUNTIME = """
  {
    "ph": "X", "cat": "cuda_runtime", "name": "%s", "pid": %d, "tid": %d,
    "ts": %s, "dur": %s,
    "args": {
      "External id": %d,"cbid": 211, "correlation": %d
    }
  },"""
_KERNEL = """
  {
    "ph": "X", "cat": "%s", "name": "%s", "pid": 0, "tid": %d,
    "ts": %s, "dur": %s,
    "args": {
      "External id": %d,"queued": 0, "device": 0, "context": 1,
      "stream": %d, "correlation": %d,%s
      "registers per thread": 32, "shared memory": 16, "blocks per SM": 7.5, "warps per SM": 30.0,
      "grid": [990, 1, 1], "block": [128, 1, 1],
      "est. achieved occupancy %%": 47
    }
  },"""
_COLLECTIVE = (
    '\n      "Collective name": "allreduce", "In msg nelems": %d, "Out msg nelems": %d, "Group size": %d, "dtype":'
    ' "BFloat16", "Process Group Name": "0", "Process Group Description": "default_pg",'
)
_FLOW = """
  {
    "ph": "%s", "id": %d, "pid": %d, "tid": %d, "ts": %s,
    "cat": "ac2g", "name": "ac2g"%s
  },"""
_STEP = """
  {
    "ph": "X", "cat": "user_annotation", "name": "ProfilerStep#%d", "pid": %d, "tid": %d,
    "ts": %s, "dur": %s,
    "args": {
      "External id": %d,"Record function id": 0, "Ev Idx": %d
    }
  },"""
_END = """
  {
    "name": "Record Window End", "ph": "i", "s": "g",
    "pid": "", "tid": "", "ts": %s
  }
  ],
  "traceName": "synthetic.json"
}
"""
_MODULES = ("linear", "layer_norm", "gelu", "softmax", "dropout", "add", "mul", "matmul", "bmm", "embedding")
_KERNELS = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<c10::BFloat16>,"
    " std::array<char*, %dul> >(int, at::native::CUDAFunctor_add<c10::BFloat16>, std::array<char*, %dul>)",
    "nvjet_tst_%dx%d_64x5_2x1_v_bz_coopB_TNT",
    "void flash_fwd_kernel<Flash_fwd_kernel_traits<%d, %d, 64, 4, false, false, cutlass::bfloat16_t,"
    " Flash_kernel_traits<128, 128, 64, 4, cutlass::bfloat16_t> >, false, true, false, false, true, true, false,"
    " false>(Flash_fwd_params)",
    "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous namespace)::"
    "FusedOptimizerTensorListMetadata<%d>, at::native::(anonymous namespace)::FusedAdamMathFunctor<c10::BFloat16, %d,"
    " (at::native::ADAM_MODE)1, false>, float const*, double, double, double>(int)",
    "void (anonymous namespace)::layer_norm_kernel_%d<c10::BFloat16, float, %d>(int, float, c10::BFloat16 const*)",
    "ampere_bf16_s16816gemm_bf16_%dx%d_ldg8_f2f_stages_64x3_tn",
)


class Made(NamedTuple):
    """What was written: complete events and bytes."""

    events: int
    bytes: int


def write(path: Path, events: int, seed: int = 0, rank: int = 0, world: int = 8) -> Made:
    """Write a trace of ``events`` complete events (at least 1,000) that spans 20 s, and return what it became.

    Raises:
        ValueError: fewer than 1,000 events are asked for.
        OSError: it cannot be written.
    """
    if events < 1000:
        raise ValueError(f"{events} events are no window: give 1000 or more")
    with path.open("w", encoding="ascii") as file:
        file.write(_HEADER % (rank, world, world, BASE_NS))
        for text in _chunks(events, random.Random(seed), world):
            file.write(text)
        file.write(_END % _microseconds(WINDOW_NS))
    return Made(events, path.stat().st_size)


def _chunks(events: int, rng: random.Random, world: int) -> Iterator[str]:
    """Yield the events as text: steps first, as torch does not sort; then launch after launch."""
    rows = [_STEP % (k, _PID, _THREAD, *_times(k * _step(), _step() - 50_000), k, k) for k in range(ITERATIONS)]
    left = events - ITERATIONS * A_STEP
    launches, rest = divmod(left, A_LAUNCH)
    names = [kernel % (rng.randrange(1, 9) * 16, rng.randrange(1, 9) * 32) for kernel in _KERNELS * 100]
    for launch in range(launches):
        rows += _launch(launch, launches, rng, names, world)
        if launch % CHUNK == CHUNK - 1:
            yield "".join(rows)
            rows = []
    rows += [
        _RUNTIME % ("cudaStreamSynchronize", _PID, _THREAD, *_times(WINDOW_NS - 60_000 + k, 900), 0, 0)
        for k in range(rest)
    ]
    yield "".join(rows)


def _launch(number: int, of: int, rng: random.Random, names: list[str], world: int) -> Iterator[str]:
    """Yield the events of one launch; the device runs behind the host and is busy for most of the time."""
    period = (WINDOW_NS - 200_000) // of
    start = number * period + rng.randrange(1 + period // 8)
    inside = period // 16
    module, chosen, ids = _MODULES[number % len(_MODULES)], rng.random(), 8 * number
    yield _OPERATOR % (f"aten::{module}", _PID, _THREAD, *_times(start, period * 3 // 4), ids, ids)
    yield _OPERATOR % (f"aten::_{module}_out", _PID, _THREAD, *_times(start + inside, period // 2), ids + 1, ids + 1)
    call = "cudaLaunchKernel" if number % 50 else "cudaMemcpyAsync"
    yield _RUNTIME % (call, _PID, _THREAD, *_times(start + 2 * inside, period // 4), ids + 1, ids)
    begin = start + period // 2 + rng.randrange(1 + period // 4)
    if number % 100 == 99:
        size = rng.randrange(1 << 20, 1 << 24)
        name, extra = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", _COLLECTIVE
        yield _device("kernel", name, _COMMS, begin, 4 * period, ids, extra % (size, size, world))
    elif number % 50 == 0:
        yield _device("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", _STREAM, begin, period // 2, ids, "")
    else:
        name = names[int(chosen * len(names))]
        yield _device("kernel", name, _STREAM, begin, period // 3 + rng.randrange(1 + period // 3), ids, "")
    if number % 4 == 0:
        yield _FLOW % ("s", ids, _PID, _THREAD, _microseconds(start + 2 * inside), "")
        yield _FLOW % ("f", ids, 0, _STREAM, _microseconds(begin), ', "bp": "e"')


def _device(category: str, name: str, stream: int, begin: int, length: int, ids: int, extra: str) -> str:
    return _KERNEL % (category, name, stream, *_times(begin, length), ids + 1, stream, ids, extra)


def _step() -> int:
    return WINDOW_NS // ITERATIONS


def _times(start: int, length: int) -> tuple[str, str]:
    return _microseconds(start), _microseconds(length)


def _microseconds(nanoseconds: int) -> str:
    return f"{nanoseconds // 1000}.{nanoseconds % 1000:03d}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    made = write(arguments.file, arguments.events, arguments.seed)
    print(f"{made.events} events, {made.bytes} bytes, {made.bytes / made.events:.0f} each")


if __name__ == "__main__":
    main()
