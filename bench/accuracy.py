"""How often is a healthy worker named, and how many faults are found? Simulated jobs with noise, judged.

A job is data parallel with 12 functions of 1 to 30 % of the iteration (bench/simulate/mixed.py). False findings are
counted per million patterns of healthy workers; findings that are only info are not counted. The published rule and
three of scikit-learn name workers on the same windows. The last tables go below the faults that must be found: all
thresholds times a factor. Beside recall is the best that is possible for who knows the noise (bench/optimum.py).

    python -m bench.accuracy [--windows 40] [--size 1024] [--minutes 10] [--only roles]
"""

from __future__ import annotations

import argparse
import functools
import math
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from bench.optimum import Best, of_few, of_job
from bench.simulate.mixed import FUNCTIONS, Mix, Sample, exact, sample
from bench.simulate.rivals import Rule, by_role, rules
from bench.simulate.run import LAWS
from eroica_otel.localize.policy import Policy
from eroica_otel.localize.verdict import judge_columns
from eroica_otel.model import Finding

MILLION = 1_000_000


@dataclass(slots=True)
class Score:
    """Counts of one rule on many windows.

    Attributes:
        false_patterns: Healthy patterns that were named; a healthy worker that is named as a whole is one.
        false_workers: Healthy workers that were named.
        job: Findings about the whole job where there was one culprit or none.
        found: Culprits that were named.
    """

    patterns: int = 0
    workers: int = 0
    culprits: int = 0
    false_patterns: int = 0
    false_workers: int = 0
    job: int = 0
    found: int = 0
    examples: list[str] = field(default_factory=list)

    def add(self, given: Sample, named: Iterable[tuple[int, int]]) -> None:
        """Count the patterns (rank, number) that were named."""
        named = set(named)
        wrong = {(rank, at) for rank, at in named if rank not in given.culprits}
        healthy = len(given.table.workers) - len(given.culprits)
        self.patterns += healthy * len(FUNCTIONS)
        self.workers += healthy
        self.culprits += len(given.culprits)
        self.false_patterns += len(wrong)
        self.false_workers += len({rank for rank, _ in wrong})
        self.found += len({rank for rank, _ in named} & set(given.culprits))

    @property
    def false_ratio(self) -> float:
        """Named per healthy pattern."""
        return (self.false_patterns + self.job) / self.patterns if self.patterns else math.nan

    @property
    def recall(self) -> float:
        """Share of the culprits that were named, NaN without any."""
        return self.found / self.culprits if self.culprits else math.nan


def by_localizer(
    given: Sample, score: Score, policy: Policy = Policy(), reference: bool = True, infos: bool = False  # noqa: B008
) -> None:  # fmt: skip
    """Judge a window and count, ``infos`` too or only what is above info."""
    before = given.reference if reference else None
    report = judge_columns(given.table, before, expected=len(given.table.workers), policy=policy)
    grave = [finding for finding in report.findings if infos or finding.severity != "info"]
    score.add(given, [(rank, at) for at, finding in enumerate(grave) for rank in finding.ranks])
    score.job += sum(finding.verdict == "job" for finding in grave) if len(given.culprits) <= 1 else 0
    score.examples += [_example(f) for f in grave if set(f.ranks) - set(given.culprits) or f.verdict == "job"]


def _example(finding: Finding) -> str:
    return f"{finding.cause} of {finding.ranks[:4]} in {finding.function}: {finding.evidence[0]}"


def by_rule(rule: Rule, given: Sample, score: Score) -> None:
    """Let another rule name, role by role."""
    named: list[tuple[int, int]] = []
    for rows, patterns in by_role(given.table):
        ranks = given.table.workers.rank[rows]
        named += [(int(ranks[worker]), at) for worker, at in np.argwhere(rule(patterns)).tolist()]
    score.add(given, named)


def mixes(size: int) -> Iterator[Mix]:
    """Yield the kinds of jobs."""
    for law in LAWS:
        for sd in (0.01, 0.03, 0.06, 0.10):
            yield Mix(f"{law}, sd {sd:.2f}", size, sd=sd, law=law)
    for law in ("laplace", "student"):
        for sd in (0.03, 0.10):
            yield Mix(f"{law} in single iterations, sd {sd:.2f}", size, sd=sd, law=law, single=True)
    for roles in (2, 4, 8):
        yield Mix(f"{roles} roles", size, roles)
    yield Mix("8 roles, sd 0.10", size, 8, 0.10)
    yield Mix("5 % missing", size, missing=0.05)
    yield Mix("split: half of the ranks 30 % longer", size, split=0.3)
    yield Mix("fault at 70 % of the ranks", size, most=True)
    for few in (4, 8, 32):
        yield Mix(f"{few} ranks", few)
        yield Mix(f"{few} ranks, sd 0.10", few, sd=0.10)


def table(kinds: Iterable[Mix], windows: int, until: float) -> bool:
    """Print false findings and recall by kind of job, and the other rules on some of the same windows."""
    rivals = rules()
    print("| job | healthy patterns | false per million | recall (best) | of 1.25 times (best) | without a reference |")
    print("|---|---|---|---|---|---|")
    kept: dict[str, Score] = {name: Score() for name in ("localizer", *rivals)}
    whole = Score()
    for mix in kinds:
        if time.monotonic() > until:
            print("time is over: the other kinds of jobs were not run")
            break
        _one(mix, windows, kept, whole, rivals)
    false = whole.false_patterns + whole.job
    print(f"\nAll: {false} false in {whole.patterns:,} healthy patterns, recall {whole.recall:.4f}")
    for example in whole.examples[:10]:
        print(f"- {example}")
    print("\n| rule, same windows | false per 1,000 healthy workers | false per million patterns | recall |")
    print("|---|---|---|---|")
    for name, score in kept.items():
        workers = 1000 * score.false_workers / max(score.workers, 1)
        print(f"| {name} | {workers:.2f} | {MILLION * score.false_ratio:,.0f} | {score.recall:.3f} |")
    return whole.false_ratio <= 1 / MILLION and whole.recall >= 0.99


