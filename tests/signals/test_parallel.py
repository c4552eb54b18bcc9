"""What the process groups of real ranks tell about their parts of the model."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch.distributed

from eroica_otel.signals.parallel import role_of

SCRIPT = Path(__file__).parent / "meshes.py"
ENVIRONMENT = {"GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
MESHES_ARE_DESCRIBED = tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 6)
"""Since pytorch#136558, of September 2024."""


@pytest.fixture(scope="module")
def roles(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """Return the role of each rank by layout; "stages" of 2 x 2 has ranks 0 and 1 in the first stage."""
    command = [sys.executable, str(SCRIPT), str(tmp_path_factory.mktemp("stores"))]
    done = subprocess.run(
        command, env=os.environ | ENVIRONMENT, stdout=subprocess.PIPE, text=True, check=True, timeout=120
    )
    found: dict[str, list[str]] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize(
    ("layout", "by_rank"),
    [
        ("stages", ["pp0", "pp0", "pp1", "pp1"]),
        ("stages inside", ["pp0", "pp1", "pp0", "pp1"]),
        ("two that agree", ["pp0", "pp0", "pp1", "pp1"]),
        # Two stages of four, each of which has two places for experts: one worker each, so the stage alone counts.
        ("few experts", ["pp0", "pp0", "pp1", "pp1"]),
        # Ranks count dp before ep: 0 and 1 are the two places for experts of the first of four copies of stage 0.
        ("many experts", ["pp0-ep0", "pp0-ep1"] * 4 + ["pp1-ep0", "pp1-ep1"] * 4),
    ],
)
def test_a_mesh_tells_the_stage_and_the_place_of_the_experts(
    roles: dict[str, list[str]], layout: str, by_rank: list[str]
) -> None:
    assert roles[layout] == (by_rank if MESHES_ARE_DESCRIBED else ["all"] * len(by_rank))


def test_groups_that_megatron_describes_tell_the_stage(roles: dict[str, list[str]]) -> None:
    """Ranks 0 and 2 are one pipeline, 1 and 3 the other."""
    assert roles["megatron"] == ["pp0", "pp0", "pp1", "pp1"]


@pytest.mark.parametrize(
    "layout",
    ["no stages", "no names", "one stage", "stages alone", "experts alone", "undescribed", "two that differ"],
)
def test_where_nothing_is_told_they_are_all_alike(roles: dict[str, list[str]], layout: str) -> None:
    assert roles[layout] == ["all"] * 4


def test_without_process_groups_they_are_all_alike() -> None:
    assert role_of(None) == "all"
    assert role_of(torch.distributed) == "all"
