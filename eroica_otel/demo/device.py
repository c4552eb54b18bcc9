"""The demo's accelerator: one registered torch operator that takes a fixed time for each sample, forward and backward.

It stands in for a GPU on a machine without one: the time does not depend on the CPU, is proportional to the batch and
is never shortened to hit a step time. A profiler sees an operator, so eroica_otel charges it as compute.
"""

from __future__ import annotations

import time

import torch

SECONDS_PER_SAMPLE = 0.0025
"""Time of one call for one sample; a call of the backward takes twice as long, as matrix products do."""


@torch.library.custom_op("eroica_demo::device", mutates_args=())
def device(tensor: torch.Tensor, factor: float) -> torch.Tensor:
    """Return a copy of ``tensor`` [batch, ...] after ``factor`` * SECONDS_PER_SAMPLE * batch seconds."""
    time.sleep(factor * SECONDS_PER_SAMPLE * tensor.shape[0])
    return tensor.clone()


def _backward(ctx: object, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
    return device(gradient, 2.0), None


device.register_autograd(_backward)
