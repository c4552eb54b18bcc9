"""A captured window of the worker's own -> the same with what the node agent sampled meanwhile, where that is finer.

Takes the capture, the status and the shared folder; runs in the helper. Composition only.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from eroica_otel.hardware.gather import Gathered, LinkUse, Sought, gather, wanted_of
from eroica_otel.hardware.netns import own_name
from eroica_otel.model import Capture
from eroica_otel.status import Status
from eroica_otel.traces import Samples

NOT_ASKED = "no node agent is to be asked (EROICA_HARDWARE_DIR is empty)"
NO_CPU = "the training thread has no CPU clock that can be read"
LEAST_APART_NS = 4_000_000
"""Samples of a link that are kept lie this far apart at least, about as far as a worker's own: sigma, and what mu takes
for a burst, depend on it, and workers with and without an agent are compared with each other."""
FAR_NS = 100_000_000
"""How much less of a window's begin or end the agent may have of a link than the worker itself."""

MOST_LATE = 0.01
"""Share of the agent's samples that may lie beside the worker's: either is stopped in the middle of a reading now and
then (2 to 7 of 2,500 were late by a sample on two shared cores), while those of another link hardly ever fit."""


@dataclass(frozen=True, slots=True)
class Sampled:
    """A capture with all that was sampled.

    Attributes:
        capture: The capture, with the finer samples of the link.
        shares: Of other resources, as Gathered.shares.
        missing: Resources that nobody could sample, with the reason.
        states: As Gathered.states.
    """

    capture: Capture
    shares: Mapping[str, Samples]
    missing: Mapping[str, str]
    states: Mapping[str, float] = field(default_factory=dict)


def with_agent(capture: Capture, status: Status, folder: str, clock: Callable[[], int] = time.monotonic_ns) -> Sampled:
    """Return the capture with what the agent of ``folder`` has sampled; "" = there is none to ask; never raises."""
    # In the agent's namespace, or in this one, in which an interface has another name there.
    own = "" if "/" in status.link else own_name(status.link)
    links = tuple(filter(None, (status.link, own)))
    sought = Sought(
        start_ns=capture.start_ns,
        end_ns=capture.end_ns,
        gpus=status.gpus,
        links=links,
        on_gpu=capture.gpu,
    )
    found = (
        gather(Path(folder), sought, clock) if folder else Gathered(missing=dict.fromkeys(wanted_of(sought), NOT_ASKED))
    )
    missing = {**found.missing, **capture.missing}
    if capture.cpu_ns.size < 2:
        missing.setdefault("cpu", NO_CPU)
    link = next((use for use in found.links if _finer(capture, use) and is_same(capture, use, status.link)), None)
    if link is not None:
        capture = _with_link(capture, link)
        if capture.nic_peak_bytes is not None:
            missing.pop("nic", None)
    return Sampled(capture, found.shares, missing, found.states)


def _finer(capture: Capture, use: LinkUse) -> bool:
    """Whether the agent has sampled the link more often than the worker itself, as it does when it is asked.

    And as far: one that ended in the middle of the window leaves many samples of its beginning.
    """
    own = capture.nic_ns
    far = not own.size or (use.time_ns[0] <= own[0] + FAR_NS and use.time_ns[-1] >= own[-1] - FAR_NS)
    return bool(far) and _inside(capture, use.time_ns) > _inside(capture, own)


def _inside(capture: Capture, times: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> int:
    return int(np.count_nonzero((times >= capture.start_ns) & (times <= capture.end_ns)))


def is_same(capture: Capture, use: LinkUse, name: str) -> bool:
    """Return whether the agent's link is the worker's.

    The name of an RDMA port belongs to one link alone. An interface of the agent's network namespace may be another one
    of the same name: it is the same where its counters lie between the worker's own at (nearly) each time.
    """
    if use.device.partition("@")[0] != name or "/" in name:
        return True
    if capture.nic_ns.size < 2:
        return False
    inner = (use.time_ns > capture.nic_ns[0]) & (use.time_ns < capture.nic_ns[-1])
    if not inner.any():
        return False
    after = np.searchsorted(capture.nic_ns, use.time_ns[inner])
    # Both took their time in the middle of a reading at best: one sample further at either side.
    low, high = np.maximum(after - 2, 0), np.minimum(after + 1, capture.nic_ns.size - 1)
    pairs = ((use.sent[inner], capture.nic_tx), (use.received[inner], capture.nic_rx))
    beside = [float(np.mean((theirs < own[low]) | (theirs > own[high]))) for theirs, own in pairs]
    return max(beside) <= MOST_LATE


def _with_link(capture: Capture, use: LinkUse) -> Capture:
    kept = np.unique((use.time_ns - use.time_ns[0]) // LEAST_APART_NS, return_index=True)[1]
    peak = capture.nic_peak_bytes if capture.nic_peak_bytes or not use.peak_bytes > 0 else use.peak_bytes
    return replace(
        capture,
        nic_ns=use.time_ns[kept],
        nic_tx=use.sent[kept],
        nic_rx=use.received[kept],
        nic_peak_bytes=peak,
    )
