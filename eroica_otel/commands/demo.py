"""``eroica-otel demo``: a real training, a real fault, and the verdict, within two minutes on any machine."""

from __future__ import annotations

import argparse
import fcntl
import importlib.util
import os
import random
import shutil
import sys
import time
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from eroica_otel.commands.window import request
from eroica_otel.demo import follow, nodes, quota
from eroica_otel.demo.alarm import Alarm, as_json, as_text
from eroica_otel.demo.ending import end_in_order
from eroica_otel.demo.monitoring import Monitoring
from eroica_otel.demo.stage import JOB, RANKS, Fault, Stage
from eroica_otel.demo.story import Story
from eroica_otel.errors import ConfigError, EroicaError
from eroica_otel.model import Report
from eroica_otel.publish.report import json as report_json
from eroica_otel.publish.report import terminal
from eroica_otel.wanted import OTLP, PROMETHEUS, wanted

FAULT_SECONDS = 0.1
"""What "python" and "input" add to each iteration of one rank: to 0.16 s, so that it is more than a third then."""
FAULT_MEGABITS = 150
"""What "network" leaves of one node's link of 1 Gbit, per second."""
FAULT_CORES = 0.07
"""What "cpu" leaves; a worker of the demo uses a tenth of a core."""
HELP = f"""\
See it work: train a small model with 4 processes, slow one of them down for real, and read the verdict.

The training is DistributedDataParallel with gloo on the CPU. Its accelerator is one operator that takes a fixed time,
so that no GPU is needed; everything else is what you would run: hooks, agreed window, patterns by OTLP, localizer,
report. report.json, report.html, injected.json (what was really done) and demo.log go to the output folder.

--fault cpu gives one worker {100 * FAULT_CORES:.0f} % of a core: a worker of this training needs a tenth of one only,
so that a limit of, say, a quarter would slow nothing.

--backend prometheus adds a real Prometheus and a real Alertmanager with the rules that eroica-otel brings along: the
fault is followed to the alert that fires and to the one notification, which go to alert.json. It fails where any other
worker was named at any time."""
EXPECTED = {
    "python": "python_overhead",
    "input": "slow_input",
    "cpu": "cpu_starved",
    "network": "nic_degraded",
    "none": "",
}
"""The cause that each fault should be found as."""
LACKS = {"cpu": quota.missing, "network": nodes.missing}
"""What a fault needs that not every machine has."""
LIMIT_SECONDS, LIMIT_WINDOWS = 100.0, 4
"""The demo gives up after this many seconds and windows: 120 s with the usual window of 5 s."""
ALERT_SECONDS = 90.0 + follow.SETTLE_SECONDS
"""What scrapes, rules and Alertmanager's patience may add."""
KEPT = ("OTEL_METRICS_EXPORTER", "OTEL_METRIC_EXPORT_INTERVAL", "EROICA_REMOTE_WRITE_")
"""Beginnings of the caller's variables that are about the demo too: series may go elsewhere as well."""
MARKER = ".eroica-demo"
OURS = ("report.json", "report.html", "injected.json", "demo.log", "state", "workers", "control",
        "alert.json", "monitoring", "nodes")  # fmt: skip


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument(
        "--fault", choices=sorted(EXPECTED), default="python", help="what goes wrong (default: %(default)s)"
    )
    parser.add_argument(
        "--rank", type=int, choices=range(RANKS), default=None, help="where it goes wrong (default: at random)"
    )
    parser.add_argument(
        "--backend", choices=("otlp", "prometheus"), default="otlp",
        help="what series go through: the localizer's own receiver, or a real Prometheus (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument("--out", metavar="DIR", default="build/demo", help="output folder (default: %(default)s)")
    parser.add_argument(
        "--window", metavar="SECONDS", type=float, default=5.0, help="length of a window (default: %(default)g)"
    )


def run(arguments: argparse.Namespace) -> int:
    """Play the demo; 0 when the verdict is the one it should be.

    Raises:
        ConfigError: torch is missing or an option cannot be used.
        EroicaError: a process died, time ran out, or the verdict is wrong.
    """
    if importlib.util.find_spec("torch") is None:
        raise ConfigError("the demo trains with torch, which is not installed: pip install 'eroica-otel[torch]'")
    if not 1.0 <= arguments.window <= 60.0:
        raise ConfigError(f"--window {arguments.window:g}: give 1 to 60 seconds")
    if lacks := LACKS.get(arguments.fault, str)():
        raise ConfigError(f"--fault {arguments.fault} needs {lacks}; --fault python works everywhere")
    if left := _alone(os.environ, arguments.backend):
        print(f"not used here: {', '.join(left)} (of your own trainings)")
    end_in_order()
    rank = arguments.rank if arguments.rank is not None else random.randrange(RANKS)
    fault = Fault(arguments.fault, rank, FAULT_SECONDS, FAULT_MEGABITS, FAULT_CORES)
    with ExitStack() as stack:
        out = stack.enter_context(_own_folder(Path(arguments.out)))
        monitoring = stack.enter_context(_monitoring(out)) if arguments.backend == "prometheus" else None
        places = stack.enter_context(nodes.nodes(RANKS, out / "nodes")) if fault.name == "network" else ()
        stage = stack.enter_context(Stage(out, arguments.window, monitoring=monitoring, places=places))
        report, found = _play(stage, fault, Story(stage, sys.stdout.write), arguments.window)
    print("\n" + terminal.render(report, width=shutil.get_terminal_size((110, 24)).columns, colour=_colour()))
    print(f"  more    {out / 'report.html'}   {out / 'report.json'}   {out / 'demo.log'}")
    _check(report, fault)
    if found is not None:
        (out / "alert.json").write_text(as_json(found), "utf-8")
        print(f"\n{as_text(found)}\n  more    {out / 'alert.json'}")
        follow.check(found, fault.rank, EXPECTED[fault.name])
    return 0


def _alone(environment: MutableMapping[str, str], backend: str) -> list[str]:
    """Take away what the caller has set for trainings and a localizer of its own; return the names.

    Raises:
        ConfigError: series would not reach the demo's localizer.
    """
    ours = [name for name in environment if name.startswith(("EROICA_", "OTEL_")) and not name.startswith(KEPT)]
    for name in ours:
        del environment[name]
    needed = PROMETHEUS if backend == "prometheus" else OTLP
    if "OTEL_METRICS_EXPORTER" in environment and needed not in wanted(environment):
        given = environment["OTEL_METRICS_EXPORTER"]
        raise ConfigError(f"OTEL_METRICS_EXPORTER={given!r} keeps series from the demo: unset it, or add {needed}")
    return sorted(ours)


@contextmanager
def _monitoring(out: Path) -> Iterator[Monitoring]:
    with closing(Monitoring(out / "monitoring")) as monitoring:
        yield monitoring


def _colour() -> bool:
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


@contextmanager
def _own_folder(out: Path) -> Iterator[Path]:
    """Make the output folder ours alone while the demo runs; what an earlier demo left in it is removed, nothing else.

    Raises:
        ConfigError: it cannot be made, holds somebody else's files, or another demo uses it.
    """
    out = out.absolute()
    try:
        out.mkdir(parents=True, exist_ok=True)
        if any(out.iterdir()) and not (out / MARKER).is_file():
            raise ConfigError(f"--out {out} holds files that are not the demo's: give a new or an empty folder")
        marker = (out / MARKER).open("w")
    except OSError as error:
        raise ConfigError(f"--out {out}: {error.strerror}; give a folder that can be made and written") from error
    with marker:
        try:
            fcntl.flock(marker, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise ConfigError(f"--out {out}: another demo is using it; wait, or give another folder") from error
        for path in (out / name for name in OURS):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
        yield out


def _play(stage: Stage, fault: Fault, story: Story, window_seconds: float) -> tuple[Report, Alarm | None]:
    """Healthy, reference, fault, verdict, and where Prometheus runs the alert."""
    limit = LIMIT_SECONDS + LIMIT_WINDOWS * window_seconds + (ALERT_SECONDS if stage.monitoring else 0.0)
    deadline = time.monotonic() + limit

    def wait(what: str, reached: Callable[[], bool]) -> None:
        while not reached():
            stage.check()
            if time.monotonic() > deadline:
                raise EroicaError(f"after {limit:.0f} s still waiting for {what}; see {stage.log}")
            story.tell()
            time.sleep(0.5)

    if stage.monitoring is not None:
        story.say(f"Prometheus is on {stage.monitoring.url} until the demo ends")
    wait("the reference window to be judged", lambda: stage.judged("reference") is not None)
    wait("all ranks to know their healthy iteration time", lambda: _settled(stage))
    onset = time.time()
    if fault.name == "none":
        request(stage.workers_folder, JOB)
        story.say("no fault: asking for a window by hand (eroica-otel window)")
        stage.inject(fault)
    else:
        stage.inject(fault)
        story.say(f"the fault starts now: {_describe(fault)}")
    reason = "manual" if fault.name == "none" else "degraded"
    wait(f"a {reason} window to be judged", lambda: (stage.judged(reason) or 0) >= int(onset))
    story.tell()
    report = report_json.parse((stage.out / "report.json").read_text())
    if stage.monitoring is None:
        return report, None
    if fault.name == "none":
        follow.to_silence(stage.monitoring, wait, report.window_id)
        story.say("Prometheus evaluated the rules with this verdict: no alert")
        return report, None
    return report, follow.to_alarm(stage.monitoring, wait, story.say, onset)


def _settled(stage: Stage) -> bool:
    workers = stage.workers()
    return len(workers) == RANKS and all(w.state == "healthy" and w.ratio is not None for w in workers)


def _describe(fault: Fault) -> str:
    milliseconds = fault.seconds * 1000
    if fault.name == "python":
        return f"augment() in rank {fault.rank} burns {milliseconds:.0f} ms of CPU in each iteration"
    if fault.name == "cpu":
        return f"rank {fault.rank} gets a CPU limit of {fault.cores:.0%} of a core"
    if fault.name == "network":
        return f"the link of rank {fault.rank}'s node is limited to {fault.megabits} Mbit/s"
    return f"the text server answers rank {fault.rank} {milliseconds:.0f} ms late in each iteration"


def _check(report: Report, fault: Fault) -> None:
    """Raise EroicaError unless the verdict is what the fault should give."""
    alarming = [finding for finding in report.findings if finding.severity != "info"]
    got = ", ".join(f"{finding.cause} on ranks {list(finding.ranks)}" for finding in alarming) or "no finding"
    if fault.name == "none":
        right = not alarming
        wanted = "no finding"
    else:
        wanted = f"{EXPECTED[fault.name]} on rank {fault.rank}"
        right = [(finding.cause, finding.ranks) for finding in alarming] == [(EXPECTED[fault.name], (fault.rank,))]
    if not right:
        raise EroicaError(f"the verdict is wrong: {got}, but it should be {wanted}")
