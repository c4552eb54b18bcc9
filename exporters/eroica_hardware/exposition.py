"""What the agent shows on /metrics: its resources, what is missing, and what it costs itself.

Takes the running parts of the agent, gives families of prometheus-client. Nothing here is sampled for the sake of being
shown: readings come out of the rings.
"""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from eroica_hardware import names
from eroica_hardware.announce import Announcements
from eroica_hardware.deadlines import SECOND
from eroica_hardware.gpustatus import SOURCE, Seen
from eroica_hardware.nvml import NvmlSource
from eroica_hardware.readings import Reading, latest
from eroica_hardware.sampler import Sampler
from eroica_hardware.series import Sample, samples
from eroica_hardware.windows import Windows
from eroica_otel import __version__
from eroica_otel.errors import one_line
from eroica_otel.hardware.net import SYS

MOST_MISSING = 64
SILENT_NS = 3 * SECOND
NO_ANSWER = "it has not answered for seconds; the driver or device may hang"
OUTCOMES = ("accepted", "refused", "stranger", "rubbish", "silent", "failed")
STAGES = ("source", "ring")


class Exposition(Collector):
    """All series of one agent."""

    def __init__(
        self,
        host: str,
        folder: int,
        samplers: Sequence[Sampler],
        windows: Windows,
        announcements: Announcements,
        clock: Callable[[], int] = time.monotonic_ns,
        sys: Path = SYS,
    ) -> None:
        self._host, self._folder, self._samplers = host, folder, samplers
        self._windows, self._announcements, self._clock = windows, announcements, clock
        self._interfaces = sys / "class" / "net"
        self._seen = Seen()

    def collect(self) -> Iterator[Family]:
        """Yield one family per name, in the order of names.py."""
        found: dict[str, Family] = {}
        for metric, labels, value in self._samples():
            if metric.name not in found:
                # prometheus-client adds _total itself to a family of counters.
                found[metric.name] = Family(metric.name.removesuffix("_total"), metric.help, metric.type)
            found[metric.name].add_sample(metric.name, {"host": self._host, **labels}, value)
        yield from (found[metric.name] for metric in names.ALL if metric.name in found)

    def _samples(self) -> Iterator[Sample]:
        now = self._clock()
        readings = {one.source.family: latest(self._folder, one.source.family, now) for one in self._samplers}
        yield from samples(readings, lambda name: (self._interfaces / name / "device").exists())
        for sampler in self._samplers:
            yield from self._gpus(sampler, readings[sampler.source.family], now)
            yield from of_source(sampler, now)
        yield from self._own(now)

    def _gpus(self, sampler: Sampler, readings: Sequence[Reading], now: int) -> Iterator[Sample]:
        """Yield what each GPU is, and how it is."""
        source = sampler.source
        if not isinstance(source, NvmlSource) or source.family != SOURCE:
            return
        present, missing = dict(source.facts), dict(source.missing)
        for gpu, told in present.items():
            yield names.GPU_INFO, {"hw_id": gpu, "hw_type": "gpu", "hw_vendor": "NVIDIA", **told}, 1.0
        answers = source.family not in missing and not is_silent(sampler, now)
        yield from self._seen.samples(present, missing, answers, readings)

    def _own(self, now: int) -> Iterator[Sample]:
        for outcome in OUTCOMES:
            yield names.ANNOUNCEMENTS, {"outcome": outcome}, self._announcements.counts[outcome]
        yield names.WINDOW, {}, self._windows.running(now)
        yield names.CPU, {}, cpu_seconds()
        yield names.MEMORY, {}, memory_bytes()
        yield names.BUILD_INFO, {"version": __version__}, 1.0


def is_silent(sampler: Sampler, now: int) -> bool:
    """Whether its source has been asked and does not answer."""
    return sampler.deadlines.overdue(now) > SILENT_NS


def of_source(sampler: Sampler, now: int) -> Iterator[Sample]:
    """Yield what a source has, lacks and costs; of one that does not answer the rate is 0."""
    source = sampler.source
    whose = {"source": source.family}
    silent = is_silent(sampler, now)
    yield names.RESOURCES, whose, len(source.resources)
    missing = dict(source.missing) | ({source.family: NO_ANSWER} if silent else {})
    for what, reason in sorted(missing.items())[:MOST_MISSING]:
        yield names.MISSING, whose | {"what": one_line(what), "reason": one_line(reason)}, 1.0
    kept = sampler.deadlines.kept
    yield names.SAMPLES, whose, sampler.samples
    yield names.MISSED, whose, kept.missed
    yield names.RATE, whose, 0.0 if silent else kept.hertz
    yield names.JITTER, whose, kept.jitter_seconds
    yield names.JITTER_MOST, whose, kept.jitter_most_seconds
    for stage in STAGES:
        yield names.FAILURES, whose | {"stage": stage}, sampler.failures[stage]


def cpu_seconds() -> float:
    """Return the CPU time of this process, all threads, user and system."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def memory_bytes(proc: Path = Path("/proc")) -> float:
    """Return the resident memory of this process (man 5 proc_pid_statm, second field), NaN where it cannot be read."""
    try:
        return float((proc / "self" / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, LookupError):
        return float("nan")
