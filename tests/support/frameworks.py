"""Loops of training frameworks; models are built here, nothing is downloaded, each loop imports its own framework."""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import Any

import torch
from torch import nn
from torch.utils.data import Dataset

from support.measure import Job
from support.single import BATCH, data, endless, loader, loss_of, sgd, train

MOST = 100_000
"""Updates that no training here comes to."""


class Rows(Dataset[dict[str, torch.Tensor]]):
    """Samples as the Hugging Face Trainer wants them."""

    def __init__(self, samples: int) -> None:
        self.samples = samples

    def __len__(self) -> int:
        return self.samples

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return {"batch": torch.randn(8)}


class Working(nn.Module):
    """A model that returns its loss, with the known work in its forward pass while it trains."""

    def __init__(self, job: Job, seconds: float = 0.02) -> None:
        super().__init__()
        self.layer, self.job, self.seconds = nn.Linear(8, 8), job, seconds

    def forward(self, batch: torch.Tensor) -> dict[str, torch.Tensor]:
        if self.training:
            self.job.work(self.seconds)
        return {"loss": self.layer(batch).square().mean()}


def hf_trainer(job: Job, accumulate: int = 1, **options: Any) -> None:
    import transformers

    class Count(transformers.TrainerCallback):  # type: ignore[misc]
        def on_optimizer_step(self, arguments: Any, state: Any, control: Any, **_: Any) -> None:
            job.update()

        def on_step_end(self, arguments: Any, state: Any, control: Any, **_: Any) -> None:
            control.should_training_stop = control.should_training_stop or job.done

    arguments = transformers.TrainingArguments(
        output_dir=str(job.folder / "output"),
        max_steps=MOST,
        per_device_train_batch_size=BATCH,
        gradient_accumulation_steps=accumulate,
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
        dataloader_pin_memory=False,
        logging_strategy="no",
        **({"save_strategy": "no"} | options),
    )
    transformers.Trainer(
        Working(job, 0.02 / accumulate),
        arguments,
        train_dataset=Rows(50 * BATCH * accumulate),
        eval_dataset=Rows(10 * BATCH),
        callbacks=[Count()],
    ).train()


def hf_trainer_evaluating(job: Job) -> None:
    """Two micro-batches, evaluation and a checkpoint after every 100 updates."""
    hf_trainer(job, 2, eval_strategy="steps", eval_steps=100, save_strategy="steps", save_steps=100, save_total_limit=1)


def accelerated(job: Job, accumulate: int = 1) -> None:
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=accumulate)
    plain = nn.Linear(8, 8)
    model, optimizer, batches = accelerator.prepare(plain, sgd(plain), loader(100))
    while True:
        for (batch,) in batches:
            with accelerator.accumulate(model):
                job.work(0.02 / accumulate)
                accelerator.backward(loss_of(model, batch))
                optimizer.step()
                optimizer.zero_grad()
            if accelerator.sync_gradients:
                job.update()
            if job.done:
                return


def accelerated_2(job: Job) -> None:
    accelerated(job, 2)


def ray_train(job: Job) -> None:
    """One of Ray Train's workers, with its prepared model and loader (run.py starts them)."""
    from ray.train import torch as framework

    plain = nn.Linear(8, 8)
    optimizer = sgd(plain)
    model = framework.prepare_model(plain)
    train(job, endless(framework.prepare_data_loader(loader(100))), model, optimizer)


def _lightning(job: Job, module: Any, **options: Any) -> None:
    import lightning

    trainer = lightning.Trainer(
        max_steps=MOST,
        accelerator="cpu",
        devices=1,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=str(job.folder),
        **options,
    )
    trainer.fit(module, loader(200), loader(10))


def lightning_automatic(job: Job) -> None:
    """Two micro-batches; the validation loader is read first, and after each epoch."""
    import lightning

    class Module(lightning.LightningModule):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(8, 8)

        def training_step(self, batch: Any, index: int) -> Any:
            job.work(0.01)
            return loss_of(self.layer, batch[0])

        def validation_step(self, batch: Any, index: int) -> Any:
            return loss_of(self.layer, batch[0])

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return sgd(self.layer)

        def optimizer_step(self, *arguments: Any, **options: Any) -> None:
            super().optimizer_step(*arguments, **options)
            job.update()
            self.trainer.should_stop = job.done

    _lightning(job, Module(), accumulate_grad_batches=2)


def lightning_manual(job: Job) -> None:
    """Two optimizers, stepped by the user's own code."""
    import lightning

    class Module(lightning.LightningModule):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.automatic_optimization = False
            self.one, self.other = nn.Linear(8, 8), nn.Linear(8, 8)

        def training_step(self, batch: Any, index: int) -> None:
            job.work()
            for number, (optimizer, layer) in enumerate(zip(self.optimizers(), (self.one, self.other), strict=True)):
                optimizer.zero_grad()
                self.manual_backward(loss_of(layer, batch[0]))
                optimizer.step()
                if number == 0:
                    job.update()
            self.trainer.should_stop = job.done

        def validation_step(self, batch: Any, index: int) -> Any:
            return loss_of(self.one, batch[0])

        def configure_optimizers(self) -> list[torch.optim.Optimizer]:
            return [sgd(self.one), sgd(self.other)]

    _lightning(job, Module())


def fabric(job: Job) -> None:
    import lightning

    ours = lightning.Fabric(accelerator="cpu", devices=1)
    ours.launch()
    plain = nn.Linear(8, 8)
    model, optimizer = ours.setup(plain, sgd(plain))
    batches = endless(ours.setup_dataloaders(loader()))
    while not job.done:
        batch = next(batches)
        job.work()
        ours.backward(loss_of(model, batch))
        optimizer.step()
        optimizer.zero_grad()
        job.update()


def deepspeed(job: Job, stage: int = 0, accumulate: int = 1, bf16: bool = False) -> None:
    import deepspeed as framework

    engine, _, batches, _ = framework.initialize(
        model=nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8)),
        optimizer=lambda parameters: torch.optim.SGD(parameters, lr=1e-3),
        training_data=data(200),
        config={
            "train_micro_batch_size_per_gpu": BATCH,
            "gradient_accumulation_steps": accumulate,
            "zero_optimization": {"stage": stage},
            "zero_allow_untested_optimizer": True,
            "bf16": {"enabled": bf16},
            "steps_per_print": 10**9,
        },
    )
    for batch in endless(batches):
        job.work(0.02 / accumulate)
        engine.backward(loss_of(engine, batch.to(torch.bfloat16) if bf16 else batch))
        engine.step()
        if engine.was_step_applied():
            job.update()
        if job.done:
            return


def deepspeed_zero_0(job: Job) -> None:
    deepspeed(job, 0, accumulate=4)


def deepspeed_zero_0_bf16(job: Job) -> None:
    deepspeed(job, 0, bf16=True)


def deepspeed_zero_1(job: Job) -> None:
    deepspeed(job, 1)


def deepspeed_zero_2(job: Job) -> None:
    deepspeed(job, 2, bf16=True)


def deepspeed_zero_3(job: Job) -> None:
    deepspeed(job, 3)


LOOPS: MappingProxyType[str, Callable[[Job], None]] = MappingProxyType(
    {
        loop.__name__: loop
        for loop in (
            *(hf_trainer, hf_trainer_evaluating, accelerated, accelerated_2, lightning_automatic, lightning_manual),
            *(fabric, deepspeed_zero_0, deepspeed_zero_0_bf16, deepspeed_zero_1, deepspeed_zero_2, deepspeed_zero_3),
            ray_train,
        )
    }
)
