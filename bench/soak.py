"""Do trainers, helpers and localizer keep their memory, threads and files over many windows, and is nothing left?

The demo's training runs healthy and is asked for manual windows at equal distances. What counts is each process'
private dirty memory (libraries that others map too come and go with them), as the median of the quiet time after each
window; after three windows everything is warm. At the end the training stops as usual, and its folders must be empty.
Exit code 1, with a sentence for each reason, when something grew, stayed behind, was not captured or was found.

With ``--backend prometheus`` the series go through a real Prometheus and Alertmanager, which are ended with the rest.

    python bench/soak.py [--minutes 30] [--windows 20] [--backend otlp] [--out build/soak]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import asdict, dataclass, field
from itertools import combinations
from pathlib import Path

from eroica_otel.commands.window import request
from eroica_otel.demo.ending import end_in_order
from eroica_otel.demo.monitoring import Monitoring
from eroica_otel.demo.stage import JOB, RANKS, Stage
from eroica_otel.model import Report
from eroica_otel.publish.report import json as report_json
from eroica_otel.publish.series import is_alarming
from eroica_otel.statefolder import StateFolder

SAMPLE_SECONDS, SETTLE_SECONDS, GONE_SECONDS = 5.0, 180.0, 60.0
WARM_WINDOWS, LEAST_SECONDS = 3, 25.0  # a verdict comes about 15 s after the request, and quiet must follow
GROWTH_KIB, MORE_HANDLES = 200.0, 2  # memory a window; what 20 windows may show is 4 MiB


@dataclass(frozen=True, slots=True)
class Reading:
    """One process at one moment; memory in KiB, ``private`` is dirty memory that no other process shares."""

    pid: int
    rss: int
    private: int
    threads: int
    files: int


@dataclass(frozen=True, slots=True)
class Sample:
    """All processes by name ("helper 2") after so many windows, and (files, bytes) of folders."""

    seconds: float
    windows: int
    quiet: bool
    processes: Mapping[str, Reading]
    folders: Mapping[str, tuple[int, int]]


@dataclass(slots=True)
class Soak:
    """What a run saw: ``captured`` tells by window id how many ranks, ``reports`` have other windows too."""

    stage: Stage
    samples: list[Sample] = field(default_factory=list)
    reports: dict[int, Report] = field(default_factory=dict)
    captured: dict[int, int] = field(default_factory=dict)
    begin: float = field(default_factory=time.monotonic)
    quiet: bool = True

    def age(self) -> float:
        return time.monotonic() - self.begin

    def wait(self, seconds: float, reached: Callable[[], bool] = lambda: False) -> bool:
        """Watch until ``reached``; return False when ``seconds`` have passed before."""
        end = time.monotonic() + seconds
        while not reached():
            if time.monotonic() >= end:
                return False
            self.stage.check()
            if (path := self.stage.out / "report.json").exists():
                report = report_json.parse(path.read_text())
                self.reports[report.window_id] = report
            if not self.samples or self.age() - self.samples[-1].seconds >= SAMPLE_SECONDS:
                self.sample()
            time.sleep(0.5)
        return True

    def sample(self) -> None:
        """Read everything once."""
        folders = {name: folder_size(self.stage.out / name) for name in ("workers", "state")}
        self.samples.append(Sample(self.age(), len(self.captured), self.quiet, read_all(self.stage), folders))

    def window(self, patience: float) -> None:
        """Ask for one window as a user does and wait for its verdict."""
        self.sample()
        known, asked, self.quiet = set(self.reports), self.age(), False
        request(self.stage.workers_folder, JOB)
        while self.wait(patience + asked - self.age(), lambda: set(self.reports) > known):
            known.add(number := max(set(self.reports) - known))
            if self.reports[number].reason == "manual":
                self.captured[number] = sum(worker.window_id == number for worker in self.stage.workers())
                by = f"{self.captured[number]} ranks, judged {self.age() - asked:.0f} s after the request"
                print(f"[{self.age():5.0f} s] window {len(self.captured)} captured by {by}", flush=True)
                break
        self.quiet = True


def helpers(folder: Path) -> dict[int, int]:
    """Return helper by trainer, as process ids, of all helpers that work under ``folder``, orphans too."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            words = path.read_bytes().decode(errors="replace").split("\0")[:-1]
            if "eroica_otel.helper" in words and words[-2].startswith(f"{folder}/"):
                found[int(words[-1])] = int(path.parent.name)
    return found


