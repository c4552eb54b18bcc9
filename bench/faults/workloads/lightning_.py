"""Lightning's Trainer with automatic optimization; its validation where it is asked for."""

from __future__ import annotations

import os
from typing import Any

import lightning
import torch
from torch.utils.data import DataLoader

import eroica_otel.auto  # noqa: F401  the one line: it is imported for what it does
from bench.faults.workloads.layers import Transformer, loss_of, sgd
from bench.faults.workloads.training import Training, run


class Module(lightning.LightningModule):  # type: ignore[misc]
    """The model and its points."""

    def __init__(self, training: Training) -> None:
        super().__init__()
        self.inner = Transformer(training.switches, training.said.repeats)
        self.board = training

    def training_step(self, batch: torch.Tensor, index: int) -> torch.Tensor:
        """Return the loss of a batch."""
        loss: torch.Tensor = self.board.switches.at("loss", loss_of(self.inner(self.board.switches.at("batch", batch))))
        return loss

    def validation_step(self, batch: torch.Tensor, index: int) -> torch.Tensor:
        """Return the loss of a batch."""
        return loss_of(self.inner(batch))

    def on_train_batch_start(self, batch: torch.Tensor, index: int) -> None:
        """Begin an iteration."""
        self.board.begin()

    def on_before_optimizer_step(self, optimizer: torch.optim.Optimizer) -> None:
        """Before the update."""
        self.board.switches.at("before_step", self)

    def on_train_batch_end(self, outputs: Any, batch: torch.Tensor, index: int) -> None:
        """After the update."""
        self.board.switches.at("after_step", self)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Return the one optimizer."""
        return sgd(self)


def train(training: Training) -> None:
    """Train until the board ends it."""
    said, world = training.said, training.world
    local = int(os.environ["LOCAL_WORLD_SIZE"])
    trainer = lightning.Trainer(
        max_steps=-1,
        max_epochs=-1,
        accelerator="cpu",
        devices=local,
        num_nodes=world // local,
        strategy="ddp",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        val_check_interval=said.validate_every or None,
        limit_val_batches=20 if said.validate_every else 0,
        default_root_dir=str(said.control.parent),
    )
    validation = DataLoader(training.data(20 * said.batch), said.batch) if said.validate_every else None
    training.wait_for_go()
    trainer.fit(Module(training), training.loader(), validation)


if __name__ == "__main__":
    run(train)
