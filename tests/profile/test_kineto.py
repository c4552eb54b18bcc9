"""What our sessions set in the training's process, and that it is as before afterwards."""

from __future__ import annotations

import os

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