def read_all(stage: Stage) -> dict[str, Reading]:
    """Return what can be read of each process by its name."""
    pids, by_trainer = {"localizer": stage.pid("localizer")}, helpers(stage.workers_folder)
    for worker in stage.workers():
        pids[f"trainer {worker.identity.rank}"] = worker.pid
        pids[f"helper {worker.identity.rank}"] = by_trainer.get(worker.pid, 0)
    return {name: reading for name, pid in pids.items() if (reading := read_process(pid)) is not None}


def read_process(pid: int) -> Reading | None:
    """Return one process, None when it is gone."""
    with suppress(OSError):
        rollup, status = (Path(f"/proc/{pid}/{name}").read_text() for name in ("smaps_rollup", "status"))
        words = dict(line.split(":", 1) for line in [*rollup.splitlines()[1:], *status.splitlines()])
        rss, private, threads = (int(words[name].split()[0]) for name in ("Rss", "Private_Dirty", "Threads"))
        return Reading(pid, rss, private, threads, len(os.listdir(f"/proc/{pid}/fd")))
    return None


def folder_size(folder: Path) -> tuple[int, int]:
    """Return files and bytes below a folder."""
    sizes = []
    for path in (Path(place, name) for place, _, names in os.walk(folder) for name in names):
        with suppress(OSError):
            sizes.append(path.stat().st_size)
    return len(sizes), sum(sizes)


def slope(values: Sequence[float]) -> float:
    """Return the median of the slopes of all pairs, per step (Theil-Sen); NaN for fewer than two values."""
    pairs = [(later - earlier) / (j - i) for (i, earlier), (j, later) in combinations(enumerate(values), 2)]
    return statistics.median(pairs) if pairs else float("nan")


def is_flat(kib: Sequence[float]) -> bool:
    """Return whether memory after each window, from the first warm one on, stays; of a single one nothing is known."""
    return len(kib) < 2 or slope(kib) <= GROWTH_KIB


def levels(samples: Sequence[Sample], name: str, what: str) -> list[float]:
    """Return the median of one figure of one process in the quiet time before the first window and after each."""
    after: dict[int, list[float]] = {}
    for sample in samples:
        if sample.quiet and name in sample.processes:
            after.setdefault(sample.windows, []).append(getattr(sample.processes[name], what))
    return [statistics.median(after[number]) for number in sorted(after)]


def growth(samples: Sequence[Sample]) -> list[str]:
    """Return a sentence for each process that is not flat, and for each that was not the same one all the time."""
    said = []
    for name in sorted({name for sample in samples for name in sample.processes}):
        warm = levels(samples, name, "private")[WARM_WINDOWS:]
        if warm and not is_flat(warm):
            rise = f"{warm[0]:.0f} to {warm[-1]:.0f} KiB, {slope(warm):.0f} KiB a window"
            said.append(f"{name}: private memory grew after window {WARM_WINDOWS} from {rise}")
        for what in ("threads", "files"):
            counts = levels(samples, name, what)
            if counts[-1] - counts[0] > MORE_HANDLES:
                said.append(f"{name}: {what} grew from {counts[0]:.0f} to {counts[-1]:.0f}")
        pids = {sample.processes[name].pid if name in sample.processes else 0 for sample in samples}
        said += [f"{name} was not one process all the time (0 = none): {sorted(pids)}"] if len(pids) > 1 else []
    return said


def verdicts(soak: Soak, windows: int, judged: set[int]) -> list[str]:
    """Return a sentence for windows that some rank did not capture or nobody judged, and for each finding."""
    whole = [n for n in judged & set(soak.captured) if soak.captured[n] == soak.reports[n].workers_seen == RANKS]
    said = [] if len(whole) == windows else [f"{len(whole)} of {windows} windows captured by all ranks and judged"]
    found = [item for report in soak.reports.values() for item in report.findings if is_alarming(item)]
    return said + [f"finding: {item.cause} on ranks {list(item.ranks)}, {item.function}" for item in found]


