"""Windows of traces -> a backend: each worker's patterns once, as its helper would have delivered them, but now.

Series get the present time, because backends refuse old samples; when the trace was taken stands in the window's id and
end. They are not ended after the push, so they can be looked at for as long as the backend looks back (Prometheus: 5
minutes), and in graphs for ever.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from eroica_otel import __version__, names
from eroica_otel.config import WorkerConfig
from eroica_otel.errors import ConfigError, DeliveryError
from eroica_otel.export.board import Board
from eroica_otel.export.budget import fit
from eroica_otel.export.delivery import Delivery, OtlpDelivery, provider, resource
from eroica_otel.export.instruments import create
from eroica_otel.export.points import window_points
from eroica_otel.export.redact import NONE
from eroica_otel.export.remotewrite import RemoteWrite, Target, job_and_instance
from eroica_otel.export.secret import read_key, redactor
from eroica_otel.kinds import Frame
from eroica_otel.model import SCHEMA, Identity, Point, WorkerWindow
from eroica_otel.offline.libraries import placed
from eroica_otel.offline.redacted import keep
from eroica_otel.wanted import OTLP, REMOTE_WRITE, otlp_endpoint, wanted

_ENDPOINT, _EXACT_ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT"
_DETECTORS = "OTEL_EXPERIMENTAL_RESOURCE_DETECTORS"
_NO_FRAMES: Mapping[int, Iterable[Frame]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Destination:
    """Where patterns go.

    Attributes:
        deliveries: wanted.OTLP, wanted.REMOTE_WRITE, or both.
        environment: The variables that configure them.
        config: Options, of which those of remote write and of redaction count.
    """

    deliveries: tuple[str, ...]
    environment: Mapping[str, str]
    config: WorkerConfig


def destination(environment: Mapping[str, str], *, otlp: str = "", remote_write: str = "") -> Destination:
    """Return where to push: the addresses given, else what the variables of a worker ask for.

    Args:
        environment: OTEL_* and EROICA_* as a worker reads them; headers, tokens and certificates come from there.
        otlp: Endpoint of an OTLP receiver, "" for the variables'.
        remote_write: Address of remote write, "" for the variables'.

    Raises:
        ConfigError: there is nowhere to push to, an address is none, or the key of the redaction cannot be used.
    """
    given = {"remote_write_url": remote_write} if remote_write else {}
    config = WorkerConfig.from_env(environment, **given)
    chosen = tuple(name for name, address in ((OTLP, otlp), (REMOTE_WRITE, remote_write)) if address)
    if not chosen:
        asked = wanted(environment, config.deliveries)
        chosen = tuple(name for name in asked if name in (OTLP, REMOTE_WRITE))
    if not chosen:
        raise ConfigError("nothing pushes as OTEL_METRICS_EXPORTER is set; give --otlp URL or --remote-write URL")
    if REMOTE_WRITE in chosen and not config.remote_write_url:
        why = next((problem for problem in config.problems if "remote_write_url" in problem.lower()), "")
        raise ConfigError(why or "remote write has no address; give --remote-write URL")
    if otlp and not otlp.startswith(("http://", "https://")):
        raise ConfigError(f"--otlp {otlp!r} is no address; give one that begins with http:// or https://")
    if config.redact != NONE and config.redact_key_file:
        read_key(Path(config.redact_key_file))
    return Destination(chosen, _pointed(environment, otlp), config)


def push(
    windows: Sequence[WorkerWindow],
    to: Destination,
    frames: Mapping[int, Iterable[Frame]] = _NO_FRAMES,
    say: Callable[[str], None] = lambda text: None,
) -> int:
    """Deliver every window once, within the budget of a live worker and redacted as one; return how many there were.

    It stops at the first that cannot be delivered.

    Args:
        frames: By rank those of the window's stacks: only where a file tells that one is a library's it stays readable.
        say: Is told what is odd about the redaction.

    Raises:
        DeliveryError: a delivery failed; says which, why, and how many had arrived.
    """
    if not windows:
        return 0
    made, kept = redactor(to.config, windows[0].identity, to.environment, say)
    with _variables(to):
        for done, window in enumerate(windows):
            rank = window.identity.rank
            points = window_points(made.window(fit(window), map(placed, frames.get(rank, ()))))
            keep(kept, say)
            why = _deliver(window.identity, points, to)
            if why:
                raise DeliveryError(f"rank {rank} {why}; {done} of {len(windows)} workers have been delivered")
    return len(windows)


def _deliver(who: Identity, points: Sequence[Point], to: Destination) -> str:
    """Return why one worker's points did not arrive, "" where they did."""
    failures: list[str] = []
    made = [_delivery(name, who, to, failures) for name in to.deliveries]
    board = Board()
    meters = provider([delivery.reader for delivery in made], resource(who, os.getpid()))
    create(meters.get_meter("eroica_otel", __version__), board)
    board.stand(_standing(who))
    board.show(points)
    for delivery in made:
        delivery.push()
    unsent = [delivery for delivery in made if not delivery.tally.last_sent_ns]
    return "; ".join(failures or ["could not be delivered"]) if unsent else ""


def _delivery(name: str, who: Identity, to: Destination, failures: list[str]) -> Delivery:
    address = otlp_endpoint(to.environment) if name == OTLP else to.config.remote_write_url

    def failed(why: str) -> None:
        failures.append(f"cannot be delivered to {address} ({why})")

    return OtlpDelivery(to.environment, failed) if name == OTLP else RemoteWrite(
        Target.of(to.config), job_and_instance(who), failed
    )  # fmt: skip


def _standing(who: Identity) -> list[Point]:
    """Return what dashboards and the localizer look for beside a window; what only a live worker has is absent."""
    version = {"version": __version__, "schema": str(SCHEMA), "component": "worker"}
    return [
        Point(names.BUILD_INFO.name, who.labels() | version, 1.0),
        Point(names.WORLD_SIZE.name, who.labels(), float(who.world_size)),
    ]


def _pointed(environment: Mapping[str, str], otlp: str) -> dict[str, str]:
    if not otlp:
        return dict(environment)
    return {name: value for name, value in environment.items() if name != _EXACT_ENDPOINT} | {_ENDPOINT: otlp}


@contextmanager
def _variables(to: Destination) -> Iterator[None]:
    """Let OpenTelemetry, which reads the process's own variables, see these.

    With redaction nothing of this process is added by itself: its command line holds the paths of the traces.
    """
    before = {name: os.environ.get(name) for name in (_ENDPOINT, _EXACT_ENDPOINT, _DETECTORS)}
    try:
        hidden = {} if to.config.redact == NONE else {_DETECTORS: None}
        _set({name: to.environment.get(name) for name in before} | hidden)
        yield
    finally:
        _set(before)


def _set(values: Mapping[str, str | None]) -> None:
    for name, value in values.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
