"""Sources `nvml`, `nvml_state` and `gpm` on a real NVIDIA GPU: what they tell, how fast, and what that costs.

    python -m bench.gpu_hardware [--seconds 5] [--load PYTHON_WITH_CUDA_TORCH]

Reads through the agent's own samplers and rings, 100 Hz and then as fast as in a window, while ``--load`` multiplies
matrices on the first GPU. Prints a line for each resource, one for each source, what was not there and why, and the
time of the load's iterations without sampling and with either rate, three times in turn (gpu_load.py). Fails where a
share of a peak is outside [0, 1], where a clock, power or (from Hopper on) an SM activity is missing, and where the
load is not seen. Exits with 3 where there is no GPU to ask.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from bench.gpu_load import Load, running
from eroica_hardware.catalog import CATALOG, batch_of, slots_of
from eroica_hardware.gpm import GpmSource
from eroica_hardware.gpus import GpuSource
from eroica_hardware.nvml import NvmlSource
from eroica_hardware.rings import KeptRing
from eroica_hardware.sampler import Sampler, start
from eroica_otel.hardware.ringreader import Samples, open_ring
from eroica_otel.hardware.shared import open_folder
from eroica_otel.hardware.shares import shares
from eroica_otel.hardware.source import Resource

ROUNDS = 3
NEEDED = ("sm_clock", "power")
BUSY = {"gpu_util": 0.3, "sm": 0.2}
"""Least mean shares of resources of the first GPU while it multiplies matrices."""


def look(sources: Sequence[GpuSource]) -> bool:
    """Find the GPUs and say what is missing; return whether there is one."""
    for source in sources:
        source.look()
        print(f"{source.family}: {len(source.resources)} resources")
        for what, why in sorted(source.missing.items()):
            print(f"  missing {what}: {why}")
    return bool(sources[0].resources)


def measured(
    sources: Sequence[GpuSource], fast: bool, seconds: float
) -> dict[str, tuple[tuple[Resource, ...], Samples]]:
    """Sample for a while as the agent does; print rates and the cost, return what a worker would read."""
    found = {}
    with tempfile.TemporaryDirectory() as path:
        folder, stop = open_folder(Path(path)), threading.Event()
        samplers = [
            Sampler(
                source,
                KeptRing(folder, source.family, slots_of(source.family), batch_of(source.family)),
                lambda now: fast,
                most_hertz=CATALOG[source.family].most_hertz,
            )
            for source in sources
        ]
        threads = start([[one] for one in samplers], stop)
        time.sleep(1)
        cpu, begin, now = time.process_time(), time.monotonic(), time.monotonic_ns()
        time.sleep(seconds)
        cost = (time.process_time() - cpu) / (time.monotonic() - begin)
        for one in samplers:
            ring = open_ring(folder, one.ring.name)
            found[one.source.family] = ring.layout.resources, ring.read(now, time.monotonic_ns())
            ring.close()
            kept, late = one.deadlines.kept, one.deadlines.kept.jitter_seconds * 1e3
            print(f"{one.source.family}: {kept.hertz:.0f} Hz, late by {late:.2f} ms, {kept.missed} missed,"
                  f" {dict(one.failures) or 'no failures'}")  # fmt: skip
        print(f"{'in a window' if fast else 'always'}: {cost:.1%} of a core for these sources\n")
        stop.set()
        for thread in threads:
            thread.join(10)
        os.close(folder)
    return found


def wrong(resource: Resource, share: np.ndarray, first: str, loaded: bool) -> str:
    """Return what is wrong with the shares of one resource, "" for nothing."""
    known = share[np.isfinite(share)]
    if not len(known):
        return "no value" if resource.name in NEEDED and resource.peak > 0 else ""
    if known.min() < 0 or known.max() > 1:
        return f"a share of {known.min()} to {known.max()}"
    if loaded and resource.device == first and known.mean() < BUSY.get(resource.name, 0):
        return f"a mean share of {known.mean():.3f} under load"
    return ""


def judged(found: dict[str, tuple[tuple[Resource, ...], Samples]], loaded: bool) -> int:
    """Print the mean share and the latest raw value of each resource; return how many are wrong."""
    there = {resource.name for resources, _ in found.values() for resource in resources}
    for name in sorted({*NEEDED} - there):
        print(f"{name}   WRONG: no GPU tells it")
    count = len({*NEEDED} - there)
    for family, (resources, samples) in found.items():
        for place, resource in enumerate(resources):
            values = samples.values[:, place]
            share = shares(resource, samples.times, values)
            raw, known = values[np.isfinite(values)], share[np.isfinite(share)]
            mu = f"{known.mean():.4f}" if len(known) else "-"
            latest = f"{raw[-1]:.6g} {resource.unit}" if len(raw) else "nothing"
            complaint = wrong(resource, share, resources[0].device, loaded)
            count += bool(complaint)
            print(f"{family:10} {resource.device[:12]:12} {resource.name:24} mu {mu:7} {len(raw):6} values, latest"
                  f" {latest}{'   WRONG: ' + complaint if complaint else ''}")  # fmt: skip
    return count


def measured_in_turn(sources: Sequence[GpuSource], load: Load, seconds: float) -> int:
    """Sample not at all, always and as in a window, in turn; print and judge what came first, return what is wrong."""
    count = 0
    for turn in range(ROUNDS if load.process is not None else 1):
        with load.stretch("not sampled"):
            time.sleep(seconds if load.process is not None else 0)
        for what, fast in (("100 Hz", False), ("in a window", True)):
            with load.stretch(what):
                found = measured(sources, fast, seconds)
            count += 0 if turn else judged(found, load.runs)
    return count


def main() -> int:
    """Return 0 where all is as it should be, 1 where not, 3 without a GPU."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--load", default="", help="a Python whose torch sees the GPU")
    arguments = parser.parse_args()
    sources = [NvmlSource(quick=True), NvmlSource(quick=False), GpmSource()]
    if not look(sources):
        print("gpu_hardware: NVML tells of no GPU, see above; nothing was measured", file=sys.stderr)
        return 3
    try:
        with running(arguments.load, ROUNDS * 3 * (arguments.seconds + 5)) as load:
            print(f"\nthe first GPU is {'busy' if load.runs else 'left alone'}")
            count = measured_in_turn(sources, load, arguments.seconds)
            if arguments.load:
                print(load.report())
    finally:
        for source in sources:
            source.close()
    print(
        f"gpu_hardware: {count} resources are wrong" if count else "gpu_hardware: NVML and GPM are live, mu in [0, 1]"
    )
    return int(count > 0)


if __name__ == "__main__":
    raise SystemExit(main())
