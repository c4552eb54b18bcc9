"""What the localizer job is given: its options, and the judge that it calls."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from eroica_otel.boards.access import Access
from eroica_otel.jobpolicy import Policies
from eroica_otel.jobsend import Destinations
from eroica_otel.jobstate import Patience
from eroica_otel.jobwindow import Judge as Judge
from eroica_otel.jobwindow import JudgeTable as JudgeTable
from eroica_otel.publish.serve import Renderer
from eroica_otel.query.client import Backend
from eroica_otel.query.store import WORKERS_MOST
from eroica_otel.webserver import Address


@dataclass(frozen=True, slots=True)
class JobOptions:
    """What the localizer job is given.

    Attributes:
        listen: Address of the OTLP receiver; None for none.
        metrics: Address of /metrics.
        state: Folder for the journal, open findings and references.
        outputs: Files that hold the newest verdict, each with what renders it.
        folder: Folder of the newest verdict and, where there are several jobs, of each job's; "" for none.
        renderers: Renderings that the metrics endpoint serves and the folder holds, by file ending.
        thresholds: Thresholds in force, for publication.
        policies: Thresholds by job.
        round_seconds: Longest time between two looks.
        patience: How long to wait for what.
        backend: Prometheus that is read; None for none.
        send: Where its own series are pushed to.
        annotate: The Grafana that gets annotations; None for none.
        files: Folder of pattern files that is followed; "" for none.
        workers: How many workers are followed at once.
    """

    listen: Address | None
    metrics: Address
    state: str
    outputs: Mapping[str, Renderer] = field(default_factory=dict)
    folder: str = ""
    renderers: Mapping[str, Renderer] = field(default_factory=dict)
    thresholds: Mapping[str, float] = field(default_factory=dict)
    policies: Policies = field(default_factory=Policies)
    round_seconds: float = 0.5
    patience: Patience = field(default_factory=Patience)
    backend: Backend | None = None
    send: Destinations = field(default_factory=Destinations)
    annotate: Access | None = None
    files: str = ""
    workers: int = WORKERS_MOST
