"""``eroica-otel localize``: options in, verdicts on stdout, progress on stderr, exit code out."""

from __future__ import annotations

import argparse
import logging
import os
import shutil
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from eroica_otel.commands import access, destinations, settings, sources
from eroica_otel.commands.chosen import choose
from eroica_otel.errors import QueryError
from eroica_otel.job import Localizer
from eroica_otel.localize.verdict import judge
from eroica_otel.model import Report
from eroica_otel.publish.report import terminal
from eroica_otel.publish.report.verdict import outcome, unjudged
from eroica_otel.publish.series import is_alarming
from eroica_otel.query.decode import WORKERS_MOST as RANKS_MOST
from eroica_otel.query.store import WORKERS_MOST
from eroica_otel.signalled import ended_by_signals
from eroica_otel.webserver import is_loopback

HELP = """\
Find the slow worker: take what the workers of a training job measured, compare them, print the verdict.

Start it on any machine that the workers reach, then point the deliveries of the training here:

  eroica-otel localize
  OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318 eroica-otel run -- python train.py

or let it read the Prometheus that has their series already:

  eroica-otel localize --prometheus http://127.0.0.1:9090

Each window that the workers profile is judged once, as soon as all of them have delivered (the missing are named).
The verdict is printed, its series are on /metrics, and a crash or a restart forgets neither windows nor findings.

Every option is also a variable (--listen: EROICA_LOCALIZE_LISTEN) and a key of the file that --config names; the
command line wins over variables, these over the file. Thresholds are in the file: docs/configuration.md."""

