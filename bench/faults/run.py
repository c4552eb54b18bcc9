"""The fault board: real faults in real trainings on several nodes, judged through real Prometheus.

Each case runs without the plugin first, against its clean twin, and counts when its effect on the iteration time can be
told from the noise (effect.py; kept until workloads or faults change). Then it runs with everything. It is right when
exactly those are named whom the fault hurts, with a cause that the case allows, by an alert that fires (verdict.py); a
clean run when its window was judged and nothing above info was found. Void, and made again, is a run in which processes
outside our own tree and steal took more than 10 % of the machine. Each run is a line of results.jsonl; the same call
goes on where the last one ended. docs/fault-board.md and docs/fault-board.html are written from these lines.

    python -m bench.faults.run [--cases 'link-*,hang'] [--seeds published|thrice|all|1,2] [--minutes 60] [--fresh]
    python -m bench.faults.run --clean      20 jobs over all workloads, five manual windows in each
    python -m bench.faults.run --list       what is there, what has run, what cannot run here
"""

from __future__ import annotations

import argparse
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.faults import capabilities, choose, clean, effect, ledger, leftovers, page
from bench.faults.case import Case
from bench.faults.choose import Turn
from bench.faults.effect import Effect
from bench.faults.ledger import Line
from bench.faults.play import PROBLEMS, Seen, described, play
from bench.faults.table.every import CASES
from bench.repeat_demo import OUTSIDE_SHARE
from eroica_otel.demo.ending import end_in_order


class Sitting:
    """Runs turns and writes their lines.

    Args:
        results: The file of lines.
        out: Folder for the logs of runs that were wrong.
        number: The round.
    """

    def __init__(self, results: Path, out: Path, number: int) -> None:
        self.lines = ledger.read(results)
        self._results, self._out, self._round = results, out, number
        self._code = ledger.code_digest()

    def append(self, line: dict[str, Any]) -> Line:
        """Write a line."""
        self.lines.append(ledger.append(self._results, line | {"round": self._round}))
        return self.lines[-1]

    def effect(self, turn: Turn) -> tuple[Effect, bool]:
        """Return the effect of a case without the plugin, and whether it is void; measured once for each case and seed.

        Raises:
            PROBLEMS: it could not be measured.
        """
        case, seed = turn
        key = {"case": case.name, "seed": seed, "row": ledger.row_digest(case), "code": self._code}
        for line in ledger.of_kind(self.lines, "effect"):
            if not line["void"] and all(line[name] == value for name, value in key.items()):
                return Effect(**line["effect"]), False
        folder = self._out / f"{case.name}-{seed}-effect"
        shutil.rmtree(folder, ignore_errors=True)
        found, outside = effect.measure(case, case.draw(seed), folder)
        is_void = outside > OUTSIDE_SHARE
        self.append({"kind": "effect", **key, "effect": found.as_dict(), "outside": round(outside, 3), "void": is_void})
        shutil.rmtree(folder, ignore_errors=True)
        return found, is_void

    def run(self, turn: Turn) -> Line:
        """Run a case to its verdict."""
        case, seed = turn
        begin = time.monotonic()
        folder = self._out / f"{case.name}-{seed}"
        shutil.rmtree(folder, ignore_errors=True)
        measured, is_void, error = None, False, ""
        try:
            if case.fault is not None:
                measured, is_void = self.effect(turn)
        except PROBLEMS as problem:
            error = f"its effect could not be measured: {described(problem)}"
        measurable = measured is None or measured.counts(case)
        seen = None if error or not measurable else play(case, case.draw(seed), folder)
        kept = line_of(turn, measured, seen, error)
        kept["void"] = kept["void"] or is_void
        line = self.append(kept | {"took_seconds": round(time.monotonic() - begin)})
        shutil.rmtree(folder / "monitoring", ignore_errors=True)
        if line["right"]:
            shutil.rmtree(folder, ignore_errors=True)
        return line


def line_of(turn: Turn, measured: Effect | None, seen: Seen | None, error: str) -> dict[str, Any]:
    """Return what is kept of a run."""
    case, seed = turn
    drawn = case.draw(seed)
    line: dict[str, Any] = {
        "kind": "run",
        "case": case.name,
        "seed": seed,
        "row": ledger.row_digest(case),
        "klass": case.klass,
        "workload": case.workload,
        "drawn": {"ranks": drawn.ranks, "size": drawn.size, "delay_iterations": drawn.delay_iterations},
        "expected": {"verdict": case.verdict, "causes": sorted(case.causes), "function": case.function},
        "effect": None if measured is None else measured.as_dict(),
        "measurable": not error and (measured is None or measured.counts(case)),
        "error": error,
        "right": False,
        "void": False,
    }
    if seen is not None:
        line |= {
            "worker": seen.verdict.worker,
            "cause": seen.verdict.cause,
            "healthy": seen.verdict.healthy,
            "named": seen.verdict.named,
            "right": seen.verdict.right and not seen.error,
            "seconds": seen.seconds,
            "iteration_seconds": seen.iteration_seconds,
            "blocked_seconds": seen.blocked_seconds,
            "overhead_ratio": overhead(measured, seen),
            "outside": round(seen.outside, 3),
            "void": seen.outside > OUTSIDE_SHARE,
            "error": seen.error,
            "window_seconds": case.window_seconds,
        }
    return line


