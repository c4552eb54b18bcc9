"""All deliveries of one worker behind one object: readers, provider, push threads, counts."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from opentelemetry.metrics import Meter
from opentelemetry.sdk.metrics.export import MetricReader

from eroica_otel import __version__
from eroica_otel.config import WorkerConfig
from eroica_otel.errors import ConfigError, DeliveryError
from eroica_otel.export import pull
from eroica_otel.export.delivery import Delivery, OtlpDelivery, Pusher, interval_seconds, provider, resource
from eroica_otel.export.node import NodePage
from eroica_otel.export.remotewrite import RemoteWrite, Target, job_and_instance
from eroica_otel.model import Identity
from eroica_otel.wanted import OTLP, PROMETHEUS, otlp_endpoint, prometheus_address, unknown, wanted


class Outlet:
    """Opens what the options and OTEL_METRICS_EXPORTER ask for; what cannot be opened is told and left out."""

    def __init__(
        self,
        environment: Mapping[str, str],
        identity: Identity,
        pid: int,
        failed: Callable[[str, str], None],
        config: WorkerConfig | None = None,
        folder: Path | None = None,
    ) -> None:
        """Args: failed: Takes stage and text. folder: The worker's private one; pull by node needs it."""
        self._environment = environment
        self._failed = failed
        self._config = config or WorkerConfig()
        self._folder = folder
        self._identity = identity
        self._deliveries: list[Delivery] = []
        self._closers: list[Callable[[], None]] = []
        odd = unknown(environment, self._config.deliveries)
        if odd:
            failed("delivery", odd)
        names = wanted(environment, self._config.deliveries)
        readers = [reader for name in names if (reader := self._reader(name)) is not None]
        self._provider = provider(readers, resource(identity, pid))
        # One thread each: an endpoint that hangs holds up none but its own delivery.
        self._pushers = [Pusher(one.push, interval_seconds(environment), one.close) for one in self._deliveries]

    def _reader(self, name: str) -> MetricReader | None:
        try:
            return self._pull() if name == PROMETHEUS else self._push(name)
        except (DeliveryError, ConfigError, ValueError, OSError) as error:
            self._failed("delivery", f"no delivery by {name}: {error}")
            return None

    def _pull(self) -> MetricReader:
        by_node = self._config.pull == "node" and self._folder is not None
        host, port = prometheus_address(self._environment, 0 if by_node else self._identity.local_rank)
        reader, registry = pull.page()
        if self._folder is not None and by_node:
            node = NodePage(registry, self._folder, host, port, lambda why: self._failed("delivery", why))
            node.start(first=self._identity.local_rank == 0)
            self._closers.append(node.stop)
        else:
            self._closers.append(pull.serve(registry, host, port))
        return reader

    def _push(self, name: str) -> MetricReader | None:
        if name == OTLP:
            made: Delivery = OtlpDelivery(self._environment, self._told(otlp_endpoint(self._environment)))
        elif self._config.remote_write_url:
            target = Target.of(self._config)
            made = RemoteWrite(
                target, job_and_instance(self._identity), self._told(target.url), odd=self._odd(target.url)
            )
        else:
            return None  # the trainer has said so
        self._deliveries.append(made)
        return made.reader

    def _told(self, endpoint: str) -> Callable[[str], None]:
        seconds = interval_seconds(self._environment)

        def failed(why: str) -> None:
            text = (
                f"cannot deliver to {endpoint} ({why}); the latest window is kept, trying again every {seconds:.0f} s"
            )
            self._failed("delivery", text)

        return failed

    def _odd(self, endpoint: str) -> Callable[[str], None]:
        return lambda why: self._failed("delivery", f"{endpoint}: {why}")

    def meter(self) -> Meter:
        return self._provider.get_meter("eroica_otel", __version__)

    def start(self) -> None:
        for pusher in self._pushers:
            pusher.start()

    def push_now(self) -> None:
        """Deliver without waiting for the interval; returns at once."""
        for pusher in self._pushers:
            pusher.push_now()

    def renewed(self) -> None:
        """Nothing: what the board shows is collected at the interval of each delivery."""

    def counts(self) -> dict[tuple[str, str], int]:
        """Return deliveries by (delivery, outcome)."""
        total: Counter[tuple[str, str]] = Counter()
        for delivery in self._deliveries:
            total.update(delivery.tally.counts)
        return dict(total)

    def delivered_since(self, monotonic_ns: int) -> bool:
        """Whether every pushing delivery has succeeded since; True when nothing pushes."""
        return all(_sent_since(delivery, monotonic_ns) for delivery in self._deliveries)

    def stop(self, timeout_seconds: float, unsent_ns: int = -1) -> None:
        """Push a last time, close ports; waits at most ``timeout_seconds`` for the pushes.

        Args:
            timeout_seconds: Bound of all.
            unsent_ns: When (monotonic) something was shown that must not be lost: a delivery that has not succeeded
                since is tried again until then.
        """
        end = time.monotonic() + timeout_seconds
        for delivery, pusher in zip(self._deliveries, self._pushers, strict=True):
            pusher.finish(partial(_sent_since, delivery, unsent_ns), end)
        for pusher in self._pushers:
            pusher.join(max(0.0, end - time.monotonic()))
        for close in self._closers:
            close()


def _sent_since(delivery: Delivery, monotonic_ns: int) -> bool:
    return delivery.tally.last_sent_ns > monotonic_ns
