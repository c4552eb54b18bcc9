"""A reader under test, and where all of them are found."""

from __future__ import annotations

import importlib
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from bench.fuzz import trees

GOLDEN = Path(__file__).parents[2] / "tests" / "golden"
NAMES = ("kineto", "nsight", "capture", "otlp", "prometheus", "journal", "flight", "config", "grafana")
Mutate = Callable[[bytes, random.Random, tuple[str, ...]], bytes]


@dataclass(frozen=True, slots=True)
class Target:
    """One reader.

    Attributes:
        run: Reads the input (files go to the current folder); raises what a finding is, and nothing else.
        seeds: Inputs to begin with.
        words: Keys and values of the format.
        mutate: Changes an input on the level of its values.
    """

    run: Callable[[bytes], None]
    seeds: list[bytes]
    words: tuple[str, ...] = ()
    mutate: Mutate = field(default=trees.mutated)


def load(name: str) -> Target:
    """Return the target of a name: bench/fuzz/NAME.py has a function ``target``."""
    found: Target = importlib.import_module(f"bench.fuzz.{name}").target()
    return found
