"""That each training of the fault board passes its points in every iteration; on one rank, all in one process."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from faultboard import ROOT

SCRIPT = """
import collections, importlib, json, pathlib, sys
import torch.distributed as dist
from bench.faults.workloads import training as shared

folder, ITERATIONS = pathlib.Path(sys.argv[1]), 4

class Enough(Exception):
    pass

class Points:
    def __init__(self, folder, rank):
        self.seen = collections.Counter()
    def begin(self, iteration):
        if iteration > ITERATIONS:
            raise Enough
    def at(self, point, subject=None):
        self.seen[point] += 1
        return subject

shared.Switches = Points
dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=0, world_size=1)
found = {}
for name, more in json.loads(sys.argv[2]).items():
    control = folder / name / "control"
    control.mkdir(parents=True)
    (control / "go").touch()
    words = ["--control", str(control), "--samples", "", "--objects", "", "--source", "memory", "--batch", "2"]
    training = shared.Training(shared.options([*words, *more]))
    try:
        importlib.import_module(f"bench.faults.workloads.{name}").train(training)
    except Enough:
        pass
    stamps = (control / "times-0").stat().st_size // 8
    found[name] = {"stamps": stamps, "ready": (control / "ready-0").exists(), **training.switches.seen}
dist.destroy_process_group()
print(json.dumps(found))
"""
SOMETIMES = ("--average-loss", "--checkpoint-every", "2", "--validate-every", "2")
OPTIONS = {"ddp": SOMETIMES, "conv": SOMETIMES, "fsdp": SOMETIMES, "accumulate": (), "experts": (), "pipeline": ()}
EVERY = {"forward": 4, "backward": 4, "before_step": 4, "after_step": 4}
"""Points that each of four iterations passes once."""


@pytest.fixture(scope="module")
def points(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, int]]:
    """Return by training how often each point was passed."""
    folder = tmp_path_factory.mktemp("workloads")
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(folder), json.dumps(OPTIONS)],
        env=os.environ | {"PYTHONPATH": str(ROOT), "EROICA_DISABLED": "1", "LOCAL_WORLD_SIZE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, dict[str, int]] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize("name", OPTIONS)
def test_the_board_sees_when_an_iteration_begins(name: str, points: dict[str, dict[str, int]]) -> None:
    assert points[name]["ready"]
    assert points[name]["stamps"] == 4  # the fifth ends it before it is noted


@pytest.mark.parametrize("name", ["ddp", "conv", "fsdp"])
def test_a_loop_passes_every_point_once_an_iteration(name: str, points: dict[str, dict[str, int]]) -> None:
    seen = {point: points[name][point] for point in (*EVERY, "batch", "loss", "collective")}
    validated = 2 * 20  # batches of two validations, which pass the forward, too, without gradients
    assert seen == EVERY | {"forward": 4 + validated, "batch": 4, "loss": 4, "collective": 4}
    assert points[name]["load"] == 5 + validated  # the batch is there before its iteration begins
    assert (points[name]["checkpoint"], points[name]["validation"], points[name]["epoch"]) == (2, 2, 1)


def test_an_update_of_four_micro_batches_is_one_iteration(points: dict[str, dict[str, int]]) -> None:
    seen = {point: points["accumulate"][point] for point in ("micro", "loss", "backward", "before_step", "after_step")}
    assert seen == {"micro": 16, "loss": 16, "backward": 16, "before_step": 4, "after_step": 4}


def test_experts_ask_how_many_tokens_go_where(points: dict[str, dict[str, int]]) -> None:
    assert points["experts"]["experts"] == 4
    assert {point: points["experts"][point] for point in EVERY} == EVERY


def test_a_stage_sees_each_micro_batch(points: dict[str, dict[str, int]]) -> None:
    seen = {point: points["pipeline"][point] for point in ("stage", "micro", "forward", "backward", "after_step")}
    # Two in each of four iterations; the schedule has a look at the shapes first.
    assert seen == {"stage": 9, "micro": 9, "forward": 9, "backward": 8, "after_step": 4}
