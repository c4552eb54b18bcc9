"""All rows of the table, in the order of the page, and the few that run in ``make test``."""

from __future__ import annotations

from bench.faults.case import Case
from bench.faults.table import cpu, inputs, network, python, quiet, still, unseen, work

CASES: tuple[Case, ...] = (
    *python.CASES,
    *inputs.CASES,
    *work.CASES,
    *cpu.CASES,
    *network.CASES,
    *still.CASES,
    *quiet.CASES,
    *unseen.CASES,
)
FEW: tuple[str, ...] = ("python", "input", "quota", "link", "batch", "gc-one", "left-out", "clean-1")
"""One of each kind of verdict and evidence."""