def overhead(measured: Effect | None, seen: Seen) -> float | None:
    """Return how much longer an iteration takes with the plugin than in the clean twin, before the fault."""
    before = seen.iteration_seconds.get("before")
    return None if measured is None or before is None else round(before / measured.clean_seconds - 1, 4)


def is_wrong(line: Line) -> bool:
    """Whether a run or a clean job that counts is not right, or failed."""
    return not line["void"] and bool(line["error"] or (line.get("measurable", True) and not line["right"]))


def words(line: Line) -> str:
    """Return a run as one line for the terminal."""
    if line["error"] and "named" not in line:
        return f"FAILED  {line['error']}"
    if not line["measurable"]:
        return f"not measurable here: {page.effect_words(line['effect'])}"
    word = "void  " if line["void"] else "right " if line["right"] else "WRONG "
    fired = line["seconds"].get("firing")
    when = "" if fired is None else f", firing after {fired} s"
    return f"{word} others {line['outside']:.0%}{when}: {line['named']} {line['error']}".rstrip()


def sit(sitting: Sitting, asked: Sequence[Turn], number: int, minutes: float, most_void: int) -> list[Line]:
    """Run what is asked for and has not run in this round, as long as there is time; return the new lines."""
    begin = time.monotonic()
    found: list[Line] = []
    while True:
        done = [turn for turn in asked if choose.is_done(turn, sitting.lines, number, most_void)]
        waiting = [turn for turn in asked if turn not in done]
        if not waiting:
            return found
        turn = choose.next_turn(waiting, done)
        left = minutes * 60 - (time.monotonic() - begin)
        if left < choose.expected_seconds(turn, sitting.lines):
            print(f"no time for another run; {len(waiting)} are left for the next call", flush=True)
            return found
        line = sitting.run(turn)
        found.append(line)
        rest = sum(choose.expected_seconds(each, sitting.lines) for each in waiting if each != turn)
        progress = f"[{len(done) + 1}/{len(asked)}, {rest / 60:.0f} min left]"
        print(f"{progress} {turn.case.name} {turn.seed} {line['took_seconds']} s {words(line)}", flush=True)


def able(cases: Sequence[Case]) -> list[Case]:
    """Return the cases that this machine can run; say of the others why not."""
    found = []
    for case in cases:
        if said := capabilities.lacks(case):
            print(f"{case.name} is left out: this machine lacks {said}")
        else:
            found.append(case)
    return found


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", default="", help="patterns of ids or classes, with commas")
    parser.add_argument("--seeds", default="published")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin nothing that would take longer")
    parser.add_argument("--fresh", action="store_true", help="begin a new round: nothing has run")
    parser.add_argument("--clean", action="store_true", help="the clean jobs")
    parser.add_argument("--void", type=int, default=choose.MOST_VOID, help="void runs that are made again")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--out", type=Path, default=Path("build/faults"))
    parser.add_argument("--results", type=Path, default=ledger.RESULTS)
    return parser.parse_args(arguments)


def main() -> int:
    """Print each run, write the pages; 1 when one was wrong, 3 where nothing can run."""
    said = parse()
    lines = ledger.read(said.results)
    number = ledger.current_round(lines) + (1 if said.fresh and lines else 0)
    cases = able(choose.selected(CASES, said.cases))
    asked = choose.turns(cases, said.seeds, CASES)
    if said.list:
        for turn in asked:
            done = "ran    " if choose.is_done(turn, lines, number) else "waiting"
            print(f"{done} {turn.case.klass:12} {turn.case.name:36} {turn.seed:8} {turn.case.text}")
        return 0
    if not cases:
        print(f"no case is called {said.cases!r} and can run here; --list shows all")
        return 3
    end_in_order()
    leftovers.sweep()
    watcher = leftovers.watch()
    sitting = Sitting(said.results, said.out, number)
    try:
        if said.clean:
            runs = clean.sit(sitting, said.out, said.minutes, number)
        else:
            runs = sit(sitting, asked, number, said.minutes, said.void)
    finally:
        watcher.terminate()
        watcher.wait()
    if said.results == ledger.RESULTS:
        page.write(sitting.lines)
    return int(any(is_wrong(line) for line in runs))


if __name__ == "__main__":
    raise SystemExit(main())
