"""Data points -> /metrics, readiness and the latest report of each job over HTTP.

GET /metrics, /-/healthy (503 when nothing is published any more), /-/ready (503 until the first publication),
/report/JOB.json and other renderings (.html).
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qs, unquote

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from eroica_otel import names
from eroica_otel.model import Point, Report
from eroica_otel.webserver import Address, BoundedServer, Handler

Renderer = Callable[[Report], str]
_KINDS = {"json": "application/json", "html": "text/html; charset=utf-8"}
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
"""A report shows names that come from workers: nothing in it may run or load."""


@dataclass(frozen=True, slots=True)
class Publication:
    """One consistent state of everything that is shown; it is replaced as a whole.

    Attributes:
        points: All series.
        reports: Latest verdict by (team, training_job).
    """

    points: tuple[Point, ...] = ()
    reports: Mapping[tuple[str, str], Report] = field(default_factory=dict)


class PointCollector(Collector):
    """Collector of prometheus-client over data points; type and help of each family come from names.py."""

    def __init__(self, points: Callable[[], Iterable[Point]]) -> None:
        self._points = points

    def collect(self) -> Iterator[Metric]:
        """Yield one family per name."""
        families: dict[str, Metric] = {}
        for point in self._points():
            known = names.BY_NAME[point.name]
            if known.name not in families:
                # prometheus-client adds _total itself to a family of counters.
                families[known.name] = Metric(known.name.removesuffix("_total"), known.help, known.type)
            families[known.name].add_sample(point.name, dict(point.labels), point.value)
        yield from families.values()


class MetricsServer(BoundedServer):
    """The localizer's own endpoint; ``publish`` replaces what it shows."""

    def __init__(
        self,
        address: Address,
        renderers: Mapping[str, Renderer] | None = None,
        *,
        threads: int = 8,
        alive: Callable[[], bool] = lambda: True,
    ) -> None:
        """Bind; ``start`` serves. ``alive`` tells whether what publishes still does.

        Raises:
            DeliveryError: the port is taken.
        """
        super().__init__(address, _Handler, threads=threads)
        self.publication: Publication | None = None
        self.renderers, self.alive = dict(renderers or {}), alive
        self.registry = CollectorRegistry(auto_describe=False)
        self.registry.register(PointCollector(lambda: self.publication.points if self.publication else ()))

    def publish(self, publication: Publication) -> None:
        """Show ``publication`` from now on; the first one makes the endpoint ready."""
        self.publication = publication


class _Handler(Handler):
    server: MetricsServer

    def do_GET(self) -> None:
        path, _, query = self.path.partition("?")
        if path == "/-/healthy":
            alive = self.server.alive()
            self.answer(200 if alive else 503, b"healthy\n" if alive else b"no round for a minute; restart it\n")
        elif path == "/-/ready":
            ready = self.server.publication is not None
            self.answer(200 if ready else 503, b"ready\n" if ready else b"reading the journal\n")
        elif not self.authorized():
            self.answer(401, b"the bearer token is missing or wrong\n", WWW_Authenticate="Bearer")
        elif path == "/metrics":
            self._metrics()
        elif path.startswith("/report/"):
            self._report(path.removeprefix("/report/"), query)
        else:
            self.answer(404, b"there is /metrics, /-/healthy, /-/ready and /report/JOB.json\n")

    do_HEAD = do_GET

    def _metrics(self) -> None:
        encode, kind = choose_encoder(self.headers.get("Accept", ""))
        body = encode(self.server.registry)
        if "gzip" in self.headers.get("Accept-Encoding", ""):
            self.answer(200, gzip.compress(body, 1), kind, Content_Encoding="gzip")
        else:
            self.answer(200, body, kind)

    def _report(self, name: str, query: str) -> None:
        job, _, ending = unquote(name).rpartition(".")
        render = self.server.renderers.get(ending)
        reports = self._matching(job, parse_qs(query).get("team", [None])[0])
        if render is None or not reports:
            self.answer(404, f"no report of job {job!r} as {ending!r} yet\n".encode())
        elif len(reports) > 1:
            self.answer(409, f"several teams have a job {job!r}; add ?team=NAME\n".encode())
        else:
            kind = _KINDS.get(ending, "text/plain; charset=utf-8")
            self.answer(200, render(reports[0]).encode(), kind, Content_Security_Policy=_POLICY)

    def _matching(self, job: str, team: str | None) -> list[Report]:
        reports = self.server.publication.reports if self.server.publication else {}
        return [report for key, report in reports.items() if key[1] == job and team in (None, key[0])]