def table(samples: Sequence[Sample]) -> str:
    """Return the figures of all processes, and of the folders."""
    rows = ["| process | private MiB: begin, warm, end | KiB/window | RSS MiB | threads | files |\n" + "|---" * 6 + "|"]
    for name in sorted(samples[-1].processes):
        private, rss = ([kib / 1024 for kib in levels(samples, name, x)] for x in ("private", "rss"))
        warm = private[WARM_WINDOWS:] or private[-1:]
        mib = ", ".join(f"{value:.1f}" for value in (private[0], warm[0], warm[-1]))
        others = [rss, levels(samples, name, "threads"), levels(samples, name, "files")]
        cells = [name, mib, f"{slope(warm) * 1024:.0f}", *(f"{x[0]:.0f} to {x[-1]:.0f}" for x in others)]
        rows.append(f"| {' | '.join(cells)} |")
    for folder, begin in samples[0].folders.items():
        rows.append(f"folder {folder}: (files, bytes) {begin} to {samples[-1].folders[folder]}")
    return "\n".join(rows)


def play(stage: Stage, seconds: float, windows: int) -> Soak:
    """Take all windows at equal distances, then stop the training and wait until its helpers have gone."""
    if not Soak(stage).wait(SETTLE_SECONDS, lambda: stage.judged("reference") is not None):
        raise SystemExit(f"no reference window was judged within {SETTLE_SECONDS:.0f} s; see {stage.log}")
    soak = Soak(stage)
    for number in range(windows):
        soak.wait(number * seconds / windows - soak.age())
        soak.window(seconds / windows - 1)
    soak.wait(seconds - soak.age())
    soak.sample()
    stage.finish()
    end = time.monotonic() + GONE_SECONDS
    while helpers(stage.workers_folder) and time.monotonic() < end:
        time.sleep(0.5)
    return soak


def _watch(out: Path, backend: str, seconds: float, windows: int) -> tuple[Soak, list[str]]:
    """Play on a stage; return what was seen, and a sentence for each helper that is left."""
    # A busy machine would ask for windows of its own, and their number must be known.
    environment = os.environ | {"TMPDIR": str(out / "tmp"), "EROICA_DEGRADED_RATIO": "10"}
    with ExitStack() as stack:
        monitoring = None
        if backend == "prometheus":
            monitoring = stack.enter_context(closing(Monitoring(out / "monitoring")))
        stage = stack.enter_context(Stage(out, 5.0, environment, monitoring))
        soak = play(stage, seconds, windows)
        return soak, [f"left behind: helper {pid}" for pid in helpers(stage.workers_folder).values()]


def main() -> int:
    """Print the figures; 1 when something is not as it should be."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--windows", type=int, default=20)
    parser.add_argument("--backend", choices=("otlp", "prometheus"), default="otlp")
    parser.add_argument("--out", type=Path, default=Path("build/soak"))
    arguments = parser.parse_args()
    seconds, windows = arguments.minutes * 60, arguments.windows
    if windows <= WARM_WINDOWS or seconds / windows < LEAST_SECONDS:
        parser.error(f"give more than {WARM_WINDOWS} windows, and {LEAST_SECONDS:.0f} s for each")
    out = (arguments.out / time.strftime("%Y%m%d-%H%M%S")).absolute()
    (out / "tmp").mkdir(parents=True)
    end_in_order()
    soak, left = _watch(out, arguments.backend, seconds, windows)
    (out / "samples.json").write_text(json.dumps([asdict(sample) for sample in soak.samples]))
    judged = {number for record in StateFolder(str(out / "state")).read() for number in record.judged}
    files = [*soak.stage.workers_folder.iterdir(), *(out / "tmp").iterdir()]
    left += [f"left behind: {path}" for path in files if not path.name.startswith("torch")]  # torch leaves its own
    said = growth(soak.samples) + verdicts(soak, windows, judged) + left
    print(table(soak.samples))
    print("\n".join(f"NOT FLAT: {text}" for text in said) or "flat: nothing grew, nothing was left, nothing was found")
    return int(bool(said))


if __name__ == "__main__":
    raise SystemExit(main())
