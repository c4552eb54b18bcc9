"""Whether a backward pass is noticed, and what is done at an update inside one."""

from __future__ import annotations

import sys
from typing import Any

import pytest
import torch

from eroica_otel.signals.backward import inside_backward
from eroica_otel.signals.hooks import Recorder


def test_only_what_autograd_calls_is_inside_a_backward_pass() -> None:
    seen: list[bool] = []
    parameter: Any = torch.zeros(3, requires_grad=True)
    parameter.register_post_accumulate_grad_hook(lambda _: seen.append(inside_backward()))
    seen.append(inside_backward())
    (parameter * 2).sum().backward()
    seen.append(inside_backward())
    assert seen == [False, True, False]


def test_without_torch_there_is_no_backward_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "torch")
    assert not inside_backward()


def test_what_was_postponed_is_tried_again_at_the_next_events_until_it_is_done() -> None:
    calls: list[str] = []
    recorder = Recorder(lambda: None, lambda: calls.append("edge"))
    recorder.input(1, 0, 1)
    recorder.update(recorder)
    recorder.postponed = True
    recorder.input(1, 0, 1)
    recorder.input(1, 0, 1)
    assert calls == ["edge", "edge"]
    recorder.postponed = False
    recorder.input(1, 0, 1)
    assert calls == ["edge", "edge"]
