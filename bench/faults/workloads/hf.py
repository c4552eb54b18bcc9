"""The Hugging Face Trainer; the model is built here."""

from __future__ import annotations

from typing import Any

import torch
import transformers
from torch import nn

import eroica_otel.auto  # noqa: F401  the one line: it is imported for what it does
from bench.faults.workloads.layers import Transformer, loss_of
from bench.faults.workloads.training import Training, run

MOST = 100_000
"""Updates that no training here comes to."""


class Model(nn.Module):
    """A model that returns its loss, as the Trainer wants it."""

    def __init__(self, training: Training) -> None:
        super().__init__()
        self.inner, self.switches = Transformer(training.switches, training.said.repeats), training.switches

    def forward(self, batch: torch.Tensor) -> dict[str, torch.Tensor]:
        batch = self.switches.at("batch", batch) if self.training else batch
        loss = loss_of(self.inner(batch))
        return {"loss": self.switches.at("loss", loss) if self.training else loss}


class Points(transformers.TrainerCallback):  # type: ignore[misc]
    """The switches' points around a step."""

    def __init__(self, training: Training) -> None:
        self._training = training

    def on_step_begin(self, arguments: Any, state: Any, control: Any, **_: Any) -> None:
        """Begin an iteration."""
        self._training.begin()

    def on_pre_optimizer_step(self, arguments: Any, state: Any, control: Any, **more: Any) -> None:
        """Before the update."""
        self._training.switches.at("before_step", more["model"])

    def on_step_end(self, arguments: Any, state: Any, control: Any, **more: Any) -> None:
        """After the update."""
        self._training.switches.at("after_step", more["model"])


def collated(samples: list[torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return a batch as the model's forward wants it."""
    return {"batch": torch.stack(samples)}


def train(training: Training) -> None:
    """Train until the board ends it."""
    said = training.said
    asked = transformers.TrainingArguments(
        output_dir=str(said.control.parent / f"output-{training.rank}"),
        max_steps=MOST,
        per_device_train_batch_size=said.batch,
        dataloader_num_workers=said.loader_workers,
        dataloader_pin_memory=False,
        remove_unused_columns=False,
        report_to=[],
        use_cpu=True,
        ddp_backend="gloo",
        disable_tqdm=True,
        learning_rate=1e-4,
        seed=said.seed,
        logging_strategy="no",
        eval_strategy="steps" if said.validate_every else "no",
        eval_steps=said.validate_every or None,
        save_strategy="steps" if said.checkpoint_every else "no",
        save_steps=said.checkpoint_every or 500,
        save_total_limit=1,
    )
    trainer = transformers.Trainer(
        Model(training),
        asked,
        data_collator=collated,
        train_dataset=training.data(said.batch * MOST),
        eval_dataset=training.data(20 * said.batch),
        callbacks=[Points(training)],
    )
    training.wait_for_go()
    trainer.train()


if __name__ == "__main__":
    run(train)
