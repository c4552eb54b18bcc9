"""``eroica-otel localize``: options in, verdicts on stdout, progress on stderr, exit code out."""

from __future__ import annotations

import argparse
import logging
import os
import shutil
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from eroica_otel.commands import destinations, sources
from eroica_otel.errors import ConfigError, QueryError
from eroica_otel.job import Localizer
from eroica_otel.joboptions import JobOptions
from eroica_otel.localize.policy import Policy
from eroica_otel.localize.verdict import judge
from eroica_otel.model import Report
from eroica_otel.publish.report import html, json, terminal
from eroica_otel.publish.report.verdict import outcome, unjudged
from eroica_otel.publish.series import is_alarming
from eroica_otel.publish.serve import Renderer
from eroica_otel.signalled import ended_by_signals
from eroica_otel.webserver import Address, is_loopback, parse_address

HELP = """\
Find the slow worker: take what the workers of a training job measured, compare them, print the verdict.

Start it on any machine that the workers reach, then point the deliveries of the training here:

  eroica-otel localize
  OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318 eroica-otel run -- python train.py

or let it read the Prometheus that has their series already:

  eroica-otel localize --prometheus http://127.0.0.1:9090

Each window that the workers profile is judged once, as soon as all of them have delivered (the missing are named).
The verdict is printed, its series are on /metrics, and a crash or a restart forgets neither windows nor findings."""

RENDERERS: Mapping[str, Renderer] = {"json": json.render, "html": html.render}
_LONGER = "a longer --timeout"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    where = parser.add_argument_group("where it listens")
    where.add_argument(
        "--listen", metavar="HOST:PORT", default="", help="address that workers deliver to by OTLP/HTTP; one that "
        f"other machines reach needs the three options below (default: {sources.LISTEN}, with --prometheus none)",
    )  # fmt: skip
    where.add_argument(
        "--metrics", metavar="HOST:PORT", default="127.0.0.1:9465", help="address of /metrics for Prometheus, and of "
        "/report/JOB.html (default: %(default)s)",
    )  # fmt: skip
    where.add_argument("--tls-certificate", metavar="FILE", default="", help="PEM certificate; serves HTTPS")
    where.add_argument("--tls-key", metavar="FILE", default="", help="PEM key of the certificate")
    where.add_argument("--token-file", metavar="FILE", default="", help="file with the bearer token to ask for")
    sources.configure(parser)
    destinations.configure(parser)
    what = parser.add_argument_group("what it keeps and writes")
    what.add_argument("--state", metavar="DIR", default="", help="folder for windows, open findings and references "
                      "(default: ~/.local/state/eroica_otel)")  # fmt: skip
    what.add_argument("--report", metavar="DIR", default="", help="write report.json and report.html of the newest "
                      "verdict into this folder; once there are several jobs, also those of each job, into DIR/JOB "
                      "(DIR/TEAM/JOB where it has a team)")  # fmt: skip
    what.add_argument("--json", metavar="FILE", default="", help="write the newest verdict as JSON into this file")
    when = parser.add_argument_group("when it ends (default: by Ctrl-C or SIGTERM)")
    when.add_argument("--once", action="store_true", help="end after the first verdict that is not about a reference "
                      "window; the exit code tells whether there is a finding, 3 that nobody can tell")  # fmt: skip
    when.add_argument("--timeout", metavar="SECONDS", type=_seconds, default=None, help="end after this time; with "
                      "--once and no verdict by then, exit with 3")  # fmt: skip


def run(arguments: argparse.Namespace) -> int:
    """Serve until a signal, the first verdict (--once) or the time limit.

    Raises:
        ConfigError: an option cannot be used.
        DeliveryError: a port is taken.
        QueryError: --once, and no verdict came in time or the window could not be judged.
    """
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr, format="%(message)s")
    session = _Session(once=arguments.once)
    localizer = Localizer(_options(arguments), judge, progress=_say, verdict=session.take)
    session.wake = localizer.wake
    try:
        with ended_by_signals(session.end), _ended_after(arguments.timeout, session.end):
            localizer.start()
            _announce(localizer)
            localizer.run(session.stop)
        if arguments.once:
            return session.outcome(localizer)
        return int(any(is_alarming(finding) for finding in localizer.open_findings()))
    finally:
        localizer.close()


