"""Who a worker is, by what launchers and schedulers leave in its environment."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from pathlib import Path

import pytest

from eroica_otel.config import WorkerConfig
from eroica_otel.identity import (
    is_another,
    is_launched_as_rank_zero,
    job_name,
    pod_of,
    problem,
    resolve,
    resource_attributes,
)

ARGV = ["/home/me/train.py", "--lr", "1"]


@dataclass
class Distributed:
    """What torch.distributed answers."""

    rank: int = 5
    size: int = 8
    up: bool = True

    def is_available(self) -> bool:
        return True

    def is_initialized(self) -> bool:
        return self.up

    def get_rank(self) -> int:
        return self.rank

    def get_world_size(self) -> int:
        return self.size


@pytest.mark.parametrize(
    ("environment", "argv", "name"),
    [
        ({"OTEL_SERVICE_NAME": "svc", "SLURM_JOB_NAME": "slurm"}, ARGV, "svc"),
        ({"SLURM_JOB_NAME": "slurm", "TORCHELASTIC_RUN_ID": "run"}, ARGV, "slurm"),
        ({"TORCHELASTIC_RUN_ID": "nightly-7b"}, ARGV, "nightly-7b"),
        ({"TORCHELASTIC_RUN_ID": "none"}, ARGV, "train"),
        ({"TORCHELASTIC_RUN_ID": "0b0a3a0e-6b0e-4a57-9d2b-6c6f2f9d6a11"}, ARGV, "train"),
        ({"OTEL_SERVICE_NAME": "  "}, ARGV, "train"),
        ({"OTEL_RESOURCE_ATTRIBUTES": "service.name=from-attributes,x"}, ARGV, "from-attributes"),
        ({}, ["/src/pretrain/__main__.py"], "pretrain"),
        ({}, ["-c"], "-c"),
        ({}, [""], "training"),
        ({}, [], "training"),
    ],
)
def test_the_job_is_named_by_the_first_who_has_a_name(environment: dict[str, str], argv: list[str], name: str) -> None:
    assert job_name(environment, argv) == name


@pytest.mark.parametrize(
    ("environment", "rank", "size", "local"),
    [
        ({"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1"}, 3, 4, 1),
        ({"SLURM_PROCID": "9", "SLURM_NTASKS": "16", "SLURM_LOCALID": "1"}, 9, 16, 1),
        ({"OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_LOCAL_RANK": "2"}, 2, 4, 2),
        ({"PMI_RANK": "1", "PMI_SIZE": "2"}, 1, 2, 1),
        ({"RANK": "3", "SLURM_PROCID": "0", "WORLD_SIZE": "4", "SLURM_NTASKS": "1"}, 3, 4, 3),
        ({"RANK": "11", "WORLD_SIZE": "16", "LOCAL_WORLD_SIZE": "8"}, 11, 16, 3),
        ({"RANK": "three", "WORLD_SIZE": "²"}, 0, 1, 0),
        ({"WORLD_SIZE": "0"}, 0, 1, 0),
        ({"RANK": "5", "WORLD_SIZE": "2"}, 5, 1, 5),
        ({"RANK": "abc", "WORLD_SIZE": "2"}, 0, 1, 0),
        ({"RANK": "9" * 5000, "WORLD_SIZE": "2"}, 0, 1, 0),
        ({"RANK": "5"}, 5, 1, 5),
        ({}, 0, 1, 0),
    ],
)
def test_rank_and_size_come_from_the_launcher(environment: dict[str, str], rank: int, size: int, local: int) -> None:
    found = resolve(WorkerConfig(), environment, ARGV)
    assert (found.rank, found.world_size, found.local_rank) == (rank, size, local)


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({"RANK": "5", "WORLD_SIZE": "2"}, "RANK='5' with WORLD_SIZE='2' cannot be"),
        ({"RANK": "2", "SLURM_NTASKS": "2"}, "RANK='2' with SLURM_NTASKS='2' cannot be"),
        ({"RANK": "abc"}, "RANK='abc' cannot be"),
        ({"WORLD_SIZE": "-1"}, "WORLD_SIZE='-1' cannot be"),
        ({"RANK": "1", "WORLD_SIZE": "2"}, ""),
        ({"RANK": "5"}, ""),
        ({}, ""),
    ],
)
def test_variables_that_contradict_are_said_unless_a_process_group_tells(
    environment: dict[str, str], said: str
) -> None:
    found = problem(environment)
    assert found.startswith(said)
    assert ("give each process its rank" in found) == bool(said)
    assert problem(environment, Distributed()) == ""


def test_a_process_group_wins_over_variables_once_it_is_there() -> None:
    environment = {"RANK": "1", "WORLD_SIZE": "2"}
    assert resolve(WorkerConfig(), environment, ARGV, Distributed()).rank == 5
    assert resolve(WorkerConfig(), environment, ARGV, Distributed()).world_size == 8
    assert resolve(WorkerConfig(), environment, ARGV, Distributed(up=False)).rank == 1


def test_a_process_group_that_comes_later_may_tell_of_another_rank_or_size() -> None:
    environment = {"RANK": "1", "WORLD_SIZE": "2"}
    assert is_another(resolve(WorkerConfig(), environment, ARGV), Distributed())
    assert not is_another(resolve(WorkerConfig(), environment, ARGV, Distributed()), Distributed())
    assert not is_another(resolve(WorkerConfig(), environment, ARGV, Distributed()), Distributed(up=False))
    assert not is_another(resolve(WorkerConfig(), environment, ARGV))


def test_options_win_and_the_role_is_not_known_yet() -> None:
    config = WorkerConfig(training_job="mine", team="vision", role="encoder")
    environment = {"OTEL_SERVICE_NAME": "svc", "OTEL_RESOURCE_ATTRIBUTES": "service.namespace=other"}
    found = resolve(config, environment, ARGV)
    assert (found.training_job, found.team, found.role) == ("mine", "vision", "")


def test_team_and_host_come_from_resource_attributes_else_the_host_is_this_one() -> None:
    environment = {"OTEL_RESOURCE_ATTRIBUTES": "service.namespace=nlp, host.name = gpu-17 ,bad"}
    found = resolve(WorkerConfig(), environment, ARGV)
    assert (found.team, found.host) == ("nlp", "gpu-17")
    assert resolve(WorkerConfig(), {}, ARGV).host == socket.gethostname()


def test_attributes_keep_equal_signs_of_their_values() -> None:
    assert resource_attributes({"OTEL_RESOURCE_ATTRIBUTES": "a=b=c,d"}) == {"a": "b=c"}


def test_run_and_restart_tell_one_start_of_the_job_from_the_next() -> None:
    environment = {"TORCHELASTIC_RUN_ID": "r1", "TORCHELASTIC_RESTART_COUNT": "2", "SLURM_JOB_ID": "77"}
    found = resolve(WorkerConfig(), environment, ARGV)
    assert (found.run_id, found.restart) == ("r1", 2)
    assert resolve(WorkerConfig(), {"SLURM_JOB_ID": "77"}, ARGV).run_id == "77"


def test_the_labels_are_those_of_every_data_point() -> None:
    config = WorkerConfig(training_job="mine", team="vision")
    found = resolve(config, {"RANK": "3", "OTEL_RESOURCE_ATTRIBUTES": "host.name=h"}, ARGV)
    assert found.labels() == {"training_job": "mine", "team": "vision", "rank": "3", "host": "h", "role": ""}


@pytest.mark.parametrize(
    ("environment", "pod"),
    [
        ({"HOSTNAME": "node-3"}, ""),
        ({"HOSTNAME": "job-0", "KUBERNETES_SERVICE_HOST": "10.0.0.1"}, "job-0"),
        ({"HOSTNAME": "node-3", "KUBERNETES_SERVICE_HOST": "10.0.0.1", "POD_NAME": "job-0"}, "job-0"),
        ({"POD_NAME": "job-0", "K8S_POD_NAME": "job-1"}, "job-1"),
        ({"K8S_POD_NAME": "job-1", "OTEL_RESOURCE_ATTRIBUTES": "k8s.pod.name=job-2"}, "job-2"),
    ],
)
def test_the_pod_is_what_a_manifest_says_else_the_host_name_in_kubernetes(
    environment: dict[str, str], pod: str
) -> None:
    assert pod_of(environment) == pod


@pytest.mark.parametrize(
    ("own", "started_with", "above", "above_started_with", "child", "rank_zero"),
    [
        ({"RANK": "0"}, b"RANK=0", b"python", b"HOME=/", False, True),
        ({"RANK": "1"}, b"RANK=1", b"python", b"HOME=/", False, False),
        ({}, b"", b"python", b"", False, False),
        ({"RANK": "0"}, b"RANK=0", b"/usr/bin/python3.11", b"A=1\0RANK=0", False, False),
        ({"SLURM_PROCID": "0"}, b"SLURM_PROCID=0", b"/bin/bash", b"SLURM_PROCID=0", False, True),
        ({"RANK": "0"}, b"HOME=/", b"python", b"HOME=/", True, True),
        ({"RANK": "0"}, b"RANK=0", b"python", b"HOME=/", True, False),
    ],
    ids=["launched", "rank 1", "none", "child of a rank", "under a script", "mp.spawn", "pool of a rank"],
)
def test_a_rank_is_who_was_launched_as_one_not_who_inherited_the_variable(
    own: dict[str, str], started_with: bytes, above: bytes, above_started_with: bytes, child: bool, rank_zero: bool,
    tmp_path: Path,
) -> None:  # fmt: skip
    parent = (str(os.getppid()), above, above_started_with)
    for name, command, environment in (("self", b"python", started_with), parent):
        (tmp_path / name).mkdir()
        (tmp_path / name / "cmdline").write_bytes(command + b"\0train.py")
        (tmp_path / name / "environ").write_bytes(environment)
    assert is_launched_as_rank_zero(own, child, tmp_path) is rank_zero
