"""Is the impact of a finding what the job would gain? Simulated trainings with a fault, once more without it.

For each case the same iterations are simulated twice with the same noise: with the fault, and with the culprit's work
replaced by the median of its peers. What the iteration gets shorter by is the truth; the localizer sees the faulty
window and a healthy one before it, and its impact must be within 20 % of that, or within 1 % of the iteration. The last
columns are of the same window without a reference, where nobody knows what had hidden behind waiting before.

    python -m bench.counterfactual [--iterations 24] [--repeat 3]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from bench.simulate.faults import Fault, inject, mend
from bench.simulate.jobs import Shape, program
from bench.simulate.observe import windows_of
from bench.simulate.run import Noise, run
from eroica_otel.localize.verdict import judge
from eroica_otel.model import Report, WorkerWindow

WITHIN, LEAST = 0.20, 0.01
"""Of the gain, and of the iteration."""
DEGRADED = 1.05
"""By as much the trigger fires."""


@dataclass(frozen=True, slots=True)
class Case:
    """One job with one fault; ``cut`` is the work of the pipeline's stages relative to each other."""

    name: str
    shape: Shape
    fault: Fault
    noise: float = 0.02
    cut: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Result:
    """Seconds per iteration; NaN where no finding names exactly the culprits.

    Attributes:
        gain: What the iteration gets shorter by when the culprit is as its peers.
        predicted: Impact of the largest finding that names the culprit.
        alone: The same without a reference.
        named: Findings above info.
    """

    iteration: float
    gain: float
    predicted: float
    alone: float
    named: str

    @property
    def error(self) -> float:
        """How far the prediction is off, as a share of the gain."""
        return self.predicted / self.gain - 1 if abs(self.gain) > LEAST * self.iteration else float("nan")

    @property
    def right(self) -> bool:
        """Whether the prediction is near enough."""
        return abs(self.predicted - self.gain) <= max(WITHIN * self.gain, LEAST * self.iteration)


def cases() -> Iterator[Case]:
    """Yield the table."""
    for size in (8, 32, 64, 256):
        shape = Shape(data=size)
        for kind, seconds in (("compute", 0.1), ("compute", 0.3), ("input", 0.15), ("python", 0.15), ("cpu", 0.15)):
            yield Case(f"data {size}", shape, Fault(kind, (3,), seconds))
    for size in (8, 64):
        yield Case(f"data {size}, noise 5 %", Shape(data=size), Fault("compute", (3,), 0.15), 0.05)
        yield Case(f"data {size}, central", Shape(data=size, central=True), Fault("input", (3,), 0.15))
        yield Case(f"data {size}, central, its root", Shape(data=size, central=True), Fault("compute", (0,), 0.15))
    yield Case("data 64, one node", Shape(data=64), Fault("compute", tuple(range(8, 16)), 0.15))
    for data in (2, 8, 32):
        for kind in ("compute", "input", "cpu"):
            yield Case(f"tensor 8 x data {data}", Shape(data=data, tensor=8), Fault(kind, (5,), 0.15))
    yield from _pipelines()
    for data, expert in ((16, 4), (64, 8), (256, 8)):
        for kind in ("compute", "python"):
            yield Case(f"expert {expert}, data {data}", Shape(data=data, expert=expert), Fault(kind, (9,), 0.15))
    yield from _links()


