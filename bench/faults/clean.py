"""A hundred clean windows: JOBS trainings over all workloads without any fault, WINDOWS windows by hand in each.

None may have a finding above info, and none of the jobs may open a degraded window that alerts.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.faults import capabilities, ledger
from bench.faults.case import NONE, SILENCE, Case
from bench.faults.ledger import Line
from bench.faults.play import PATIENCE_SECONDS, PROBLEMS, SETTLE_SECONDS, Watch, begin, described, show
from bench.faults.watched import WatchedBoard
from bench.repeat_demo import OUTSIDE_SHARE

if TYPE_CHECKING:
    from bench.faults.run import Sitting

WINDOWS = 5
SHAPES: tuple[tuple[str, int, int, tuple[str, ...]], ...] = (
    ("ddp", 2, 2, ()), ("conv", 2, 2, ()), ("fsdp", 2, 2, ()), ("pipeline", 2, 2, ()), ("accumulate", 2, 2, ()),
    ("experts", 4, 1, ()), ("hf", 2, 1, ()), ("accelerated", 2, 1, ()), ("lightning_", 2, 1, ()),
    ("ddp", 4, 1, ("--average-loss",)), ("ddp", 2, 1, ("--loader-workers", "2")), ("conv", 4, 1, ()),
    ("fsdp", 4, 1, ()), ("ddp", 2, 2, ("--source", "objects")), ("ddp", 2, 2, ("--checkpoint-every", "60")),
    ("conv", 2, 1, ("--validate-every", "80")), ("accumulate", 4, 1, ()), ("experts", 2, 2, ()),
    ("ddp", 2, 4, ("--batch", "4")), ("pipeline", 2, 1, ()),
)  # fmt: skip
"""Workload, nodes, ranks of each and arguments of every job."""


def jobs() -> list[Case]:
    """Return the clean jobs."""
    return [
        Case(f"clean-job-{number}", "clean", workload, "nothing", None, NONE, SILENCE,
             nodes=nodes, ranks=ranks, arguments=arguments)
        for number, (workload, nodes, ranks, arguments) in enumerate(SHAPES, 1)
    ]  # fmt: skip


def watch(case: Case, folder: Path) -> dict[str, Any]:
    """Run one job; return what is kept of it."""
    found: dict[str, Any] = {"windows": 0, "degraded": 0, "named": [], "error": ""}
    watched = WatchedBoard(case, case.draw(case.seeds()[0]), folder)
    try:
        with watched as board, ExitStack() as undo:
            seen = Watch(board, begin(board, undo))
            for _ in range(WINDOWS):
                show(board, seen)
                found["windows"] += 1
            seen.settle(SETTLE_SECONDS)
            found["named"] += [one.words() for one in seen.named()]
            found["degraded"] = _degraded(board)
    except PROBLEMS as error:
        found["error"] = described(error)
    found["outside"] = round(watched.machine.outside_share(), 3)
    found["void"] = found["outside"] > OUTSIDE_SHARE
    found["right"] = not found["named"] and not found["error"] and found["windows"] == WINDOWS
    return found


def _degraded(board: WatchedBoard) -> int:
    """Return how many windows the job has opened by itself."""
    first = board.workers()[0].windows
    return sum(count for reason, count in first.items() if reason.startswith("degraded"))


def is_done(case: Case, lines: Iterable[Line], number: int) -> bool:
    """Whether a round has a run of a job that counts."""
    return any(
        (line["case"], line["round"], line["row"]) == (case.name, number, ledger.row_digest(case)) and not line["void"]
        for line in ledger.of_kind(lines, "clean")
    )


def sit(sitting: Sitting, out: Path, minutes: float, number: int) -> list[Line]:
    """Run the jobs that have not run in this round, as long as there is time; return the new lines."""
    begun, found = time.monotonic(), []
    waiting = [case for case in jobs() if not is_done(case, sitting.lines, number)]
    longest = PATIENCE_SECONDS
    for count, case in enumerate(waiting, 1):
        if said := capabilities.lacks(case):
            print(f"{case.name} ({case.workload}) is left out: this machine lacks {said}")
            continue
        if minutes * 60 - (time.monotonic() - begun) < longest:
            print(f"no time for another job; {len(waiting) - count + 1} are left for the next call", flush=True)
            break
        start = time.monotonic()
        folder = out / case.name
        shutil.rmtree(folder, ignore_errors=True)
        kept = {"kind": "clean", "case": case.name, "row": ledger.row_digest(case), "workload": case.workload}
        line = sitting.append(kept | watch(case, folder))
        longest = max(longest, time.monotonic() - start)
        found.append(line)
        shutil.rmtree(folder / "monitoring" if not line["right"] else folder, ignore_errors=True)
        word = "void" if line["void"] else "right" if line["right"] else "WRONG"
        said = "; ".join(line["named"]) or line["error"] or "no finding"
        print(
            f"[{count}/{len(waiting)}] {case.name} {case.workload} {word}, {line['windows']} windows: {said}",
            flush=True,
        )
    return found
