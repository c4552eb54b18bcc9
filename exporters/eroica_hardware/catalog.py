"""Which sources there are, how fast each is read at most, which share a thread: a table, and the sources made of it.

Takes the names of sources, gives them. What may hang (a driver, firmware, another process) has a thread of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from eroica_hardware.dcgm import URL, DcgmSource, over_http
from eroica_hardware.gpm import GpmSource
from eroica_hardware.gpus import MOST_ROWS
from eroica_hardware.nsys import HERTZ as NSYS_HERTZ
from eroica_hardware.nsys import NsysSource
from eroica_hardware.nvml import NvmlSource
from eroica_hardware.sampler import MOST_BUSY, STEADY_HERTZ
from eroica_otel.hardware.disks import DiskSource
from eroica_otel.hardware.interfaces import InterfaceSource
from eroica_otel.hardware.netns import NamespaceSource
from eroica_otel.hardware.pcie import PcieSource
from eroica_otel.hardware.pressure import PressureSource
from eroica_otel.hardware.rdma import RdmaSource, RdmaStateSource
from eroica_otel.hardware.rocm import RocmSource
from eroica_otel.hardware.source import Source

LONGEST_SECONDS = 65
"""A ring holds the longest window that can be announced (60 s), and what passes until it is read."""


NVIDIA = "an NVIDIA GPU, its driver and nvidia-ml-py"
RDMA = "an InfiniBand, RoCE or EFA device"


@dataclass(frozen=True, slots=True)
class Wanted:
    """What sources are made with: the address of a dcgm-exporter, the speed of silent interfaces in Mbit/s, and the
    processes that announced windows, 0 for those that cannot be seen."""

    dcgm: str = ""
    nic_mbit: float = 0.0
    workers: Callable[[], Iterable[int]] = tuple


@dataclass(frozen=True, slots=True)
class Entry:
    """One source.

    Attributes:
        make: Makes it.
        most_hertz: Readings a second in a window; above it nothing new would be read.
        quick: Whether it shares a thread with others: its files are answered by the kernel, without a device.
        usual: Whether it is read unless told otherwise.
        looks_for: What it needs, for people.
        most_busy: Share of the time that its readings may take.
    """

    make: Callable[[Wanted], Source]
    most_hertz: float
    quick: bool
    usual: bool
    looks_for: str
    most_busy: float = MOST_BUSY


CATALOG: Mapping[str, Entry] = MappingProxyType(
    {
        # Fast are the clock of the SMs and the links, the cheapest calls: 40 numbers of 8 GPUs, in a row of 320 bytes.
        "nvml": Entry(lambda wanted: NvmlSource(quick=True), 1000, False, True, NVIDIA),
        # A little more than the 100 ms in which its samples are renewed lie between two readings.
        "gpm": Entry(lambda wanted: GpmSource(), 9, False, True, "an NVIDIA GPU from Hopper on"),
        # All else of NVML: renewed a few times a second or seldom, and some of it takes milliseconds.
        "nvml_state": Entry(lambda wanted: NvmlSource(quick=False), 5, False, True, NVIDIA),
        "rocm": Entry(lambda wanted: RocmSource(), 100, False, True, "an AMD GPU"),
        "dcgm": Entry(lambda wanted: DcgmSource(over_http(wanted.dcgm)), 1, False, False, "--dcgm"),
        # Not read: it gets the samples of a window after it (nsys.py).
        "nsys": Entry(
            lambda wanted: NsysSource(over_http(wanted.dcgm or URL)),
            NSYS_HERTZ,
            False,
            False,
            "nsys on PATH and an announced window",
        ),
        # Each port has a pace of its own, and the thread waits for firmware more than it works.
        "rdma": Entry(lambda wanted: RdmaSource(), 200, False, True, RDMA, most_busy=1.0),
        "rdma_state": Entry(lambda wanted: RdmaStateSource(), 10, False, True, RDMA),
        # A byte counter read faster than its driver renews it shows steps (docs/method.md, the 90th percentile). Its
        # speed is the driver's answer, under a lock of the whole network.
        "net": Entry(lambda wanted: InterfaceSource(mbit=wanted.nic_mbit), 500, False, True, "a network interface"),
        # Of namespaces that are there once a worker has spoken.
        "netns": Entry(
            lambda wanted: NamespaceSource(wanted.workers, wanted.nic_mbit),
            200,
            False,
            True,
            "a worker in another network namespace, which has announced a window",
        ),
        "pcie": Entry(lambda wanted: PcieSource(), 1, False, True, "a PCIe device in sysfs"),
        "pressure": Entry(lambda wanted: PressureSource(), 10, True, True, "a kernel with PSI"),
        "disk": Entry(lambda wanted: DiskSource(), 10, True, True, "a disk in sysfs"),
    }
)
"""The table, the sources of GPUs first: of two that tell the same, the first is shown."""

FAMILIES = tuple(CATALOG)
USUAL = tuple(family for family, each in CATALOG.items() if each.usual)


def slots_of(family: str) -> int:
    """Return how many samples the source's ring keeps."""
    return 1 << min(17, max(6, int(CATALOG[family].most_hertz * LONGEST_SECONDS - 1).bit_length()))


def batch_of(family: str) -> int:
    """Return how many samples are stored at once: a sixth of a second of what is read a hundred times a second."""
    steady = CATALOG[family].usual and CATALOG[family].most_hertz >= STEADY_HERTZ
    return MOST_ROWS if steady else 1


def groups(families: Iterable[str]) -> list[list[str]]:
    """Return the sources that share a thread."""
    chosen = tuple(families)
    quick = [family for family in chosen if CATALOG[family].quick]
    return [group for group in (quick, *([family] for family in chosen if family not in quick)) if group]