def _pipelines() -> Iterator[Case]:
    for pipeline, data in ((2, 4), (4, 8), (8, 8)):
        for kind in ("compute", "input"):
            at = data * (pipeline // 2) + 1
            shape = Shape(data=data, pipeline=pipeline)
            yield Case(f"pipeline {pipeline} x data {data}", shape, Fault(kind, (at,), 0.15))
    uneven = (1.0, 0.85, 1.0, 1.0)
    shape = Shape(data=8, pipeline=4)
    yield Case("pipeline 4 x data 8, a stage with 15 % less", shape, Fault("compute", (9,), 0.2), cut=uneven)
    yield Case("pipeline 4 x data 8, at its last stage", shape, Fault("compute", (25,), 0.2), cut=uneven)
    yield Case("tensor 8 x pipeline 4 x data 8", Shape(data=8, tensor=8, pipeline=4), Fault("compute", (70,), 0.15))


def _links() -> Iterator[Case]:
    node = tuple(range(8, 16))
    yield Case("data 64, link", Shape(data=64), Fault("link", node, 3.0))
    yield Case("data 8, a rank each, link", Shape(data=8, node=1), Fault("link", (3,), 3.0))
    yield Case("tensor 8 x data 8, link", Shape(data=8, tensor=8), Fault("link", node, 3.0))
    yield Case("expert 8, data 64, link", Shape(data=64, expert=8), Fault("link", node, 3.0))
    yield Case("pipeline 4 x data 16, link", Shape(data=16, pipeline=4), Fault("link", node, 6.0))


def play(case: Case, iterations: int = 24, seed: int = 1) -> Result:
    """Simulate one case and judge it."""
    healthy = program(case.shape, cut=np.array(case.cut) if case.cut else None)
    bad = inject(healthy, case.fault)
    noise = Noise(each=case.noise, lasting=case.noise / 2)

    before = run(healthy, iterations, noise, seed=2 * seed)
    now = run(bad, iterations, noise, seed=2 * seed + 1)
    mended = run(mend(bad, case.fault.ranks, case.shape.roles()), iterations, noise, seed=2 * seed + 1)
    slower = now.iteration > DEGRADED * before.iteration
    windows = windows_of(now, case.shape, [case.fault], reason="degraded" if slower else "periodic")
    reference = windows_of(before, case.shape, window_id=1, reason="reference")
    report = _judged(windows, reference)
    return Result(
        now.iteration, now.iteration - mended.iteration, _impact(report, case.fault.ranks),
        _impact(_judged(windows, ()), case.fault.ranks),
        "; ".join(f"{f.cause} {len(f.ranks)}" for f in report.findings if f.severity != "info"),
    )  # fmt: skip


def _judged(windows: Sequence[WorkerWindow], reference: Sequence[WorkerWindow]) -> Report:
    return judge(windows, reference, expected=len(windows))


def _impact(report: Report, ranks: tuple[int, ...]) -> float:
    found = [f.impact_seconds for f in report.findings if f.ranks == ranks]
    return max(found, default=float("nan"))


def main() -> int:
    """Print the table; 1 when a prediction is further off than it may be."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--iterations", type=int, default=24)
    parser.add_argument("--repeat", type=int, default=3, help="seeds; the row furthest off is shown")
    options = parser.parse_args()
    print("| job | fault | iteration | gain | impact | off | | off without a reference | findings |")
    print("|---|---|---|---|---|---|---|---|---|")
    off, count = [], 0
    for case in cases():
        results = [play(case, options.iterations, seed) for seed in range(1, options.repeat + 1)]
        worst = max(results, key=lambda result: (not result.right, abs(result.predicted - result.gain)))
        off += [not result.right for result in results]
        count += len(results)
        print(_row(case, worst), flush=True)
    print(f"\n{count - sum(off)} of {count} within {WITHIN:.0%}, or {LEAST:.0%} of the iteration")
    return 1 if any(off) else 0


def _row(case: Case, result: Result) -> str:
    amount = f"x {case.fault.seconds:.0f}" if case.fault.kind == "link" else f"+ {1000 * case.fault.seconds:.0f} ms"
    milliseconds = [f"{1000 * value:.0f} ms" for value in (result.iteration, result.gain, result.predicted)]
    off = (f"{1000 * (one - result.gain):+.0f} ms" for one in (result.predicted, result.alone))
    cells = (case.name, f"{case.fault.kind} {amount}", *milliseconds, f"{result.error:+.0%}", *off, result.named)
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    sys.exit(main())
