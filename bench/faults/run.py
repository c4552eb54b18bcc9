"""The fault board: real faults in real trainings on several nodes, judged through real Prometheus.

A case is right when exactly the worker that was hurt is named, with a cause that the case allows, by an alert that
fires; a clean run when its window was judged and nothing above info was found. Seconds count from the moment the fault
begins to the alert's start; with windows of 20 s or less a median above 60 s fails. Void, and made again, is a run in
which processes outside our own tree and steal took more than 10 % of the machine.

    python -m bench.faults.run [--cases python,link] [--runs 1] [--window 20] [--out build/faults] [--table FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path

from bench.faults.board import Board
from bench.faults.cases import CASES, Case
from bench.repeat_demo import FIRING_SECONDS, FIRING_WINDOW_SECONDS, MOST_VOID, OUTSIDE_SHARE, commit
from eroica_otel.demo.ending import end_in_order
from eroica_otel.demo.monitoring import Alert
from eroica_otel.demo.nodes import missing
from eroica_otel.errors import EroicaError

ROOT = Path(__file__).resolve().parents[2]
START_SECONDS = 180.0
PATIENCE_SECONDS = 180.0
SETTLE_SECONDS = 10.0
"""After the first alert: another worker named by then counts against the run."""
FINDINGS = (
    "EroicaWorkerSlowsJob",
    "EroicaRoleSlowsJob",
    "EroicaWorkerHangsJob",
    "EroicaJobHangs",
    "EroicaLinkSlowsJob",
    "EroicaJobSlowedEverywhere",
)


@dataclass(frozen=True)
class Result:
    """What one run gave.

    Attributes:
        worker: The right worker, and no other, was named.
        cause: Its cause was right, and the function, where the case says which.
        seconds: From onset to the alert; None where none fired.
        named: What was named, in words.
        outside: The part of the machine that others used.
    """

    case: str
    worker: bool
    cause: bool
    seconds: float | None
    named: str
    outside: float


def play(case: Case, folder: Path, window_seconds: float) -> Result:
    """Run one case."""
    with Board(case, folder, window_seconds) as board, ExitStack() as undo:
        size = case.nodes * case.ranks
        board.wait(lambda: "reference" in board.judged(), "the reference window to be judged", START_SECONDS)
        board.wait(
            lambda: len(seen := board.workers()) == size and all(worker.ratio is not None for worker in seen),
            "the baselines",
            START_SECONDS,
        )
        onset = time.time()
        case.inject(board, undo)
        if case.rank is None:
            return _clean(case, board, onset)
        firing: list[Alert] = []
        try:
            board.wait(lambda: bool(_of_findings(board, firing)), "an alert to fire", PATIENCE_SECONDS)
        except EroicaError as error:
            return Result(case.name, False, False, None, str(error), board.machine.outside_share())
        seconds = min(alert.since for alert in firing) - onset
        time.sleep(SETTLE_SECONDS)
        _of_findings(board, firing)
        return result_of(case, board.host(case.rank), firing, seconds, board.machine.outside_share())


def _of_findings(board: Board, firing: list[Alert]) -> list[Alert]:
    firing[:] = [alert for alert in board.monitoring.firing() if alert.name in FINDINGS]
    return firing


def _clean(case: Case, board: Board, onset: float) -> Result:
    board.wait(lambda: board.judged().get("manual", 0) >= int(onset), "the window to be judged", PATIENCE_SECONDS)
    time.sleep(SETTLE_SECONDS)
    firing = _of_findings(board, [])
    named = "; ".join(_words(alert) for alert in firing) or "no finding"
    outside = board.machine.outside_share()
    return Result(case.name, not firing and not board.findings(), not firing, None, named, outside)


def result_of(case: Case, host: str, firing: list[Alert], seconds: float, outside: float) -> Result:
    """Judge the alerts that fire; ``host`` is where the rank runs that was hurt."""
    hurt = (str(case.rank), host)
    right = [alert for alert in firing if (alert.labels.get("rank"), alert.labels.get("host")) == hurt]
    causes = {alert.annotations.get("cause", "") for alert in right}
    functions = [alert.annotations.get("function", "") for alert in right]
    return Result(
        case.name,
        bool(right) and len(right) == len(firing),
        bool(causes) and causes <= case.causes and all(name.startswith(case.function) for name in functions),
        round(seconds, 1),
        "; ".join(_words(alert) for alert in firing),
        outside,
    )


def _words(alert: Alert) -> str:
    said = alert.annotations
    where = ", ".join(filter(None, (said.get("function"), said.get("impact"))))
    return f"rank {alert.labels.get('rank', '-')}: {said.get('cause')} ({where})"


def table(results: list[Result]) -> str:
    """Return the board as Markdown, one row for each case."""
    lines = [
        "| case | what is done | right worker | right cause | seconds to firing | named |",
        "|---|---|---|---|---|---|",
    ]
    for case in CASES:
        mine = [result for result in results if result.case == case.name]
        if mine:
            seconds = [result.seconds for result in mine if result.seconds is not None]
            named = _counted([result.named for result in mine])
            lines.append(
                f"| {case.name} | {case.what} | {sum(r.worker for r in mine)} of {len(mine)} "
                f"| {sum(r.cause for r in mine)} of {len(mine)} "
                f"| {f'{statistics.median(seconds):.0f}' if seconds else '-'} | {named} |"
            )
    return "\n".join(lines) + "\n"


def _counted(names: list[str]) -> str:
    """Return every distinct text, the most frequent first, with its count where there are several."""
    found = Counter(names).most_common()
    return "<br>".join(f"{count} x {name}" for name, count in found) if len(found) > 1 else names[0]


def foot(window_seconds: float, void: int) -> str:
    """Return what the table was made with, in one line."""
    machine = f"{os.cpu_count()} cores, Python {platform.python_version()}, torch {metadata.version('torch')}"
    return f"{time.strftime('%Y-%m-%d')}, commit {commit(ROOT)}, {machine}, window {window_seconds:g} s, {void} void.\n"


def late(results: list[Result], window_seconds: float) -> list[str]:
    """Return the cases whose median from onset to firing misses the bar; it has none for longer windows."""
    if window_seconds > FIRING_WINDOW_SECONDS:
        return []
    seconds: dict[str, list[float]] = {}
    for result in results:
        if result.seconds is not None:
            seconds.setdefault(result.case, []).append(result.seconds)
    return [case for case, found in seconds.items() if statistics.median(found) > FIRING_SECONDS]


def runs_of(case: Case, runs: int, one: Callable[[int], Result]) -> tuple[list[Result], int]:
    """Run a case until enough runs are not void, MOST_VOID more at most; return these and how many were void.

    Args:
        one: Makes the run with a number; a line is printed for each.
    """
    results: list[Result] = []
    void = 0
    for number in range(runs + MOST_VOID):
        begin = time.monotonic()
        result = one(number)
        is_void = result.outside > OUTSIDE_SHARE
        word = "void" if is_void else "right" if result.worker and result.cause else "WRONG"
        took = f"{time.monotonic() - begin:4.0f} s, others {result.outside:.0%}, firing after {result.seconds} s"
        print(f"{case.name:14} {word} {took}: {result.named}", flush=True)
        void += is_void
        results += [] if is_void else [result]
        if len(results) == runs:
            break
    return results, void


def _all(cases: list[Case], runs: int, out: Path, window_seconds: float) -> tuple[list[Result], int]:
    results, void = [], 0
    for case in cases:

        def one(number: int, case: Case = case) -> Result:
            return play(case, (out / f"{case.name}-{number}").absolute(), window_seconds)

        found, more = runs_of(case, runs, one)
        results += found
        void += more
    return results, void


def main() -> int:
    """Print each run and the table; 1 when one was wrong, late or missing, 3 where the board cannot run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", default=",".join(case.name for case in CASES))
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--window", type=float, default=20.0)
    parser.add_argument("--out", type=Path, default=Path("build/faults"))
    parser.add_argument("--table", type=Path, default=None, help="file for the table")
    arguments = parser.parse_args()
    cases = [case for case in CASES if case.name in arguments.cases.split(",")]
    if not cases:
        parser.error(f"--cases {arguments.cases}: give some of {', '.join(case.name for case in CASES)}")
    if lacks := missing():
        print(f"the board needs {lacks}")
        return 3
    end_in_order()
    shutil.rmtree(arguments.out, ignore_errors=True)
    results, void = _all(cases, arguments.runs, arguments.out, arguments.window)
    (arguments.out / "results.json").write_text(json.dumps([asdict(result) for result in results], indent=1))
    text = f"{table(results)}\n{foot(arguments.window, void)}"
    print(text)
    if arguments.table:
        arguments.table.write_text(text)
    slow = late(results, arguments.window)
    if slow:
        print(f"TOO LATE, median from onset to firing above {FIRING_SECONDS:.0f} s: {', '.join(slow)}")
    missing_runs = len(results) < arguments.runs * len(cases)
    return int(bool(slow) or missing_runs or not all(r.worker and r.cause for r in results))


if __name__ == "__main__":
    raise SystemExit(main())
