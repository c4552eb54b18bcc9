"""``eroica-otel analyze``: trace files in, the verdict on stdout, progress on stderr, exit code out."""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import replace
from pathlib import Path

from eroica_otel.commands import offline_options
from eroica_otel.commands.flight import check_alone, judged
from eroica_otel.commands.offline_options import say
from eroica_otel.commands.report import deliver, folders, question_options
from eroica_otel.errors import ConfigError
from eroica_otel.localize.traces import judge_traces
from eroica_otel.model import Report, Timeline
from eroica_otel.offline.files import find
from eroica_otel.offline.load import Options, Run, load
from eroica_otel.offline.problem import left_out
from eroica_otel.offline.push import Destination, destination, push
from eroica_otel.offline.ranks import fits
from eroica_otel.offline.redacted import named, redacted
from eroica_otel.publish.report.pictures import shown_workers
from eroica_otel.publish.report.verdict import grave
from eroica_otel.publish.report.words import plural

HELP = "find the slow worker in traces that you already have, or the rank of a hang in flight recorder dumps"

_EPILOG = """\
examples:
  eroica-otel analyze traces/                                   all ranks of one run
  eroica-otel analyze rank0.json.gz rank1.json.gz --html r.html
  eroica-otel analyze --compare before/ after/                  what changed from one run to another
  eroica-otel analyze traces/ --rank first.json=0 --role last=6,7
  eroica-otel analyze --flight-recorder dumps/                  who holds up a job that hangs

A trace is what torch.profiler exports (JSON, also .json.gz), an SQLite export of Nsight Systems, or a capture folder.
A dump is what torch's flight recorder writes, one file a rank (pickle or JSON). No code in a file is ever run.

where the patterns can be pushed:
  by remote write   Prometheus (with --web.enable-remote-write-receiver), VictoriaMetrics, Mimir, Thanos Receive
                    --remote-write http://127.0.0.1:9090/api/v1/write
  by OTLP           eroica-otel localize, an OpenTelemetry Collector, any other receiver of OTLP metrics
                    --otlp http://127.0.0.1:4318
  EROICA_REDACT and the credentials of both are read from the environment, as by a worker

exit codes: 0 no finding, 1 finding, 2 wrong usage, 3 failure; 3 also where a trace could not be used and the others
show no finding
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command to ``parser``."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.description = "Compare the workers of a training by the traces they left: who slows it, where, why."
    parser.epilog = _EPILOG
    parser.add_argument("paths", nargs="*", type=Path, metavar="PATH", help="trace files, or folders that hold them")
    parser.add_argument(
        "--compare", nargs=2, type=Path, metavar=("BEFORE", "AFTER"),
        help="judge AFTER by what BEFORE was; each is a file or a folder",
    )  # fmt: skip
    parser.add_argument(
        "--flight-recorder", type=Path, metavar="DIR",
        help="judge the dumps of torch's flight recorder in DIR: who is missing in which collective",
    )  # fmt: skip
    offline_options.configure(parser)
    where = parser.add_argument_group("where it delivers")
    where.add_argument(
        "--push", action="store_true",
        help="deliver the patterns to a backend too, by OTLP or remote write, as OTEL_* and EROICA_* tell a worker",
    )  # fmt: skip
    where.add_argument("--otlp", default="", metavar="URL", help="push to this OTLP endpoint")
    where.add_argument("--remote-write", default="", metavar="URL", help="push to this address of remote write")
    what = parser.add_argument_group("what it writes")
    what.add_argument("--json", type=Path, metavar="FILE", help="write the report as JSON; - prints it instead")
    what.add_argument("--html", type=Path, metavar="FILE", help="write it as one self-contained web page")
    question_options(what)


def run(arguments: argparse.Namespace) -> int:
    """Read, judge, show and write; return 1 for a finding above info, 3 where a trace could not be used, else 0.

    Raises:
        ConfigError: an option cannot be used, or the paths hold no trace or dump.
        TraceError: no trace or dump can be read.
        EroicaError: a file cannot be written.
    """
    folders(arguments.source)
    check_alone(arguments)
    to = _destination(arguments)
    config = offline_options.worker_config()
    if arguments.flight_recorder is not None:
        run, report = judged(arguments, config, os.environ, say)
        runs, shown = [], [run]
    else:
        runs = _runs(arguments)
        shown = [redacted(one, config, os.environ, arguments.job, say) for one in runs]
        report = _report(shown)
    deliver(arguments, report, lambda: [f"report: {arguments.html}"] if arguments.html else [])
    problems = [problem for one in shown for problem in one.problems]
    for problem in problems:
        say(f"left out: {problem.text}")
    if to is not None:
        _push(runs[0], to, arguments.job)
    return 1 if grave(report) else 3 if problems else 0


def _runs(arguments: argparse.Namespace) -> list[Run]:
    """Return the run to judge and, where there is one, the run before it."""
    options = offline_options.options(arguments)
    progress = offline_options.Progress(sys.stderr)
    if arguments.compare is None:
        if not arguments.paths:
            raise ConfigError("there is nothing to analyse; give trace files or a folder that holds them")
        return [load(arguments.paths, options, told=progress)]
    if arguments.paths:
        raise ConfigError(f"{arguments.paths[0]} stands beside --compare; give either paths or --compare BEFORE AFTER")
    before, after = arguments.compare
    mine, theirs = _ranks_of(options, before), _ranks_of(options, after)
    # A rank of neither goes to AFTER, where it is refused.
    here = {name: rank for name, rank in options.ranks.items() if name in theirs or name not in mine}
    return [
        load([after], replace(options, ranks=here), told=progress),
        load([before], replace(options, ranks=mine), reason="reference", told=progress),
    ]


def _ranks_of(options: Options, path: Path) -> dict[str, int]:
    """Return the ranks that a person gave to files of this run."""
    files = find([path]).files
    return {name: rank for name, rank in options.ranks.items() if any(fits(file, name) for file in files)}


def _destination(arguments: argparse.Namespace) -> Destination | None:
    """Return where the patterns go too, None for nowhere; found out first, because reading may take long."""
    if not (arguments.push or arguments.otlp or arguments.remote_write):
        return None
    return destination(os.environ, otlp=arguments.otlp, remote_write=arguments.remote_write)


def _push(run: Run, to: Destination, job: str) -> None:
    windows = named(run.windows, to.config, to.environment, job)
    count = push(windows, to, {rank: member.frames for rank, member in run.members.items()}, say)
    say(f"the patterns of {plural(count, 'worker')} are delivered as job {windows[0].identity.training_job}")


def _report(runs: list[Run]) -> Report:
    run, *before = runs
    # A window is never its own reference, and two runs may have ended in one second.
    reference = [replace(window, window_id=run.windows[0].window_id - 1) for one in before for window in one.windows]
    report = judge_traces(run.windows, reference, expected=run.expected, apart=run.apart)
    notes = [*run.notes, *(f"BEFORE: {note}" for one in before for note in one.notes)]
    notes += left_out([problem for one in runs for problem in one.problems])
    return _with_timelines(replace(report, notes=(*report.notes, *notes)), run)


def _with_timelines(report: Report, run: Run) -> Report:
    """Add what the workers that the page draws did over their windows."""
    if report.detail is None:
        return report
    windows = {window.identity.rank: window for window in run.windows}
    lines = [
        Timeline(rank, windows[rank].seconds, windows[rank].timeline)
        for rank, _ in shown_workers(report)
        if windows[rank].timeline
    ]
    return replace(report, detail=replace(report.detail, timelines=tuple(lines)))
