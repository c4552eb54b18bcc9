"""Ranks of real gloo groups, forked for each layout; not a test itself. Prints the role of each rank as JSON."""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

from eroica_otel.signals.parallel import role_of

Layout = Callable[[], object]


def mesh(*shape: int, names: tuple[str, ...] | None) -> Layout:
    return lambda: init_device_mesh("cpu", shape, mesh_dim_names=names)


def described(**groups: tuple[tuple[int, ...], ...]) -> Layout:
    """Return a layout of groups by their description, as Megatron-LM makes them."""
    return lambda: [
        dist.new_group(list(ranks), group_desc=text) for text, several in groups.items() for ranks in several
    ]


def both(*layouts: Layout) -> Layout:
    return lambda: [layout() for layout in layouts]


STAGES = ((0, 2), (1, 3))
LAYOUTS: dict[str, tuple[int, Layout]] = {
    "stages": (4, mesh(2, 2, names=("pp", "dp"))),
    "stages inside": (4, mesh(2, 2, names=("dp", "pp"))),
    "no stages": (4, mesh(2, 2, names=("dp", "tp"))),
    "no names": (4, mesh(2, 2, names=None)),
    "one stage": (4, mesh(1, 4, names=("pp", "dp"))),
    "stages alone": (4, mesh(4, names=("pp",))),
    "experts alone": (4, mesh(2, 2, names=("dp", "ep"))),
    "few experts": (4, mesh(2, 2, names=("pp", "ep"))),
    "many experts": (16, mesh(2, 4, 2, names=("pp", "dp", "ep"))),
    "megatron": (4, described(PIPELINE_MODEL_PARALLEL_GROUP=STAGES, TENSOR_MODEL_PARALLEL_GROUP=((0, 1), (2, 3)))),
    "undescribed": (4, lambda: [dist.new_group(list(ranks)) for ranks in STAGES]),
    "two that agree": (4, both(mesh(2, 2, names=("pp", "dp")), mesh(2, 2, names=("pp", "tp")))),
    "two that differ": (4, both(mesh(2, 2, names=("pp", "dp")), mesh(2, 2, names=("dp", "pp")))),
}


def say(layout: Layout, store: Path, rank: int, world: int, result: int) -> None:
    """Be one rank, and end."""
    try:
        dist.init_process_group(
            "gloo", init_method=f"file://{store}", rank=rank, world_size=world, timeout=timedelta(seconds=60)
        )
        layout()
        os.write(result, (json.dumps([rank, role_of(dist)]) + "\n").encode())
        dist.barrier()
    finally:
        if sys.exc_info()[0] is not None:
            traceback.print_exc()
        os._exit(0)


def roles(layout: Layout, store: Path, world: int) -> list[str]:
    """Fork the ranks and return what each says."""
    reads, writes = os.pipe()
    children = []
    for rank in range(world):
        child = os.fork()
        if not child:
            say(layout, store, rank, world, writes)
        children.append(child)
    os.close(writes)
    with os.fdopen(reads) as answers:
        said = dict(json.loads(line) for line in answers)
    for child in children:
        os.waitpid(child, 0)
    return [said[rank] for rank in range(world)]


def main() -> None:
    folder = Path(sys.argv[1])
    print(json.dumps({name: roles(layout, folder / name, world) for name, (world, layout) in LAYOUTS.items()}))


if __name__ == "__main__":
    main()
