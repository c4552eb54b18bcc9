"""The localizer's own series pushed to who does not scrape it: takes what /metrics shows, sends OTLP or remote write.

Every interval (OTEL_METRIC_EXPORT_INTERVAL, 10 s), and at once when findings or the window they are about have changed.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial

from opentelemetry.sdk.resources import Resource

from eroica_otel import __version__, names
from eroica_otel.errors import ConfigError
from eroica_otel.export.board import Board
from eroica_otel.export.delivery import Delivery, OtlpDelivery, Pusher, interval_seconds, provider
from eroica_otel.export.instruments import create
from eroica_otel.export.remotewrite import RemoteWrite, Target
from eroica_otel.model import Point

SERVICE = "eroica-localizer"
"""service.name and ``job``."""
LAST_SECONDS = 3.0
_TOLD_AT_ONCE = (names.IMPACT.name, names.LOCALIZER_WINDOW.name)


@dataclass(frozen=True, slots=True)
class Destinations:
    """Where the localizer's series are pushed to.

    Attributes:
        otlp: Endpoint of an OTLP receiver, "" for none.
        remote_write: Address and credentials of remote write; None for none.
        environment: The variables that configure both.
    """

    otlp: str = ""
    remote_write: Target | None = None
    environment: Mapping[str, str] = field(default_factory=dict)


class Sender:
    """Pushes what it is shown; one thread for each destination, none before something is shown."""

    def __init__(self, to: Destinations, host: str, port: int, say: Callable[[str], None]) -> None:
        """Make what pushes to ``to``; ``host`` and ``port`` of /metrics become the instance, as of a scrape.

        Raises:
            ConfigError: an exporter cannot be made with these variables.
        """
        self._to, self._say = to, say
        self._interval = interval_seconds(to.environment)
        self._board, self._told, self._shown = Board(), frozenset[tuple[object, ...]](), False
        instance = f"{host}:{port}"
        try:
            self._deliveries = self._make(instance)
        except (ValueError, OSError) as error:
            raise ConfigError(f"series cannot be sent by OTLP: {error}; correct OTEL_EXPORTER_OTLP_*") from error
        of: dict[str, str | int] = {
            "service.name": SERVICE,
            "service.instance.id": instance,
            "host.name": host,
            "process.pid": os.getpid(),
        }
        readers = [delivery.reader for delivery in self._deliveries]
        self._provider = provider(readers, Resource.create(of), names.OF_LOCALIZER) if readers else None
        if self._provider is not None:
            create(self._provider.get_meter("eroica_otel", __version__), self._board, names.OF_LOCALIZER)
        self._pushers = [Pusher(one.push, self._interval, one.close) for one in self._deliveries]

    def _make(self, instance: str) -> list[Delivery]:
        made: list[Delivery] = []
        if self._to.otlp:
            made.append(OtlpDelivery(self._to.environment, self._failing(self._to.otlp), self._to.otlp))
        if self._to.remote_write is not None:
            target = self._to.remote_write
            odd = partial(self._odd, target.url)
            made.append(RemoteWrite(target, (SERVICE, instance), self._failing(target.url), odd=odd))
        return made

    def _failing(self, where: str) -> Callable[[str], None]:
        def failed(why: str) -> None:
            self._say(f"cannot send the series to {where} ({why}); trying again every {self._interval:.0f} s")

        return failed

    def _odd(self, where: str, why: str) -> None:
        self._say(f"{where}: {why}")

    def show(self, points: Iterable[Point]) -> None:
        """Push these from now on; called by one thread."""
        if not self._pushers:
            return
        known = tuple(points)
        self._board.stand(known)
        told = frozenset(
            (point.name, *sorted(point.labels.items()), point.value if point.name != names.IMPACT.name else 0)
            for point in known
            if point.name in _TOLD_AT_ONCE
        )
        if not self._shown or told != self._told:
            for pusher in self._pushers:
                pusher.push_now()
        if not self._shown:
            for pusher in self._pushers:
                pusher.start()
        self._shown, self._told = True, told

    def counts(self) -> dict[tuple[str, str], int]:
        """Return deliveries by (delivery, outcome)."""
        total: Counter[tuple[str, str]] = Counter()
        for delivery in self._deliveries:
            total.update(delivery.tally.counts)
        return dict(total)

    def stop(self) -> None:
        """Push a last time and end all series, as a scrape does when its target goes away; waits for 3 s at most."""
        if not self._shown:
            return
        end = time.monotonic() + LAST_SECONDS
        for pusher in self._pushers:
            pusher.finish()
        for pusher in self._pushers:
            pusher.join(max(0.0, end - time.monotonic()))
