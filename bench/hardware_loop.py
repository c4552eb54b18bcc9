"""What the node agent's readings take when nothing else runs between them: no sleep, so caches stay warm.

    python -m bench.hardware_loop [--sources nvml,nvml_state,gpm] [--seconds 4] [--rounds 7]

The samplers of bench/hardware_agent.py, on a clock that is turned to the next deadline instead of waiting for it, so
that the work of ``--seconds`` is done at once: CPU time of it over those seconds, least and median of the rounds. This
is what bench/hardware.py would measure on a core that does nothing else, without the cost of waking; the real agent on
a busy machine costs more.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bench.hardware import FAMILIES, load_stand_in
from bench.hardware_agent import machine
from eroica_hardware.catalog import CATALOG, batch_of, slots_of
from eroica_hardware.gpm import GpmSource
from eroica_hardware.nvml import NvmlSource
from eroica_hardware.rings import KeptRing
from eroica_hardware.sampler import Sampler
from eroica_otel.hardware.disks import DiskSource
from eroica_otel.hardware.interfaces import InterfaceSource
from eroica_otel.hardware.pcie import PcieSource
from eroica_otel.hardware.pressure import PressureSource
from eroica_otel.hardware.rdma import RdmaSource, RdmaStateSource
from eroica_otel.hardware.shared import open_folder
from eroica_otel.hardware.source import Source
from factories_hardware import Tree

SECOND = 1_000_000_000


class Turned:
    """A clock that moves when it is turned."""

    def __init__(self) -> None:
        self.now = 1000 * SECOND

    def __call__(self) -> int:
        return self.now

    def seconds(self) -> float:
        return self.now / SECOND


def sources(tree: Tree, clock: Callable[[], float]) -> dict[str, Callable[[], Source]]:
    return {
        "nvml": lambda: NvmlSource(None, clock, quick=True),
        "nvml_state": lambda: NvmlSource(None, clock, quick=False),
        "gpm": lambda: GpmSource(None, clock),
        "rdma": lambda: RdmaSource(tree.sys, clock=clock),
        "rdma_state": lambda: RdmaStateSource(tree.sys, clock=clock),
        "net": lambda: InterfaceSource(sys=tree.sys, clock=clock),
        "pcie": lambda: PcieSource(tree.sys, clock=clock),
        "pressure": lambda: PressureSource(clock=clock),
        "disk": lambda: DiskSource(clock=clock),
    }


def done(samplers: list[Sampler], clock: Turned, seconds: float) -> float:
    """Do the work of so many seconds; return the share of a core that it takes."""
    end = clock.now + round(seconds * SECOND)
    begin = time.process_time()
    while clock.now < end:
        clock.now += min(one.deadlines.wait(clock.now) for one in samplers)
        for one in samplers:
            if not one.deadlines.wait(clock.now):
                one.tick()
    return (time.process_time() - begin) / seconds


def main() -> None:
    """Print the shares."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sources", default=FAMILIES)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    load_stand_in()
    print("| sources | rate | share of a core, least | median |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory(dir="/dev/shm") as path:
        clock, fast = Turned(), [False]
        made = sources(machine(Path(path) / "machine"), clock.seconds)
        (Path(path) / "shared").mkdir()
        folder = open_folder(Path(path) / "shared")
        samplers = [
            Sampler(
                made[family](),
                KeptRing(folder, family, slots_of(family), batch_of(family)),
                lambda now: fast[0],
                clock,
                CATALOG[family].most_hertz,
            )
            for family in arguments.sources.split(",")
            if family in made
        ]
        for fast[0] in (False, True):
            done(samplers, clock, 1.0)
            shares = [done(samplers, clock, arguments.seconds) for _ in range(arguments.rounds)]
            rate = "in a window" if fast[0] else "100 Hz"
            print(f"| {arguments.sources} | {rate} | {min(shares):.2%} | {statistics.median(shares):.2%} |", flush=True)
        os.close(folder)


if __name__ == "__main__":
    main()