class _Session:
    """One run of the command: prints verdicts and knows when it is over."""

    def __init__(self, *, once: bool) -> None:
        self.stop = threading.Event()
        self.wake: Callable[[], None] = self.stop.set
        self._once = once
        self._first: Report | None = None

    def take(self, report: Report) -> None:
        """Print one verdict; with --once the first that counts is the last."""
        if self._first is not None:
            return
        print(terminal.render(report, width=shutil.get_terminal_size((100, 24)).columns, colour=_colour()), flush=True)
        if self._once and report.reason != "reference":
            self._first = report
            self.end()

    def end(self) -> None:
        """End the run soon."""
        self.stop.set()
        self.wake()

    def outcome(self, localizer: Localizer) -> int:
        """Return the exit code of --once.

        Raises:
            QueryError: no verdict came, or one that could not tell whether there is a finding.
        """
        if self._first is None:
            raise QueryError(f"no verdict came, {_who(localizer)}")
        if outcome(self._first) in ("no_consensus", "not_enough"):
            raise QueryError(f"the window names nobody and clears nobody: {unjudged(self._first)}")
        return int(any(is_alarming(finding) for finding in self._first.findings))


def _options(arguments: argparse.Namespace) -> JobOptions:
    token = _token(arguments.token_file)
    if arguments.tls_key and not arguments.tls_certificate:
        raise ConfigError(f"--tls-key {arguments.tls_key} has no certificate; give --tls-certificate too")
    tls = (arguments.tls_certificate, arguments.tls_key, token)
    listen = sources.listen(arguments, *tls)
    metrics = Address(*parse_address(arguments.metrics, "--metrics"), "--metrics", *tls)
    return JobOptions(
        listen=listen,
        metrics=metrics,
        state=arguments.state or _default_state(),
        outputs=_outputs(arguments.json),
        folder=_folder(arguments.report),
        renderers=RENDERERS,
        thresholds=Policy().thresholds(),
        backend=sources.backend(arguments, listen, metrics),
        send=destinations.destinations(arguments, os.environ, listen, metrics),
    )


def _folder(path: str) -> str:
    try:
        if path:
            os.makedirs(path, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"--report {path}: {error.strerror}; give a folder that can be written") from error
    return path


def _outputs(file: str) -> dict[str, Renderer]:
    if file and not os.path.isdir(os.path.dirname(file) or "."):
        raise ConfigError(f"--json {file}: the folder does not exist; create it")
    return {file: json.render} if file else {}


def _token(file: str) -> str:
    if not file:
        return ""
    try:
        token = Path(file).read_text(encoding="ascii").strip()
    except OSError as error:
        raise ConfigError(f"--token-file {file}: {error.strerror or error}; give a file that can be read") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"--token-file {file}: it is not ASCII; write one line with the token into it") from error
    if not token:
        raise ConfigError(f"--token-file {file} is empty; write a token into it")
    return token


def _default_state() -> str:
    return os.path.join(os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state"), "eroica_otel")


def _who(localizer: Localizer) -> str:
    """Say how many workers were seen, and where they would have to be."""
    count, receiver, reader = localizer.workers_seen(), localizer.sources.receiver, localizer.sources.reader
    if reader is not None and reader.down:
        return f"{count} workers were seen and {reader.url} cannot be read: {reader.down}"
    if receiver is None and reader is not None:
        return f"{count} workers are in {reader.url}; ask them for a window by eroica-otel window or give {_LONGER}"
    remedy = f"point them here by OTEL_EXPORTER_OTLP_ENDPOINT={receiver.url} or " if receiver is not None else ""
    return f"{count} workers delivered; {remedy}give {_LONGER}"


def _announce(localizer: Localizer) -> None:
    receiver, reader = localizer.sources.receiver, localizer.sources.reader
    where = [f"on {receiver.url} (OTLP/HTTP)"] if receiver is not None else []
    where += [f"in {reader.url} (PromQL)"] if reader is not None else []
    _say(f"waiting for patterns {' and '.join(where)}; series on {localizer.metrics.url}/metrics")
    if not is_loopback(localizer.metrics.address.host) and not localizer.metrics.address.token:
        _say(f"{localizer.metrics.url} shows function names to everyone who can reach it; --token-file protects it")


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _colour() -> bool:
    return sys.stdout.isatty() and "NO_COLOR" not in os.environ


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1e9:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds above 0; give one, for example 60")
    return value


@contextmanager
def _ended_after(seconds: float | None, end: Callable[[], None]) -> Iterator[None]:
    timer = threading.Timer(seconds if seconds is not None else 0, end)
    timer.daemon = True
    if seconds is not None:
        timer.start()
    try:
        yield
    finally:
        timer.cancel()
