"""Puts an object of ours in the place of the function that processes of the DataLoader run, where torch looks it up."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import wrapt

from eroica_otel.errors import Guard, unguarded

ATTRIBUTE = "_worker_loop"
MODULES = ("torch.utils.data._utils.worker", "torchdata.stateful_dataloader.stateful_dataloader")
"""Where the function is looked up when a process is started; torchdata has a copy of its own."""

Replace = Callable[[str, Any], Any]
"""Takes the name of the module and the function in it, gives what stands there from now on."""


class LoaderHook:
    """Replaces the function as soon as its module is imported; ``close()`` puts it back."""

    def __init__(self, replace: Replace, guard: Guard = unguarded) -> None:
        """Args: guard: Sets each hook; it is called inside the training's ``import torch``."""
        self._replace = replace
        self._guard = guard
        self._set: list[tuple[ModuleType, Any, Any]] = []
        self._closed = False
        for name in MODULES:
            wrapt.register_post_import_hook(self._hook, name)

    def _hook(self, module: ModuleType) -> None:
        self._guard("start", lambda: self._put(module))

    def _put(self, module: ModuleType) -> None:
        original = getattr(module, ATTRIBUTE, None)
        if self._closed or original is None:
            return
        ours = self._replace(module.__name__, original)
        setattr(module, ATTRIBUTE, ours)
        self._set.append((module, ours, original))

    def close(self) -> None:
        """Put the functions back where they are still ours; a later import is left alone."""
        self._closed = True
        while self._set:
            module, ours, original = self._set.pop()
            if getattr(module, ATTRIBUTE, None) is ours:
                setattr(module, ATTRIBUTE, original)
