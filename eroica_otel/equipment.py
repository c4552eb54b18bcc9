"""The hardware of one worker as its training process knows it: its GPUs, the link of its collectives, the node agent.

Takes the environment and torch as the training has it; gives what the status says, what a window's sampler reads, and
what could not be sampled. Composition only: what is done is in hardware/.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from eroica_otel.config import WorkerConfig
from eroica_otel.hardware import host
from eroica_otel.hardware.gpus import Gpu, current_gpu, gpus_of, unreadable
from eroica_otel.hardware.herald import Herald
from eroica_otel.hardware.link import NOT_FOUND, OwnCounters, interface_link, rdma_link
from eroica_otel.hardware.look import Look
from eroica_otel.model import GPU_RESOURCES
from eroica_otel.profile.capture import Readings

SILENT = "a device's files, or the driver's, have not answered"
HANGS_SECONDS = 1.0
"""A reading of counters that takes longer is given up."""

_TORCH_RAISES = (RuntimeError, AssertionError, AttributeError, TypeError, ValueError)
"""What torch's questions raise after an error on the device, and where a version has them not or otherwise."""


@dataclass(frozen=True, slots=True)
class _Found:
    """What a look found: the link's open counters and their peak, None where there are none; what is missing, why."""

    counters: OwnCounters | None = None
    peak_bytes: float | None = None
    missing: Mapping[str, str] = field(default_factory=dict)


class Equipment:
    """What a worker knows of its own hardware.

    Files of devices are opened and read in threads of ours alone: a hung driver or firmware never answers.

    Attributes:
        link: The link of the collectives.
        gpus: The GPUs that it trains on, the training thread's first; () before they are used.
    """

    def __init__(
        self,
        environment: Mapping[str, str],
        config: WorkerConfig,
        failed: Callable[[str, str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Args: failed: Counts a failure of a stage."""
        self._clock = clock
        self._environment, self._config = environment, config
        self._interface = self.link = interface_link(environment, config.nic)
        self._herald = Herald(config.hardware_dir, failed)
        self._failed = failed
        self._look: Look[_Found] | None = None
        self._asked: float | None = None
        self._current: int | None = None
        self.gpus: tuple[Gpu, ...] = ()

    def prepare(self, local_rank: int) -> None:
        """1 Hz thread, before a window: have a thread look at the devices and open the link's counters; never raises.

        One that still waits for a device since the window before is left alone, and nothing is sampled of the link.
        """
        if self._hangs or (self._look is not None and self._look.running):
            self._failed("devices", f"{SILENT} since the window before: nothing is sampled of them")
            return
        self.close()
        self._look = Look(lambda: self._see(local_rank), _close)
        self._look.start()

    def open(self) -> Callable[[], tuple[int, int] | None]:
        """Training thread, at the start of a window: return what reads the link, None so long as it cannot.

        It asks torch which GPU is this thread's, and waits for nothing.
        """
        with suppress(*_TORCH_RAISES):
            self._current = current_gpu(getattr(sys.modules.get("torch"), "cuda", None))
        return self._read

    @property
    def missing(self) -> dict[str, str]:
        """Resources that this process could not sample in the window that was prepared last, with the reason."""
        found = self._found
        return {"nic": SILENT} if found is None or self._hangs else dict(found.missing)

    @property
    def _hangs(self) -> bool:
        """Whether a device was asked, long ago, and has not answered."""
        asked = self._asked
        return asked is not None and self._clock() - asked > HANGS_SECONDS

    @property
    def peak_bytes(self) -> float | None:
        """Bytes per second that the link can carry; None where it does not tell."""
        return None if self._found is None else self._found.peak_bytes

    @property
    def _found(self) -> _Found | None:
        return None if self._look is None else self._look.found

    def _read(self) -> tuple[int, int] | None:
        found = self._found
        if found is None or found.counters is None or self._hangs:
            return None
        self._asked = self._clock()
        seen = found.counters.read()
        self._asked = None
        return seen

    def _see(self, local_rank: int) -> _Found:
        self._find(local_rank)
        why = unreadable(self.gpus) if self.gpus else ""
        missing = dict.fromkeys(GPU_RESOURCES, why) if why else {}
        if not self.link.name:
            return _Found(missing=missing | {"nic": NOT_FOUND})
        try:
            counters = OwnCounters(self.link, self._config.nic_mbit)
        except OSError as error:
            return _Found(missing=missing | {"nic": str(error)})
        if counters.peak_bytes is None:
            missing |= {"nic": f"{self.link.device} does not tell its speed: set EROICA_NIC_MBIT"}
        return _Found(counters, counters.peak_bytes, missing)

    def _find(self, local_rank: int) -> None:
        torch = sys.modules.get("torch")
        try:
            self.gpus = gpus_of(getattr(torch, "cuda", None), self._environment, self._current)
            backend = _backend(sys.modules.get("torch.distributed"), bool(self.gpus))
        except _TORCH_RAISES:
            backend = ""
        gpu = self.gpus[0].address if self.gpus else ""
        port = rdma_link(self._environment, self._config.nic, backend, gpu, local_rank)
        self.link = self._interface if port is None else port

    def close(self) -> None:
        """After a window: close the link's counters, now or once they are open, and have no more announced of it.

        May be called twice. Files of a device that hangs stay open: their reader is still at them.
        """
        self._herald.end()
        if self._look is not None and not self._hangs:
            self._look.leave()

    def announce(self, rank: int, window: int, seconds: float) -> None:
        """Tell the node agent that a window begins and is over in that many seconds, and again so long as it runs.

        Raises:
            RuntimeError: no further thread may be started.
        """
        self._herald.announce(rank, window, seconds)

    def told(self) -> dict[str, Any]:
        """Return what the status says of it, by field of status.Status."""
        first = self.gpus[0] if self.gpus else Gpu("", "", "")
        return {
            "nic": self.link.name,
            "link": self.link.device,
            "gpu_uuid": first.uuid,
            "pci_bus_id": first.address,
            "gpus": tuple(gpu.device for gpu in self.gpus if gpu.device and not gpu.part),
        }


def _close(found: _Found) -> None:
    if found.counters is not None:
        found.counters.close()


def _backend(distributed: Any, gpu: bool) -> str:
    """Return the backend of the process groups; torch, which was not told one, takes nccl for what lies on a GPU."""
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return ""
    name = str(distributed.get_backend())
    return "nccl" if name == "undefined" and gpu else name


def readings() -> Readings:
    """Return what is read once at either border of a window."""
    pid = os.getpid()
    return Readings(host.run_delay_ns(pid, threading.get_native_id()), host.throttled_ns(pid))
