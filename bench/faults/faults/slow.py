"""Slow code of a training: Python that computes, waits, logs or lets others run. The frames that a verdict may name are
the functions here.
"""

from __future__ import annotations

import gc
import subprocess
import threading
import time
from typing import Any

from bench.faults.faults.order import Order, Scene
from bench.faults.faults.pipes import SlowPipe

LOG_BYTES_PER_SECOND = 4e6
LOG_LINE_BYTES = 1000
HEAP_OBJECTS_PER_SECOND = 12_000_000
"""What a full collection looks at in a second, about; measured on the board's machine."""


def augment(batch: Any, order: Order, scene: Scene) -> Any:
    """Clean the batch up in a loop of Python, ``value`` seconds of CPU time."""
    end, checksum = time.thread_time() + order.value, 0
    while time.thread_time() < end:  # here: what is charged is the innermost function
        for value in range(50):
            checksum = (checksum * 31 + value) % 1_000_003
    return batch


def clip_gradients(model: Any, order: Order, scene: Scene) -> Any:
    """Look at the gradients number by number in Python, ``value`` seconds of CPU time."""
    end, total = time.thread_time() + order.value, 0.0
    while time.thread_time() < end:
        for parameter in model.parameters():
            if parameter.grad is not None:
                total += sum(abs(float(number)) for number in parameter.grad.flatten()[:64].tolist())
            if time.thread_time() >= end:
                break
    return model


def slow_backward(gradient: Any, order: Order, scene: Scene) -> Any:
    """Wait ``value`` seconds in a hook of the backward, as one does that asks another machine."""
    time.sleep(order.value)
    return gradient


def slow_forward(hidden: Any, order: Order, scene: Scene) -> Any:
    """Wait ``value`` seconds in the forward, as code does that asks a service for features."""
    time.sleep(order.value)
    return hidden


def read_status(model: Any, order: Order, scene: Scene) -> Any:
    """Call a program that tells of the device and wait for it, ``value`` seconds, as with nvidia-smi in the loop."""
    subprocess.run(["sleep", f"{order.value:.3f}"], check=True)
    return model


def write_log(model: Any, order: Order, scene: Scene) -> Any:
    """Write lines into a log whose reader takes 4 MB a second: ``value`` seconds an iteration."""
    log = scene.kept.get("log")
    if log is None:
        log = scene.kept["log"] = SlowPipe(LOG_BYTES_PER_SECOND)
    line = (b"step %d, norms of all parameters: " % scene.iteration).ljust(LOG_LINE_BYTES, b"0")
    for _ in range(round(order.value * LOG_BYTES_PER_SECOND / len(line))):
        log.write(line)
    return model


def print_progress(model: Any, order: Order, scene: Scene) -> Any:
    """Print under the lock that a progress bar's thread holds for ``value`` seconds at a time."""
    lock = scene.kept.get("lock")
    if lock is None:
        lock = scene.kept["lock"] = threading.Lock()
        threading.Thread(target=_draw_bar, args=(lock, order.value), daemon=True).start()
        time.sleep(0.01)  # the bar has it
    with lock:
        print(f"step {scene.iteration}", flush=True)
    return model


def _draw_bar(lock: threading.Lock, seconds: float) -> None:
    while True:
        with lock:
            time.sleep(seconds)
        time.sleep(0.001)


def prepare_upload(model: Any, order: Order, scene: Scene) -> Any:
    """Have a thread of this process pickle in Python for ever, as an asynchronous save does: it wants the GIL too."""
    if "upload" not in scene.kept:
        scene.kept["upload"] = threading.Thread(target=_pickle_for_ever, daemon=True)
        scene.kept["upload"].start()
    return model


def _pickle_for_ever() -> None:
    state = {f"layer.{number}": number for number in range(1000)}
    while True:
        sorted(((name, hash(name) ^ value) for name, value in state.items()), key=lambda pair: pair[1])


def collect_garbage(model: Any, order: Order, scene: Scene) -> Any:
    """Collect with a heap so large that each full collection takes about ``value`` seconds."""
    if "heap" not in scene.kept:
        gc.disable()  # or it is looked at again and again while it grows
        scene.kept["heap"] = [[number] for number in range(round(order.value * HEAP_OBJECTS_PER_SECOND))]
        gc.enable()
    gc.collect()
    return model


def short_waits(model: Any, order: Order, scene: Scene) -> Any:
    """Wait ``value`` seconds in short pieces, one for each parameter, as code does that asks for each."""
    parameters = list(model.parameters())
    for _ in parameters:
        time.sleep(order.value / len(parameters))
    return model