_LONGER = "a longer --timeout"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command; what is parsed holds only what was given, and ``table``, all of them."""
    parser.add_argument("--config", metavar="FILE", default="", help="TOML file with these options and with thresholds")
    where = parser.add_argument_group("where it listens")
    where.add_argument(
        "--listen", metavar="HOST:PORT", default="", help="address that workers deliver to by OTLP/HTTP; one that "
        f"other machines reach needs the three options below (default: {sources.LISTEN}, with --prometheus or --files "
        "none)",
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
    access.configure(parser)
    what = parser.add_argument_group("what it keeps and writes")
    what.add_argument("--state", metavar="DIR", default="", help="folder for windows, open findings and references "
                      "(default: ~/.local/state/eroica_otel)")  # fmt: skip
    what.add_argument("--report", metavar="DIR", default="", help="write report.json and report.html of the newest "
                      "verdict into this folder; once there are several jobs, also those of each job, into DIR/JOB "
                      "(DIR/TEAM/JOB where it has a team)")  # fmt: skip
    what.add_argument("--json", metavar="FILE", default="", help="write the newest verdict as JSON into this file")
    what.add_argument("--workers", metavar="COUNT", type=_workers, default=WORKERS_MOST, help="how many workers of all "
                      "jobs are followed at once, each for some 10 KB of memory (default: %(default)s)")  # fmt: skip
    when = parser.add_argument_group("when it ends (default: by Ctrl-C or SIGTERM)")
    when.add_argument("--once", action="store_true", help="judge the windows that are there, of all jobs, then end; "
                      "where there is none, or of a reference alone, wait for one. The exit code tells whether there "
                      "is a finding, 3 that nobody can tell")  # fmt: skip
    when.add_argument("--timeout", metavar="SECONDS", type=_seconds, default=None, help="end after this time; with "
                      "--once and no verdict by then, exit with 3; --once --timeout 0 waits for no window, and its "
                      "exit code tells whether a finding is open: for cron")  # fmt: skip
    parser.set_defaults(table=settings.table(parser))


def run(arguments: argparse.Namespace) -> int:
    """Serve until a signal, until nothing is left to judge (--once), or until the time limit.

    Raises:
        ConfigError: an option cannot be used.
        DeliveryError: a port is taken.
        QueryError: --once, and no verdict came in time or the window could not be judged.
    """
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr, format="%(message)s")
    chosen = choose(arguments.table, arguments, os.environ)
    arguments = chosen.arguments
    for line in chosen.problems:
        _say(line)
    chosen.make_folder()
    session = _Session(once=arguments.once, waits=arguments.timeout != 0)
    localizer = Localizer(chosen.job, judge, progress=_say, verdict=session.take)
    session.wake = localizer.wake
    try:
        with ended_by_signals(session.end), _ended_after(arguments.timeout or None, session.end):
            localizer.start()
            _announce(localizer)
            localizer.run(session.stop, partial(session.over, localizer))
        if arguments.once:
            return session.outcome(localizer)
        return int(any(is_alarming(finding) for finding in localizer.open_findings()))
    finally:
        localizer.close()


class _Session:
    """One run of the command: prints verdicts and knows when it is over."""

    def __init__(self, *, once: bool, waits: bool) -> None:
        self.stop = threading.Event()
        self.wake: Callable[[], None] = self.stop.set
        self._once, self._waits = once, waits
        self._counting: list[Report] = []

    def take(self, report: Report) -> None:
        """Print one verdict; those about reference windows say nothing about the end."""
        print(terminal.render(report, width=shutil.get_terminal_size((100, 24)).columns, colour=_colour()), flush=True)
        if self._once and report.reason != "reference":
            self._counting.append(report)

    def over(self, localizer: Localizer) -> bool:
        """Return whether --once has nothing left to do."""
        if not self._once or not (self._counting or not self._waits):
            return False
        reader = localizer.sources.reader
        refused = not self._waits and reader is not None and reader.down != ""
        return refused or (localizer.sources.settled() and not localizer.pending())

    def end(self) -> None:
        """End the run soon."""
        self.stop.set()
        self.wake()

    def outcome(self, localizer: Localizer) -> int:
        """Return the exit code of --once.

        Raises:
            QueryError: no verdict came, or none that could tell whether there is a finding.
        """
        reader, shown = localizer.sources.reader, localizer.metrics.publication
        down = reader is not None and reader.down != ""
        known = not self._waits and not down and shown is not None and bool(shown.reports)
        if not self._counting and not known:
            raise QueryError(f"no verdict came, {_who(localizer)}")
        found = [finding for report in self._counting for finding in report.findings]
        if any(is_alarming(finding) for finding in (found if self._waits else localizer.open_findings())):
            return 1
        unclear = [report for report in self._counting if outcome(report) in ("no_consensus", "not_enough")]
        if unclear:
            raise QueryError(f"the window names nobody and clears nobody: {unjudged(unclear[0])}")
        return 0


def _who(localizer: Localizer) -> str:
    """Say how many workers were seen, and where they would have to be."""
    count, receiver, reader = localizer.workers_seen(), localizer.sources.receiver, localizer.sources.reader
    if reader is not None and reader.down:
        return f"{count} workers were seen and {reader.url} cannot be read: {reader.down}"
    if receiver is None and reader is None and localizer.sources.folder is not None:
        return f"{localizer.sources.folder.url} holds no window that is new; eroica-otel query --json FILE writes one"
    if receiver is None and reader is not None:
        return f"{count} workers are in {reader.url}; ask them for a window by eroica-otel window or give {_LONGER}"
    remedy = f"point them here by OTEL_EXPORTER_OTLP_ENDPOINT={receiver.url} or " if receiver is not None else ""
    return f"{count} workers delivered; {remedy}give {_LONGER}"


def _announce(localizer: Localizer) -> None:
    receiver, reader = localizer.sources.receiver, localizer.sources.reader
    where = [f"on {receiver.url} (OTLP/HTTP)"] if receiver is not None else []
    where += [f"in {reader.url} (PromQL)"] if reader is not None else []
    where += [f"in {localizer.sources.folder.url} (pattern files)"] if localizer.sources.folder is not None else []
    _say(f"waiting for patterns {' and '.join(where)}; series on {localizer.metrics.url}/metrics")
    if not is_loopback(localizer.metrics.address.host) and not localizer.metrics.address.token:
        _say(f"{localizer.metrics.url} shows function names to everyone who can reach it; --token-file protects it")


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _colour() -> bool:
    return sys.stdout.isatty() and "NO_COLOR" not in os.environ


def _workers(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 9 and 1 <= int(text) <= RANKS_MOST):
        raise argparse.ArgumentTypeError(f"{text!r}: give a whole number from 1 to {RANKS_MOST}, for example 200000")
    return int(text)


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1e9:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds; give one, for example 60")
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
