"""The switches of the board in a training: the workloads call ``Switches`` at named points, and the orders of the
control folder say which fault acts there.

An order is a file ``orders/SWITCH.json``. While there is none, a point costs microseconds.
"""

from __future__ import annotations

import json
import os
import pathlib
from typing import Any, NamedTuple

from bench.faults.faults import hangs, inputs, saving, slow, unseen, work
from bench.faults.faults.order import Fault, Order, Scene


class Switch(NamedTuple):
    """A fault of the training's code.

    Attributes:
        point: Where it acts; the workloads say which points they have.
        fault: What it does.
        unit: Of its value; empty where it has none.
    """

    point: str
    fault: Fault
    unit: str = "s"


SWITCHES = {
    "augment": Switch("batch", slow.augment),
    "clip-gradients": Switch("before_step", slow.clip_gradients),
    "slow-backward": Switch("backward", slow.slow_backward),
    "slow-forward": Switch("forward", slow.slow_forward),
    "read-status": Switch("after_step", slow.read_status),
    "write-log": Switch("after_step", slow.write_log),
    "print-progress": Switch("after_step", slow.print_progress),
    "prepare-upload": Switch("after_step", slow.prepare_upload, ""),
    "collect-garbage": Switch("after_step", slow.collect_garbage),
    "short-waits": Switch("before_step", slow.short_waits),
    "tokenize": Switch("load", inputs.tokenize),
    "unpack-shard": Switch("load", inputs.unpack_shard),
    "read-shard": Switch("load", inputs.read_shard, "KiB"),
    "read-cache": Switch("load", inputs.read_cache),
    "wait-for-remote": Switch("load", inputs.wait_for_remote),
    "more-samples": Switch("batch", work.more_samples, "samples"),
    "long-sequences": Switch("batch", work.long_sequences, "samples"),
    "uneven-micro": Switch("micro", work.more_samples, "samples"),
    "stage-work": Switch("stage", work.more_work, "s"),
    "route": Switch("experts", work.route, "share"),
    "churn": Switch("forward", work.churn, "MiB"),
    "look-up": Switch("forward", work.look_up, "rows"),
    "recompile": Switch("forward", work.recompile, "layers"),
    "many-threads": Switch("batch", work.use_threads, "threads"),
    "log-metrics": Switch("after_step", work.log_metrics, "metrics"),
    "save-checkpoint": Switch("after_step", saving.save_checkpoint),
    "slow-save": Switch("checkpoint", saving.slow_save),
    "long-validation": Switch("validation", saving.long_validation, "batches"),
    "evaluate": Switch("after_step", saving.evaluate),
    "wait-for-lock": Switch("batch", hangs.wait_for_lock, ""),
    "lock-in-stage": Switch("stage", hangs.wait_for_lock, ""),
    "fork-lock": Switch("batch", hangs.hold_lock_across_fork, ""),
    "fork-lock-loader": Switch("load", hangs.decode_image, ""),
    "save-with-barrier": Switch("after_step", hangs.save_with_barrier, ""),
    "leave-out": Switch("collective", hangs.leave_out, ""),
    "fewer-batches": Switch("epoch", hangs.fewer_batches, "batches"),
    "full-pipe": Switch("after_step", hangs.print_into_full_pipe, ""),
    "die-quietly": Switch("after_step", hangs.die_quietly, ""),
    "search-for-ever": Switch("after_step", hangs.search_for_ever, ""),
    "spin-in-c": Switch("after_step", hangs.spin_in_c, ""),
    "wait-for-own-name": Switch("batch", hangs.wait_for_own_name, ""),
    "other-order": Switch("after_step", hangs.other_order, ""),
    "log-dict": Switch("after_step", hangs.log_dict, ""),
    "push-metrics": Switch("after_step", unseen.push_metrics),
    "wait-for-flag": Switch("before_step", unseen.wait_for_flag),
    "clean-text": Switch("load", unseen.clean_text),
    "sync-buffers": Switch("after_step", unseen.sync_buffers, "buffers"),
    "wait-for-baton": Switch("forward", unseen.wait_for_baton, ""),
    "stop-early": Switch("after_step", unseen.stop_early, ""),
    "beat": Switch("after_step", unseen.beat, ""),
}
"""Every switch by the name of its order."""


class Switches:
    """What a workload calls. It may be pickled with a data set: a loader's process reads the orders by itself.

    Attributes:
        folder: The control folder.
        rank: This process's rank.
    """

    def __init__(self, folder: pathlib.Path, rank: int) -> None:
        self.folder, self.rank = folder, rank
        self._world = int(os.environ.get("WORLD_SIZE", "1"))
        self._iteration = 0
        self._owner = os.getpid()
        self._orders: dict[str, Order] = {}
        self._first: dict[str, int] = {}
        self._kept: dict[str, Any] = {}

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_kept": {}}

    def begin(self, iteration: int) -> None:
        """Read the orders; the training calls this once an iteration."""
        self._iteration = iteration
        self._orders = _orders(self.folder)
        self._first = {name: self._first.get(name, iteration) for name in self._orders}

    def at(self, point: str, subject: Any = None) -> Any:
        """Let the faults of a point act on what the training has there, and return it."""
        if point == "load" and os.getpid() != self._owner:  # a loader's process counts its batches
            self.begin(self._iteration + 1)
        for name, order in self._orders.items():
            if SWITCHES[name].point == point and order.acts(self.rank, self._iteration, self._first[name]):
                scene = Scene(self.rank, self._world, self._iteration, self._kept)
                subject = SWITCHES[name].fault(subject, order, scene)
        return subject


def _orders(folder: pathlib.Path) -> dict[str, Order]:
    try:
        files = sorted((folder / "orders").glob("*.json"))
    except OSError:
        return {}
    found = {}
    for file in files:
        try:
            found[file.stem] = Order.of(json.loads(file.read_text()))
        except FileNotFoundError:  # lifted at this moment
            continue
    return found
