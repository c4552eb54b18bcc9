"""``eroica-otel analyze --flight-recorder``: dumps in, a verdict on the hang out."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from eroica_otel.commands import offline_options
from eroica_otel.config import WorkerConfig
from eroica_otel.errors import ConfigError
from eroica_otel.localize.calls import Call
from eroica_otel.localize.hangflight import judge_flights
from eroica_otel.model import Report
from eroica_otel.offline.flights import read_flights
from eroica_otel.offline.load import Run
from eroica_otel.offline.problem import left_out
from eroica_otel.offline.redacted import redacted

_ELSEWHERE = ("compare", "push", "otlp", "remote_write")
"""Options about traces, which dumps have nothing for."""


def check_alone(arguments: argparse.Namespace) -> None:
    """Refuse what stands beside --flight-recorder and would have no effect.

    Raises:
        ConfigError: traces are given too, or an option that is about traces.
    """
    if arguments.flight_recorder is None:
        return
    beside = [f"--{name.replace('_', '-')}" for name in _ELSEWHERE if getattr(arguments, name)]
    beside = [*map(str, arguments.paths[:1]), *beside]
    if beside:
        raise ConfigError(
            f"{beside[0]} stands beside --flight-recorder, which judges dumps alone; leave out one of them"
        )


def judged(
    arguments: argparse.Namespace, config: WorkerConfig, environment: Mapping[str, str], say: Callable[[str], None]
) -> tuple[Run, Report]:
    """Return the run of the dumps, redacted where a worker would be, and the verdict on it.

    Raises:
        ConfigError: the folder holds no dump.
        TraceError: no dump in it can be read.
    """
    options = offline_options.options(arguments)
    flights = read_flights(arguments.flight_recorder, options, offline_options.Progress(sys.stderr))
    run = redacted(flights.run, config, environment, arguments.job, say)
    calls = {
        window.identity.rank: _renamed(flights.calls[window.identity.rank], window.progress, shown.progress)
        for window, shown in zip(flights.run.windows, run.windows, strict=True)
    }
    report = judge_flights(run.windows, calls, expected=run.expected)
    return run, replace(report, notes=(*report.notes, *run.notes, *left_out(run.problems)))


def _renamed(calls: Iterable[Call], before: Iterable[str], after: Iterable[str]) -> tuple[Call, ...]:
    """Return the calls with the process groups as they may leave."""
    names = dict(zip(before, after, strict=True))
    return tuple(replace(call, group=names[call.group]) for call in calls)
