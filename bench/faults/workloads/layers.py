"""Layers of the board's models: one that holds what a model's middle does, and the small models around it."""

from __future__ import annotations

import torch
from torch import nn

from bench.faults.faults.switches import Switches
from bench.faults.workloads.remote import WIDTH
from eroica_otel.demo.device import device

TOKEN, TOKENS = 16, 32
"""Values of a token, and tokens of a usual sample: its WIDTH values."""


class Middle(nn.Module):
    """Work that grows with the batch: ``repeats`` products on the CPU, and the device for ``share`` of its usual time.

    Args:
        share: Of the device's time, where a model has several such layers or an iteration several batches.
    """

    def __init__(self, switches: Switches, repeats: int = 0, share: float = 1.0) -> None:
        super().__init__()
        self.switches, self.repeats, self.share = switches, repeats, share
        self.weight: torch.Tensor
        self.register_buffer("weight", torch.randn(128, 128) / 12, persistent=False)

    def forward(self, hidden: torch.Tensor, longer: float = 1.0) -> torch.Tensor:
        """Return ``hidden`` [batch, ...]; ``longer`` is how much longer than usual its sequences are."""
        hidden = self.switches.at("forward", hidden)
        work(self.weight, self.repeats * hidden.shape[0])
        hidden = device(hidden, self.share * longer)
        if hidden.requires_grad:
            hidden.register_hook(self.go_back)  # type: ignore[no-untyped-call]
        return hidden

    def go_back(self, gradient: torch.Tensor) -> torch.Tensor:
        """Pass the gradient on, as a hook that logs or checks does."""
        passed: torch.Tensor = self.switches.at("backward", gradient)
        return passed


def work(weight: torch.Tensor, products: int) -> None:
    """Compute on the CPU: ``products`` products of 128 x 128."""
    wide = weight.detach()
    for _ in range(products):
        wide = torch.tanh(wide @ weight.detach())


class Transformer(nn.Module):
    """Reads [batch, tokens * TOKEN] and returns one value for each sample."""

    def __init__(self, switches: Switches, repeats: int, share: float = 1.0) -> None:
        super().__init__()
        self.first = nn.Linear(TOKEN, 128)
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(128, 4, 512, dropout=0.0, batch_first=True) for _ in range(2)
        )
        self.middle, self.last = Middle(switches, repeats, share), nn.Linear(128, 1)

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        tokens = batch.view(len(batch), -1, TOKEN)
        hidden = self.first(tokens)
        hidden = self.middle(self.blocks[0](hidden), tokens.shape[1] / TOKENS)
        output: torch.Tensor = self.last(self.blocks[1](hidden).mean(1))
        return output


class Perceptron(nn.Module):
    """Two wide layers around the middle; reads [batch, WIDTH]."""

    def __init__(self, switches: Switches, repeats: int, share: float = 1.0) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.middle = Middle(switches, repeats, share)

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        output: torch.Tensor = self.last(torch.relu(self.middle(self.first(batch))))
        return output


class Pictures(nn.Module):
    """A net of convolutions; reads [batch, WIDTH] as pictures of 2 x 16 x 16."""

    def __init__(self, switches: Switches, repeats: int) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(2, 32, 3, padding=1), nn.Conv2d(32, 32, 3, padding=1)
        self.middle, self.last = Middle(switches, repeats), nn.Linear(32 * 64, 128)

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        hidden = torch.relu(self.first(batch.view(-1, 2, 16, 16)))
        hidden = nn.functional.max_pool2d(torch.relu(self.second(hidden)), 2)
        output: torch.Tensor = self.last(self.middle(hidden.flatten(1)))
        return output


def loss_of(output: torch.Tensor) -> torch.Tensor:
    """Return one number that becomes smaller."""
    return output.square().mean()


def sgd(model: nn.Module) -> torch.optim.Optimizer:
    """Return an optimizer that changes little."""
    return torch.optim.SGD(model.parameters(), lr=1e-4)
