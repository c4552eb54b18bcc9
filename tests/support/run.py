"""One training process of the table: ``python -m support.run CASE FOLDER``; leaves truth-RANK.json in FOLDER.

How a process learns its rank, and where it meets the others, is as the case's launcher has it.
"""

from __future__ import annotations

import importlib
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
import torch.distributed as dist

import eroica_otel
from support.measure import Job
from support.registry import BY_NAME, FRAMEWORK, Case

PROCESSES: Any = importlib.import_module("torch.multiprocessing")  # without types
RANKS = {"variables": "RANK", "srun": "SLURM_PROCID", "mpirun": "OMPI_COMM_WORLD_RANK", "pmi": "PMI_RANK"}


def loop_of(case: Case) -> Callable[[Job], None]:
    """Return the training of the case."""
    name = case.loop or case.name
    if case.group == FRAMEWORK:
        from support import frameworks, inputs

        return {**frameworks.LOOPS, **inputs.LOOPS}[name]
    from support import parallel, single, updates

    return {**single.LOOPS, **updates.LOOPS, **parallel.LOOPS}[name]


def train(case: Case, rank: int, folder: Path) -> None:
    """Attach, train, leave the truth."""
    torch.set_num_threads(1)
    torch.manual_seed(7)
    handle = eroica_otel.instrument() if case.name != "late" else None
    job = Job(folder, rank, case.ranks)
    loop_of(case)(job)
    job.save()
    if case.launcher == "ray" and handle is not None:  # Ray ends the group itself, and its processes without an exit
        handle.close()
    elif dist.is_initialized():
        dist.barrier()
        dist.destroy_process_group()


def meet(case: Case, rank: int, method: str) -> None:
    dist.init_process_group("gloo", init_method=method, rank=rank, world_size=case.ranks)


def python(case: Case, folder: Path) -> None:
    train(case, 0, folder)


def torchrun(case: Case, folder: Path) -> None:
    dist.init_process_group("gloo")
    train(case, dist.get_rank(), folder)


def variables(case: Case, folder: Path) -> None:
    """srun, mpirun and their like: each process is told its rank by a variable of the launcher's."""
    rank = int(os.environ[RANKS[case.launcher]])
    meet(case, rank, os.environ["SUPPORT_MEET"])
    train(case, rank, folder)


def child(rank: int, name: str, folder: str) -> None:
    """One process of multiprocessing's."""
    case = BY_NAME[name]
    meet(case, rank, os.environ["SUPPORT_MEET"])
    train(case, rank, Path(folder))


def spawn(case: Case, folder: Path) -> None:
    eroica_otel.instrument()
    PROCESSES.spawn(child, (case.name, str(folder)), nprocs=case.ranks)


def fork(case: Case, folder: Path) -> None:
    eroica_otel.instrument()
    PROCESSES.start_processes(child, (case.name, str(folder)), nprocs=case.ranks, start_method="fork")


def late(case: Case, folder: Path) -> None:
    """As Ray does: the process exists before it has a rank, and does not train in its main thread."""
    eroica_otel.instrument()
    rank, port = os.environ["SUPPORT_LATE"].split()

    def training() -> None:
        os.environ.update(
            RANK=rank, LOCAL_RANK=rank, WORLD_SIZE=str(case.ranks), MASTER_ADDR="127.0.0.1", MASTER_PORT=port
        )
        dist.init_process_group("gloo")
        train(case, int(rank), folder)

    thread = threading.Thread(target=training, name="TrainingThread")
    thread.start()
    thread.join()


def ray_worker(config: dict[str, str]) -> None:
    """One of Ray Train's workers; it gets this function by value, all else by name."""
    from pathlib import Path

    from ray.train import get_context

    from support import registry, run

    run.train(registry.BY_NAME[config["case"]], get_context().get_world_rank(), Path(config["folder"]))


def ray(case: Case, folder: Path) -> None:
    """Ray Train makes the processes, their group, and a thread in each that trains."""
    from ray.train import RunConfig, ScalingConfig
    from ray.train.torch import TorchConfig, TorchTrainer

    from support.inputs import start_ray

    started = start_ray(case.ranks)
    TorchTrainer(
        ray_worker,
        train_loop_config={"case": case.name, "folder": str(folder)},
        torch_config=TorchConfig(backend="gloo"),
        scaling_config=ScalingConfig(num_workers=case.ranks),
        run_config=RunConfig(storage_path=str(folder / "ray")),
    ).fit()
    started.shutdown()


STARTS: MappingProxyType[str, Callable[[Case, Path], None]] = MappingProxyType(
    {
        "python": python,
        "torchrun": torchrun,
        "variables": variables,
        "srun": variables,
        "mpirun": variables,
        "pmi": variables,
        "spawn": spawn,
        "fork": fork,
        "late": late,
        "ray": ray,
    }
)


def main(name: str, folder: str) -> None:
    """Run the case ``name``."""
    case = BY_NAME[name]
    STARTS[case.launcher](case, Path(folder))


if __name__ == "__main__":
    main(*sys.argv[1:])
