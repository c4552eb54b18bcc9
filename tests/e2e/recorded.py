"""One rank of three that torch's flight recorder watches: rank 2 leaves a collective out, and each writes its dump."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist


def left_out() -> None:
    """Do what the others do, without the collective."""
    dist.barrier()


def step() -> Any:
    dist.barrier()
    return dist.all_reduce(torch.ones(4), async_op=True)


def _open(recorder: Any) -> int:
    """Return how many calls have not ended."""
    return sum(not entry["retired"] for entry in json.loads(recorder._dump_fr_trace_json(True, False))["entries"])


def main(folder: Path, rank: int) -> None:
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=3)
    pair = dist.new_group([0, 1])
    dist.all_reduce(torch.ones(2, 2))
    if rank < 2:
        dist.all_reduce(torch.ones(3), group=pair)
    kept = None
    if rank < 2:
        kept = step()
    else:
        left_out()
    recorder: Any = torch._C._distributed_c10d
    while _open(recorder) > (rank < 2):  # what has ended is marked so a moment later
        time.sleep(0.01)
    (folder / "pickle" / f"rank_{rank}").write_bytes(recorder._dump_fr_trace(True, True, False))
    (folder / "json" / f"rank_{rank}.json").write_bytes(recorder._dump_fr_trace_json(True, False))
    ended = kept is not None and kept.is_completed()  # asked before the first leaves, which ends it with an error
    (folder / f"done_{rank}").touch()
    while len(list(folder.glob("done_*"))) < 3:
        time.sleep(0.05)
    os._exit(int(ended))  # an exit by the book would wait for what has not ended


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
