"""A load for one GPU that tells when each of its iterations ended, and what sampling did to their time.

Takes a Python with a CUDA build of torch; gives a running load and a line of figures. An iteration multiplies large
matrices (the GPU is the bound) and then very many small ones (starting kernels through the driver is the bound): a
driver that is held up by questions would show in either.
"""

from __future__ import annotations

import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

PROGRAM = """
import time, torch
a = torch.rand(8192, 8192, device="cuda", dtype=torch.float16)
b = torch.rand(64, 64, device="cuda", dtype=torch.float16)
until = time.monotonic() + {seconds}
while time.monotonic() < until:
    for _ in range(10):
        a @ a
    for _ in range(1000):
        b @ b
    torch.cuda.synchronize()
    print(time.monotonic(), flush=True)
"""
START_SECONDS = 30.0
"""Within which torch and CUDA have started."""


@dataclass(slots=True)
class Load:
    """A load, or none.

    Attributes:
        process: What runs; None for none.
        said: The file with a line for each iteration.
        stretches: (what was sampled then, begin, end) of each measurement, monotonic seconds.
    """

    process: subprocess.Popen[bytes] | None = None
    said: Path = Path("/dev/null")
    stretches: list[tuple[str, float, float]] = field(default_factory=list)

    @property
    def runs(self) -> bool:
        """Whether it runs."""
        return self.process is not None and self.process.poll() is None

    @contextmanager
    def stretch(self, what: str) -> Iterator[None]:
        """Note that ``what`` is sampled in the meantime."""
        begin = time.monotonic()
        yield
        self.stretches.append((what, begin, time.monotonic()))

    def report(self) -> str:
        """Return a line with the iteration time of each kind of stretch, against the first kind."""
        return compared(iterations([float(line) for line in self.said.read_text().split()], self.stretches))


@contextmanager
def running(python: str, seconds: float) -> Iterator[Load]:
    """Run the load for at most so long; without a ``python`` there is none."""
    if not python:
        yield Load()
        return
    with tempfile.TemporaryDirectory() as folder:
        said = Path(folder) / "said"
        with said.open("wb") as out, subprocess.Popen(
            [python, "-c", PROGRAM.format(seconds=seconds + START_SECONDS)], stdout=out
        ) as process:  # fmt: skip
            try:
                end = time.monotonic() + START_SECONDS
                while process.poll() is None and not said.stat().st_size and time.monotonic() < end:
                    time.sleep(0.1)
                yield Load(process, said)
            finally:
                process.kill()


def iterations(ends: Sequence[float], stretches: Sequence[tuple[str, float, float]]) -> dict[str, list[float]]:
    """Return the seconds of the iterations that lie wholly in stretches of each kind."""
    found: dict[str, list[float]] = {what: [] for what, _, _ in stretches}
    for what, begin, end in stretches:
        inside = [each for each in ends if begin <= each <= end]
        found[what] += [after - before for before, after in pairwise(inside)]
    return found


def compared(found: Mapping[str, Sequence[float]]) -> str:
    """Return medians, against that of the first kind, and the spread of that (half the range of its middle half)."""
    medians = {what: statistics.median(seconds) for what, seconds in found.items() if len(seconds) > 1}
    if not medians or len(medians) < len(found):
        return "iteration time: not measured, as there was no load"
    base, first = next(iter(medians.items()))
    low, _, high = statistics.quantiles(found[base], n=4)
    rest = ", ".join(f"{what} {median / first - 1:+.2%}" for what, median in medians.items() if what != base)
    return f"iteration time: {base} {first * 1e3:.2f} ms (+-{(high - low) / 2 / first:.2%}); {rest}"
