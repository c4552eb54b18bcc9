"""Which part of the model this process holds, as far as its process groups are described; torch is an argument.

torch's DeviceMesh describes a group by "mesh_" and the name of its dimension (torch/distributed/device_mesh.py, since
pytorch#136558 of September 2024), Megatron-LM by PIPELINE_MODEL_PARALLEL_GROUP and EXPERT_MODEL_PARALLEL_GROUP
(megatron/core/parallel_state.py). DeepSpeed describes none (deepspeed/comm/torch.py), and of a dimension that all ranks
share DeviceMesh makes the default group, whose description says nothing.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

EVERYBODY = "all"
FEWEST_SHARING = 4
"""Workers that an expert's place must have, each of which then has three peers: with fewer nobody is compared."""
_STAGES = frozenset({"pp", "pipe", "pipeline", "pipeline_parallel", "pipeline_model_parallel"})
_EXPERTS = frozenset({"ep", "expert_parallel", "expert_model_parallel"})


class _Place(NamedTuple):
    """Number of this process in a group, from 0, and how many the group has."""

    number: int
    size: int


def role_of(distributed: Any) -> str:
    """Return pp<N> for stage N of a pipeline, pp<N>-ep<M> where its experts are parallel too, else "all".

    Stages do different work and are never compared. Those that hold different experts do the same kind of work, so they
    stay together where a place of its own would leave a worker without peers.
    """
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return EVERYBODY
    stage, expert = _place(distributed, _STAGES), _place(distributed, _EXPERTS)
    if stage is None:
        return EVERYBODY
    if expert is None or distributed.get_world_size() < FEWEST_SHARING * stage.size * expert.size:
        return f"pp{stage.number}"
    return f"pp{stage.number}-ep{expert.number}"


def _place(distributed: Any, words: Collection[str]) -> _Place | None:
    """Return the place in the group that is described so; None without one of several, and where two are different."""
    world, rank = getattr(distributed.distributed_c10d, "_world", None), distributed.get_rank()
    ranks_of = getattr(world, "pg_group_ranks", {})
    described = [group for group in list(getattr(world, "pg_map", {})) if _word(group) in words]
    found = {tuple(sorted(ranks_of.get(group, ()))) for group in described}
    if len(found) != 1:
        return None
    (ranks,) = found
    return _Place(ranks.index(rank), len(ranks)) if rank in ranks and len(ranks) > 1 else None


def _word(group: Any) -> str:
    return str(getattr(group, "group_desc", "")).lower().removeprefix("mesh_").removesuffix("_group")
