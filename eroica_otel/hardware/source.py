"""What a source of hardware samples is: the resources it knows, and one reading of all of them. No I/O."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable


@dataclass(frozen=True, slots=True)
class Resource:
    """One quantity of one device.

    Attributes:
        name: What is sampled: sm, dram, pcie_rx, nic_tx, cpu, ...
        device: Whose it is: UUID of a GPU, network interface, "mlx5_0/1", "pid 4711", "" for the node.
        unit: Unit of the raw value, UCUM ("By", "ns", "1", "W", "Cel", "MHz").
        peak: Raw value (of a counter: its rise per second) at which the resource is wholly in use; NaN where unknown.
        counter: Whether the raw value only grows; else it holds until the next reading.
    """

    name: str
    device: str
    unit: str
    peak: float
    counter: bool

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Resource) and self._known() == other._known()

    def __hash__(self) -> int:
        return hash(self._known())

    def _known(self) -> tuple[object, ...]:
        # A NaN equals nothing; that two peaks are unknown does not make two resources.
        return self.name, self.device, self.unit, None if math.isnan(self.peak) else self.peak, self.counter


class Source(Protocol):
    """A family of resources that are read together.

    Attributes:
        family: nvml, rdma, net, pcie, host, ...
        resources: What a reading holds, in its order; it changes in ``look`` alone.
        missing: Resources or devices that cannot be read, with the reason, for people.
    """

    family: str
    resources: tuple[Resource, ...]
    missing: dict[str, str]

    def look(self) -> None:
        """Find devices anew (they come and go) and renew ``resources``; never raises."""

    def read(self) -> Sequence[float]:
        """Return the raw values of all resources, NaN for one that could not be read now; never raises."""


@runtime_checkable
class BatchSource(Source, Protocol):
    """A source that can take several readings at little cost each and make numbers of them afterwards.

    Attributes:
        most_rows: How many it can take before ``rows`` must be asked.
    """

    most_rows: int

    def take(self, row: int) -> None:
        """Take reading ``row`` = 0, 1, ...; never raises."""

    def rows(self, count: int) -> Sequence[Sequence[float]]:
        """Return the readings 0 to ``count`` - 1, raw as ``read`` gives them; never raises."""
