"""What makes a training stand still. Each stands for ever: the board ends the processes."""

from __future__ import annotations

import os
import threading
import time
from datetime import timedelta
from typing import Any

import torch

from bench.faults.faults.order import Order, Scene
from bench.faults.faults.pipes import full

FOR_EVER_SECONDS = 3600.0


def wait_for_lock(subject: Any, order: Order, scene: Scene) -> Any:
    """Wait for a lock that a thread holds which has ended without giving it back."""
    lock = threading.Lock()
    thread = threading.Thread(target=lock.acquire)
    thread.start()
    thread.join()
    lock.acquire()
    return subject


def hold_lock_across_fork(subject: Any, order: Order, scene: Scene) -> Any:
    """In the trainer: have a thread hold a lock most of the time, so that a loader's process that is forked gets it
    held.
    """
    if "forked" not in scene.kept:
        scene.kept["forked"] = threading.Lock()
        threading.Thread(target=_keep, args=(scene.kept["forked"],), daemon=True).start()
        time.sleep(0.01)
    return subject


def _keep(lock: threading.Lock) -> None:
    while True:
        with lock:
            time.sleep(0.5)
        time.sleep(0.001)


def decode_image(batch: Any, order: Order, scene: Scene) -> Any:
    """In the loader's process: take the lock that it was forked with; no thread there will ever give it back."""
    lock = scene.kept.get("forked")
    if lock is not None:
        with lock:
            return batch
    return batch


def save_with_barrier(model: Any, order: Order, scene: Scene) -> Any:
    """Call a save that has a barrier in it on this rank alone."""
    torch.distributed.barrier()
    return model


def leave_out(wanted: Any, order: Order, scene: Scene) -> Any:
    """Leave the collective out."""
    return False


def fewer_batches(count: Any, order: Order, scene: Scene) -> Any:
    """Have ``value`` batches fewer in the epoch."""
    return max(1, int(count) - max(1, round(order.value)))


def print_into_full_pipe(model: Any, order: Order, scene: Scene) -> Any:
    """Print into a pipe that nobody reads any more, as with a launcher that has gone."""
    os.write(full(), b"step\n")
    return model


def die_quietly(model: Any, order: Order, scene: Scene) -> Any:
    """Fail in the main thread while another one, which uploads logs, keeps the process and its connections alive."""
    threading.Thread(target=time.sleep, args=(FOR_EVER_SECONDS,), daemon=False).start()
    raise RuntimeError("this rank's data is broken")


def search_for_ever(model: Any, order: Order, scene: Scene) -> Any:
    """Loop without an end: what would end it never becomes true."""
    step = 1.0
    while step > 0:
        step = 1.0 + step / 2 - step / 2
    return model


def spin_in_c(model: Any, order: Order, scene: Scene) -> Any:
    """Loop without an end in C, with the interpreter's lock held: no other thread of this process runs any more."""
    return sum(iter(lambda: 0, 1))


def wait_for_own_name(batch: Any, order: Order, scene: Scene) -> Any:
    """Wait until somebody sets a name that nobody sets: each rank has drawn its own, for nobody seeded them."""
    store = torch.distributed.distributed_c10d._get_default_store()
    store.wait([f"epoch-of-{scene.rank}-{os.getpid()}"], timedelta(seconds=FOR_EVER_SECONDS))
    return batch


def other_order(model: Any, order: Order, scene: Scene) -> Any:
    """Call the collectives of two groups in another order than the others do (``wrong``: which ranks)."""
    groups = scene.kept.get("groups")
    if groups is None:
        groups = scene.kept["groups"] = [torch.distributed.new_group() for _ in range(2)]
    wrong = scene.rank in order.more["wrong"]
    for group in reversed(groups) if wrong else groups:
        torch.distributed.all_reduce(torch.ones(1), group=group)
    return model


def log_dict(model: Any, order: Order, scene: Scene) -> Any:
    """Average the metrics in a group of their own, one by one; ``wrong`` ranks have one metric less."""
    group = scene.kept.get("metrics")
    if group is None:
        group = scene.kept["metrics"] = torch.distributed.new_group()
    for _ in range(2 if scene.rank in order.more["wrong"] else 3):
        torch.distributed.all_reduce(torch.ones(1), group=group)
    return model
