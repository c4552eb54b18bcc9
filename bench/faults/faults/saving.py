"""Saving and validating inside the loop."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import IO, Any, cast

import torch

from bench.faults.faults.order import Order, Scene
from bench.faults.faults.pipes import SlowPipe

SAVED_BYTES_PER_SECOND = 20e6


def save_checkpoint(model: Any, order: Order, scene: Scene) -> Any:
    """Save the model and ``value`` seconds' worth of optimizer state to storage that takes 20 MB a second."""
    file = scene.kept.get("file")
    if file is None:
        file = scene.kept["file"] = SlowPipe(SAVED_BYTES_PER_SECOND, 1 << 16)
    torch.save({"state": torch.zeros(round(order.value * SAVED_BYTES_PER_SECOND / 4))}, cast("IO[bytes]", file))
    return model


def slow_save(save: Callable[[], None], order: Order, scene: Scene) -> Callable[[], None]:
    """Have a save that is due anyhow take ``value`` seconds more."""

    def save_slowly() -> None:
        save()
        save_checkpoint(None, order, scene)

    return save_slowly


def long_validation(batches: Any, order: Order, scene: Scene) -> Any:
    """Validate ``value`` batches instead of what was due."""
    return round(order.value)


def evaluate(model: Any, order: Order, scene: Scene) -> Any:
    """Pause for ``value`` seconds to evaluate: forward passes, as many as fit, on all ranks, without a step."""
    end = time.monotonic() + order.value
    layers = [layer for layer in model.modules() if isinstance(layer, torch.nn.Linear)]
    with torch.no_grad():
        while time.monotonic() < end:
            for layer in layers:
                layer(torch.ones(8, layer.in_features))
            time.sleep(0.02)
    return model
