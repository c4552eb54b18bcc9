"""What stands in the place of the function that processes of the DataLoader run."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from eroica_otel.signals import loaderhook
from eroica_otel.signals.loaderhook import ATTRIBUTE, LoaderHook

NAME = "module_with_a_loop"


def loop() -> None:
    """Stand for torch's function."""


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A module that is there already, as torch's is when a training attaches late."""
    made = ModuleType(NAME)
    setattr(made, ATTRIBUTE, loop)
    monkeypatch.setitem(sys.modules, NAME, made)
    monkeypatch.setattr(loaderhook, "MODULES", (NAME,))
    return made


def replaced(name: str, original: Any) -> tuple[str, Any]:
    return (name, original)


def test_the_function_is_replaced_and_put_back(module: ModuleType) -> None:
    hook = LoaderHook(replaced)
    assert getattr(module, ATTRIBUTE) == (NAME, loop)
    hook.close()
    assert getattr(module, ATTRIBUTE) is loop


def test_what_somebody_else_has_put_there_since_stays(module: ModuleType) -> None:
    hook = LoaderHook(replaced)
    setattr(module, ATTRIBUTE, "theirs")
    hook.close()
    assert getattr(module, ATTRIBUTE) == "theirs"


def test_a_module_without_the_function_is_left_alone(module: ModuleType) -> None:
    delattr(module, ATTRIBUTE)
    LoaderHook(replaced).close()
    assert not hasattr(module, ATTRIBUTE)


def test_nothing_is_set_once_it_is_closed(module: ModuleType) -> None:
    hook = LoaderHook(replaced)
    hook.close()
    hook._hook(module)
    assert getattr(module, ATTRIBUTE) is loop


def test_what_fails_goes_to_the_guard(module: ModuleType) -> None:
    failed: list[str] = []

    def guard(stage: str, call: Any) -> None:
        with pytest.raises(ZeroDivisionError):
            call()
        failed.append(stage)

    LoaderHook(lambda name, original: 1 // 0, guard)
    assert failed == ["start"]
    assert getattr(module, ATTRIBUTE) is loop


def test_torch_has_the_function_under_that_name_and_looks_it_up_there() -> None:
    from torch.utils.data import dataloader
    from torch.utils.data._utils import worker

    assert callable(getattr(worker, ATTRIBUTE))
    assert worker.__name__ == loaderhook.MODULES[0]
    assert "_utils.worker._worker_loop" in Path(dataloader.__file__).read_text()