def _one(mix: Mix, windows: int, kept: dict[str, Score], whole: Score, rivals: dict[str, Rule]) -> None:
    """Run one kind of job; every other window has a fault at the least that must be found, or 1.25 times that."""
    count = windows if mix.size >= 64 else windows * 2
    mine, sure, alone = Score(), Score(), Score()
    for seed in range(count):
        fault = (0.0, 8.0, 0.0, 10.0)[seed % 4]
        given = sample(mix, seed, fault)
        by_localizer(given, sure if fault == 10.0 else mine)
        if seed < 12:
            by_localizer(given, alone, reference=False)
        if seed < 4 and mix.size >= 64:
            by_localizer(given, kept["localizer"])
            for name, rule in rivals.items():
                by_rule(rule, given, kept[name])
    both = (mine, sure)
    for name in ("patterns", "workers", "false_patterns", "false_workers", "job", "culprits", "found"):
        if mix.most and name in ("culprits", "found"):  # of each such window they are as many as of all the others
            continue
        setattr(whole, name, getattr(whole, name) + sum(getattr(score, name) for score in both))
    whole.examples += [f"{mix.name}: {text}" for score in both for text in score.examples]
    patterns = sum(score.patterns for score in both)
    false = sum(score.false_patterns + score.job for score in both) / patterns
    cells = (
        mix.name, f"{patterns:,}", f"{MILLION * false:,.1f}",
        f"{mine.recall:.3f} ({ideal(mix, 8.0)})", f"{sure.recall:.3f} ({ideal(mix, 10.0)})",
        f"{MILLION * alone.false_ratio:,.1f} / {alone.recall:.3f}",
    )  # fmt: skip
    print(f"| {' | '.join(cells)} |", flush=True)


def scaled(factor: float) -> Policy:
    """Return the policy with all that decides on an excess times ``factor``."""
    usual = Policy()
    return replace(
        usual,
        material_ratio=usual.material_ratio * factor,
        material_least_seconds=0.0,
        peers_spreads=usual.peers_spreads * factor,
        peers_factor=1 + (usual.peers_factor - 1) * factor,
        cpu_factor=1 + (usual.cpu_factor - 1) * factor,
        noise_levels=usual.noise_levels * factor,
        impact_least_ratio=usual.impact_least_ratio * factor,
    )


@functools.cache
def best_of(law: str) -> Best:
    """Return the best test under a law."""
    return Best(law)


def ideal(mix: Mix, level: float) -> str:
    """Return the recall that is possible at 1 false finding in 1,000,000, "" where it was not worked out: for normal
    noise of few ranks who knows it, beside who estimates it from all functions.
    """
    if mix.split or mix.most or mix.single:
        return ""
    if mix.size < 64:
        both = (math.inf, float(len(FUNCTIONS) * (mix.size - 2)))
        return ", ".join(f"{of_few(mix.size, level, before=True, freedom=freedom):.3f}" for freedom in both)
    return f"{of_job(best_of(mix.law), mix.sd, level):.3f}"


def curve(law: str, size: int, windows: int, until: float, sd: float = 0.06) -> None:
    """Print false findings and recall by size of the fault in the largest function, for thresholds times a factor;
    findings that are only info count.
    """
    levels = (2.0, 4.0, 6.0, 8.0)
    print(
        f"\n| {law}: thresholds (sd {sd}) | false per million | "
        + " | ".join(f"{level:.0f} sd" for level in levels)
        + " |"
    )
    print("|---|---|" + "---|" * len(levels))
    for factor in (1.5, 1.0, 0.75, 0.5, 0.25):
        if time.monotonic() > until:
            print("time is over")
            return
        scores = {level: Score() for level in levels}
        for seed in range(windows):
            level = levels[seed % len(levels)]
            by_localizer(exact(Mix("", size, sd=sd, law=law), seed, level), scores[level], scaled(factor), infos=True)
        false = sum(s.false_patterns + s.job for s in scores.values()) / sum(s.patterns for s in scores.values())
        least = max(false, 1 / MILLION) * len(FUNCTIONS)
        ideals = [best_of(law).found([level], least)[0] for level in levels]
        cells = [f"{scores[level].recall:.2f} ({most:.2f})" for level, most in zip(levels, ideals, strict=True)]
        print(f"| x {factor} | {MILLION * false:,.0f} | {' | '.join(cells)} |", flush=True)


def main() -> int:
    """Print both tables; 1 when the bars are not met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--windows", type=int, default=40, help="windows of each kind of job")
    parser.add_argument("--size", type=int, default=1024, help="workers of a job")
    parser.add_argument("--minutes", type=float, default=10.0, help="stop then, and say so")
    parser.add_argument("--only", default="", help="the kinds of jobs whose name holds this, and no curve")
    options = parser.parse_args()
    until = time.monotonic() + 60 * options.minutes
    met = table([mix for mix in mixes(options.size) if options.only in mix.name], options.windows, until)
    if not options.only:
        for law in LAWS:
            curve(law, options.size, options.windows, until + 60 * options.minutes)
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
