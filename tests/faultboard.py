"""Modules of the fault board, which are on no path; rows of its table and lines of its ledger."""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]


def board(name: str) -> ModuleType:
    """Return bench.faults.NAME."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT))
        return importlib.import_module(f"bench.faults.{name}")


def faults(name: str) -> ModuleType:
    """Return bench.faults.faults.NAME."""
    return board(f"faults.{name}")


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def case(name: str = "input", **fields: Any) -> Any:
    """Return a row: rank 1 of 2 x 2 has late input, unless ``fields`` say otherwise."""
    usual: dict[str, Any] = {
        "klass": "input",
        "workload": "ddp",
        "what": "batches come {size} late",
        "fault": lambda board, undo, drawn: None,
        "where": "one rank",
        "verdict": "worker",
        "causes": frozenset({"slow_input"}),
        "size": 70.0,
        "unit": "ms",
    }
    return board("case").Case(name, **(usual | fields))


def run_line(row: Any, seed: int | None = None, /, **fields: Any) -> dict[str, Any]:
    """Return the line of a run that was right, unless ``fields`` say otherwise."""
    usual = {
        "kind": "run", "case": row.name, "seed": row.seeds()[0] if seed is None else seed,
        "row": board("ledger").row_digest(row), "klass": row.klass, "workload": row.workload, "round": 1,
        "drawn": {"ranks": [1], "size": 66.0, "delay_iterations": 3},
        "expected": {"verdict": row.verdict, "causes": sorted(row.causes), "function": row.function},
        "effect": {"clean_seconds": 0.1, "faulty_seconds": 0.17, "noise_seconds": 0.01, "stood_still": False},
        "measurable": True, "error": "", "right": True, "worker": True, "cause": True, "healthy": [],
        "named": "rank 1: slow_input", "void": False, "outside": 0.01, "window_seconds": row.window_seconds,
        "seconds": {"detection": 10.0, "verdict": 20.0, "firing": 24.0},
        "iteration_seconds": {"before": 0.101, "faulty": 0.17, "window": 0.18, "after": 0.17},
        "blocked_seconds": 0.3, "overhead_ratio": 0.01, "took_seconds": 100, "when": "2026-11-30T10:00:00Z",
        "commit": "abc1234", "cores": 2, "torch": "2.13.0",
    }  # fmt: skip
    return usual | fields
