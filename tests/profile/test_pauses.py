"""The table of pauses against stacks of the real thing: a save on a pipe that nobody reads, in a thread that waits."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.utils.checkpoint
from torch.distributed.checkpoint.filesystem import FileSystemWriter
from torch.distributed.checkpoint.state_dict_saver import save as save_distributed

from eroica_otel.kinds import pause_of
from eroica_otel.profile.capture import WindowCapture
from eroica_otel.profile.glance import glance

LARGE = 1 << 20
"""Floats; far more than a pipe holds."""


def pauses_of(call: Callable[[], None], release: Callable[[], None]) -> set[str]:
    """Run ``call`` in a thread until its stack shows a pause, else until it has ended; return the families seen."""
    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    seen: set[str] = set()
    end = time.monotonic() + 30
    while thread.is_alive() and not seen and time.monotonic() < end:
        assert thread.ident is not None
        found = pause_of(glance(thread.ident).frames)
        if found is not None:
            seen.add(found[0])
        time.sleep(0.001)  # lets it have the interpreter's lock
    release()
    thread.join(30)
    return seen


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    os.mkfifo(tmp_path / "pipe")
    return tmp_path / "pipe"


def drain(pipe: Path) -> Callable[[], None]:
    """Return what reads the pipe until the writer has closed it."""
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)

    def read() -> None:
        os.set_blocking(reader, True)
        while os.read(reader, LARGE):
            pass
        os.close(reader)

    return read


def test_a_save_to_a_slow_file_is_a_pause(pipe: Path) -> None:
    release = drain(pipe)

    def save() -> None:
        with pipe.open("wb") as file:
            torch.save(torch.zeros(LARGE), file)

    assert pauses_of(save, release) == {"save"}


class SlowWriter(FileSystemWriter):
    """Writes to a pipe first, as to a file system that is stuck."""

    def write_data(self, plan: Any, planner: Any) -> Any:
        with (Path(self.path).parent / "pipe").open("wb") as file:
            file.write(b" " * 4 * LARGE)
        return super().write_data(plan, planner)


def test_a_distributed_checkpoint_is_a_pause(pipe: Path) -> None:
    release = drain(pipe)

    def save() -> None:
        writer = SlowWriter(pipe.parent / "saved")
        save_distributed({"weight": torch.zeros(8)}, storage_writer=writer)

    assert pauses_of(save, release) == {"save"}


def test_activation_checkpointing_is_none() -> None:
    def forward(batch: torch.Tensor) -> torch.Tensor:
        return (batch @ batch).relu()

    def forward_with_checkpointing() -> None:
        batch = torch.ones(200, 200, requires_grad=True)
        for _ in range(30):
            torch.utils.checkpoint.checkpoint(forward, batch, use_reentrant=False).sum().backward()

    assert pauses_of(forward_with_checkpointing, lambda: None) == set()


@pytest.mark.parametrize(
    ("place", "family"),
    [
        ("transformers.trainer:Trainer._save_checkpoint", "save"),
        ("transformers.trainer:Trainer.evaluate", "evaluation"),
        ("lightning.pytorch.callbacks.model_checkpoint:ModelCheckpoint._save_checkpoint", "save"),
        ("pytorch_lightning.trainer.trainer:Trainer.save_checkpoint", "save"),
        ("pytorch_lightning.loops.evaluation_loop:_EvaluationLoop.run", "evaluation"),
        ("accelerate.accelerator:Accelerator.save_state", "save"),
        ("safetensors.torch:save_file", "save"),
        ("torch._dynamo.convert_frame:ConvertFrame.__call__", "compilation"),
        ("pdb:Pdb.interaction", "debugger"),
        ("pydevd:PyDB.do_wait_suspend", "debugger"),
        ("transformers.modeling_layers:GradientCheckpointingLayer.forward_with_checkpointing", ""),
        ("my_project.train:save_checkpoint", ""),
        ("pdbx:run", ""),
        # Our own: under a CPU quota a rank writes its trace for many seconds, and the others wait for it.
        (f"{WindowCapture.__module__}:{WindowCapture.stop.__qualname__}", "save"),
        (f"{WindowCapture.__module__}:{WindowCapture.border.__qualname__}", ""),
    ],
)
def test_frames_of_libraries_are_told_by_module_and_name(place: str, family: str) -> None:
    from eroica_otel.kinds import Frame

    module, _, name = place.partition(":")
    found = pause_of([Frame("__main__", "main", "train.py", 1), Frame(module, name, "x.py", 2)])
    assert (found[0] if found is not None else "") == family
