"""Who this worker is: process group and environment -> model.Identity. Reads the host's name, and /proc."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from eroica_otel.config import WorkerConfig
from eroica_otel.model import Identity

RANKS = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK")
WORLDS = ("WORLD_SIZE", "SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE")
LOCALS = ("LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID")
LOCAL_WORLDS = ("LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS")
JOBS = (
    "OTEL_SERVICE_NAME",
    "JOB_NAME",
    "JOBSET_NAME",
    "RAY_JOB_NAME",
    "SLURM_JOB_NAME",
    "TORCHELASTIC_RUN_ID",
)
"""Where the job's name stands, by rank; a run id of torchrun counts unless it is the default or a random one."""


_DIGITS = 9


def _first(environment: Mapping[str, str], names: Sequence[str]) -> str:
    return next((environment[name] for name in names if environment.get(name, "").strip()), "")


def _number(text: str, default: int) -> int:
    text = text.strip()
    return int(text) if text.isdecimal() and len(text) <= _DIGITS else default


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
    rank, world = _place(distributed) or _told(environment)[:2]
    return Identity(
        # The script's name is one of the training's code: where those are to be hidden it names no job.
        training_job=config.training_job or job_name(environment, argv if config.redact == "none" else ()),
        team=config.team or resource_attributes(environment).get("service.namespace", ""),
        rank=rank,
        host=resource_attributes(environment).get("host.name") or socket.gethostname(),
        role="",
        world_size=max(world, 1),
        local_rank=_local_rank(environment, rank),
        run_id=environment.get("TORCHELASTIC_RUN_ID", "") or environment.get("SLURM_JOB_ID", ""),
        restart=_number(environment.get("TORCHELASTIC_RESTART_COUNT", ""), 0),
    )


def problem(environment: Mapping[str, str], distributed: Any = None) -> str:
    """Say what is wrong with the variables that tell rank and size, and the remedy; "" where they are not needed."""
    return "" if _place(distributed) is not None else _told(environment)[2]


def _told(environment: Mapping[str, str]) -> tuple[int, int, str]:
    """Return rank and size by the launcher's variables, and what is wrong with them.

    A size that cannot be is not believed: the worker is taken for one alone, and waits for no others.
    """
    names = [next((name for name in some if environment.get(name, "").strip()), "") for some in (RANKS, WORLDS)]
    rank, size = (_number(environment.get(name, default), -1) for name, default in zip(names, "01", strict=True))
    if rank >= 0 and (not names[1] or rank < size):
        return rank, size, ""
    rank = max(rank, 0)
    given = " with ".join(f"{name}={environment[name][:40]!r}" for name in names if name)
    remedy = "give each process its rank, from 0, and the number of all"
    return rank, 1, f"{given} cannot be: {remedy}; this one is watched alone, as rank {rank}"


def is_another(identity: Identity, distributed: Any = None) -> bool:
    """Whether the process group tells of another rank or size than is known: it may come after the first input."""
    return (_place(distributed) or (identity.rank, identity.world_size)) != (identity.rank, identity.world_size)


def _place(distributed: Any) -> tuple[int, int] | None:
    """Return rank and size by the process group, None while there is none."""
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    return distributed.get_rank(), distributed.get_world_size()


def pod_of(environment: Mapping[str, str]) -> str:
    """Return the name of the Kubernetes pod, "" outside one.

    A pod on its node's network has the node's host name, so what a manifest tells comes first.
    """
    told = resource_attributes(environment).get("k8s.pod.name", "")
    told = told or environment.get("K8S_POD_NAME", "") or environment.get("POD_NAME", "")
    return told or (environment.get("HOSTNAME", "") if "KUBERNETES_SERVICE_HOST" in environment else "")


def is_launched_as_rank_zero(
    environment: Mapping[str, str], multiprocessing_child: bool, proc: Path = Path("/proc")
) -> bool:
    """Whether this process was started as rank 0 of a job, and did not only inherit the variable from a rank.

    A child of multiprocessing is a rank when it has set the variable itself; another process, unless the Python
    process above it was started with the same one.
    """
    name = next((name for name in RANKS if environment.get(name, "").strip()), "")
    if not name or environment[name].strip() != "0":
        return False
    if multiprocessing_child:
        return f"{name}=0" not in _started_with(proc / "self")
    above = proc / str(os.getppid())
    return "python" not in _command(above) or f"{name}=0" not in _started_with(above)


def _started_with(process: Path) -> list[str]:
    try:
        return (process / "environ").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return []


def _command(process: Path) -> str:
    try:
        return (process / "cmdline").read_bytes().split(b"\0")[0].decode(errors="replace")
    except OSError:
        return ""


def _local_rank(environment: Mapping[str, str], rank: int) -> int:
    """Return the rank inside the node; where nobody tells (mp.spawn), one that no other rank of the node has.

    That is the rank itself, or its place among the node's ranks where their number is told.
    """
    ranks_here = _number(_first(environment, LOCAL_WORLDS), 0)
    return _number(_first(environment, LOCALS), rank % ranks_here if ranks_here else rank)
