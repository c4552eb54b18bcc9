"""What our sessions set in the training's process, and that it is as before afterwards."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
import torch

from eroica_otel.profile.kineto import TorchProfiler, UserProfiler

LEVEL = "KINETO_LOG_LEVEL"


def test_kineto_is_told_to_be_quiet_for_as_long_as_we_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(LEVEL, raising=False)
    user = UserProfiler(torch, lambda: None)
    for _ in range(2):
        TorchProfiler(torch, "light", user)
        assert os.environ[LEVEL] == "6"
    user.close()
    assert LEVEL not in os.environ


@pytest.mark.parametrize("theirs", ["0", "6"])
def test_a_level_that_the_training_chose_stays(theirs: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LEVEL, theirs)
    user = UserProfiler(torch, lambda: None)
    TorchProfiler(torch, "light", user)
    user.close()
    assert os.environ[LEVEL] == theirs


def test_a_level_that_the_training_sets_meanwhile_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(LEVEL, raising=False)
    user = UserProfiler(torch, lambda: None)
    TorchProfiler(torch, "light", user)
    monkeypatch.setenv(LEVEL, "2")
    user.close()
    assert os.environ[LEVEL] == "2"


def test_what_fails_in_ours_does_not_reach_the_training_that_starts_its_profiler() -> None:
    failed = []

    def guard(stage: str, call: Callable[[], None]) -> None:
        try:
            call()
        except AttributeError:
            failed.append(stage)

    def conflict() -> None:
        raise AttributeError("what nobody foresaw")

    user = UserProfiler(torch, conflict, guard)
    try:
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as theirs:
            torch.ones(2) + 1
    finally:
        user.close()
    assert any(event.name == "aten::add" for event in theirs.events() or [])
    assert failed == ["profiler", "profiler"]  # as it prepares, as it starts


def test_a_session_prepared_before_a_failure_is_prepared_anew_all_the_same() -> None:
    """One of ours lay between: without it theirs would be spoilt."""
    fails = False

    def guard(stage: str, call: Callable[[], None]) -> None:
        with suppress(AttributeError):
            call()

    def conflict() -> None:
        if fails:
            raise AttributeError("what nobody foresaw")

    user = UserProfiler(torch, conflict, guard)
    prepared: list[object] = []
    try:
        user._starts(theirs := torch.autograd.profiler.profile(), prepared.append)
        user._prepares(theirs, None)
        user.sessions += 1
        fails = True
        user._starts(theirs, prepared.append)
    finally:
        user.close()
    assert prepared == [theirs]


def _recorded(mode: str, path: Path) -> dict[str, set[str]]:
    """Return the names, by phase, that a session of ours writes of one forward and backward pass; without Python."""
    user = UserProfiler(torch, lambda: None)
    profiler = TorchProfiler(torch, mode, user)
    weight = torch.ones(3, 3, requires_grad=True)
    try:
        profiler.start()
        with torch.profiler.record_function("mine"):
            torch.autograd.backward((torch.ones(3, 3) @ weight).sum())
        profiler.stop().save(str(path))
    finally:
        user.close()
    found: dict[str, set[str]] = {}
    for event in json.loads(path.read_text())["traceEvents"]:
        if event.get("cat") != "python_function":
            found.setdefault(event["ph"], set()).add(event["name"])
    return found


def test_light_records_all_but_the_nodes_of_the_backward_pass(tmp_path: Path) -> None:
    light, exact = (_recorded(mode, tmp_path / f"{mode}.json") for mode in ("light", "exact"))
    assert exact["X"] - light["X"] == {"MmBackward0", "SumBackward0", "torch::autograd::AccumulateGrad"}
    assert light["X"] < exact["X"]
    assert light["X"] >= {"mine", "aten::mm", "autograd::engine::evaluate_function: MmBackward0"}
    assert {"s", "f"} <= set(exact)
    assert not {"s", "f"} & set(light)  # arrows from forward to backward
