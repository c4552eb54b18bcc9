"""Who this worker is: process group and environment -> model.Identity. Pure but for the host's name."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from eroica_otel.config import WorkerConfig
from eroica_otel.model import Identity

RANKS = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK")
WORLDS = ("WORLD_SIZE", "SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE")
LOCALS = ("LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID")
JOBS = (
    "OTEL_SERVICE_NAME",
    "JOB_NAME",
    "JOBSET_NAME",
    "RAY_JOB_NAME",
    "SLURM_JOB_NAME",
    "TORCHELASTIC_RUN_ID",
)
"""Where the job's name stands, by rank; a run id of torchrun counts unless it is the default or a random one."""


def _first(environment: Mapping[str, str], names: Sequence[str]) -> str:
    return next((environment[name] for name in names if environment.get(name, "").strip()), "")


def _number(text: str, default: int) -> int:
    return int(text) if text.strip().isdecimal() else default


def resource_attributes(environment: Mapping[str, str]) -> dict[str, str]:
    """Return OTEL_RESOURCE_ATTRIBUTES as a dictionary; malformed items are left out."""
    items = (item.split("=", 1) for item in environment.get("OTEL_RESOURCE_ATTRIBUTES", "").split(",") if "=" in item)
    return {key.strip(): value.strip() for key, value in items}


def job_name(environment: Mapping[str, str], argv: Sequence[str]) -> str:
    """Return the name of the job: a variable of JOBS, else service.name, else the script's name."""
    for name in JOBS:
        value = environment.get(name, "").strip()
        if value and not (name == "TORCHELASTIC_RUN_ID" and (value == "none" or len(value) == 36)):
            return value
    script = Path(argv[0]) if argv and argv[0] else Path()
    stem = script.parent.name if script.stem == "__main__" else script.stem
    return resource_attributes(environment).get("service.name") or stem or "training"


def resolve(
    config: WorkerConfig, environment: Mapping[str, str], argv: Sequence[str], distributed: Any = None
) -> Identity:
    """Return this worker's identity.

    Args:
        config: Options that win over the environment.
        environment: The process environment.
        argv: The process' arguments, for the script's name.
        distributed: The module torch.distributed if it is imported; its process group wins over variables.
    """
    rank = _number(_first(environment, RANKS), 0)
    world = _number(_first(environment, WORLDS), 1)
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        rank, world = distributed.get_rank(), distributed.get_world_size()
    return Identity(
        training_job=config.training_job or job_name(environment, argv),
        team=config.team or resource_attributes(environment).get("service.namespace", ""),
        rank=rank,
        host=resource_attributes(environment).get("host.name") or socket.gethostname(),
        role="",
        world_size=max(world, 1),
        local_rank=_number(_first(environment, LOCALS), 0),
        run_id=environment.get("TORCHELASTIC_RUN_ID", "") or environment.get("SLURM_JOB_ID", ""),
        restart=_number(environment.get("TORCHELASTIC_RESTART_COUNT", ""), 0),
    )
