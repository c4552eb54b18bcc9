"""The hardware of one worker as its training process knows it: its GPUs, the link of its collectives, the node agent.

Takes the environment and torch as the training has it; gives what the status says, what a window's sampler reads, and
what could not be sampled. Composition only: what is done is in hardware/.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Mapping
from typing import Any

from eroica_otel.config import WorkerConfig
from eroica_otel.hardware import host
from eroica_otel.hardware.gpus import Gpu, gpus_of, unreadable
from eroica_otel.hardware.herald import Herald
from eroica_otel.hardware.link import NOT_FOUND, OwnCounters, interface_link, rdma_link
from eroica_otel.model import GPU_RESOURCES
from eroica_otel.profile.capture import Readings

_TORCH_RAISES = (RuntimeError, AssertionError, AttributeError, TypeError, ValueError)
"""What torch's questions raise after an error on the device, and where a version has them not or otherwise."""


class Equipment:
    """What a worker knows of its own hardware.

    Attributes:
        link: The link of the collectives.
        gpus: The GPUs that it trains on, the training thread's first; () before they are used.
        missing: Resources that this process could not sample in the window that was opened last, with the reason.
        peak_bytes: Bytes per second that the link can carry; None where it does not tell.
    """

    def __init__(
        self, environment: Mapping[str, str], config: WorkerConfig, failed: Callable[[str, str], None]
    ) -> None:
        """Args: failed: Counts a failure of a stage."""
        self._environment, self._config = environment, config
        self._interface = self.link = interface_link(environment, config.nic)
        self._herald = Herald(config.hardware_dir, failed)
        self._counters: OwnCounters | None = None
        self.gpus: tuple[Gpu, ...] = ()
        self.missing: dict[str, str] = {}
        self.peak_bytes: float | None = None

    def open(self, local_rank: int) -> Callable[[], tuple[int, int] | None] | None:
        """Training thread, at the start of a window: look at the devices, open the link's counters; None without."""
        self.close()
        self._look(local_rank)
        self.missing, self.peak_bytes = {}, None
        if self.gpus and (why := unreadable(self.gpus)):
            self.missing |= dict.fromkeys(GPU_RESOURCES, why)
        if not self.link.name:
            self.missing["nic"] = NOT_FOUND
            return None
        try:
            self._counters = OwnCounters(self.link, self._config.nic_mbit)
        except OSError as error:
            self.missing["nic"] = str(error)
            return None
        self.peak_bytes = self._counters.peak_bytes
        if self.peak_bytes is None:
            self.missing["nic"] = f"{self.link.device} does not tell its speed: set EROICA_NIC_MBIT"
        return self._counters.read

    def _look(self, local_rank: int) -> None:
        torch = sys.modules.get("torch")
        try:
            self.gpus = gpus_of(getattr(torch, "cuda", None), self._environment)
            backend = _backend(sys.modules.get("torch.distributed"), bool(self.gpus))
        except _TORCH_RAISES:
            backend = ""
        gpu = self.gpus[0].address if self.gpus else ""
        port = rdma_link(self._environment, self._config.nic, backend, gpu, local_rank)
        self.link = self._interface if port is None else port

    def close(self) -> None:
        """Close the link's counters; may be called twice."""
        if self._counters is not None:
            self._counters.close()
            self._counters = None

    def announce(self, rank: int, window: int, seconds: float) -> None:
        """Tell the node agent that a window begins and is over in that many seconds; never on the training thread.

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
