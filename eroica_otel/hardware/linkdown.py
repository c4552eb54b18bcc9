"""Source of how often the link of a worker's collectives went down: a counter of one interface or of one RDMA port.

Files: kernel documentation, Documentation/ABI/testing/sysfs-class-net (carrier_down_count) and
Documentation/ABI/stable/sysfs-class-infiniband (link_downed).
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from pathlib import Path

from eroica_otel.hardware.columns import Column, FileSource
from eroica_otel.hardware.host import SYS
from eroica_otel.hardware.pace import Clock
from eroica_otel.hardware.source import Resource


class LinkDownSource(FileSource):
    """The link ``link``: the name of an interface, or of a port such as mlx5_0/1; "" while it is unknown."""

    def __init__(self, sys: Path = SYS, clock: Clock = time.monotonic) -> None:
        super().__init__(clock)
        self._sys = sys
        self.link = ""

    def columns(self) -> Iterator[Column]:
        if not self.link:
            return
        device, _, port = self.link.partition("/")
        path = self._sys / "class" / "net" / device / "carrier_down_count"
        if port:
            path = self._sys / "class" / "infiniband" / device / "ports" / port / "counters" / "link_downed"
        yield Column(Resource("link_down", self.link, "1", math.nan, counter=True), path)
