"""The search in a process of its own: guided by coverage (atheris), by chance, or through given inputs."""

from __future__ import annotations

import importlib
import random
import resource
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.fuzz.findings import Findings

MEMORY_BYTES = 3 << 30
"""Most that the process may take: an allocation beyond it is a MemoryError, and a finding."""
LONGEST_INPUT = 1 << 14
ENDLESS_SECONDS = 120
"""One input that takes longer ends the search; on a busy machine a short one may take long."""


def guided(name: str, out: Path, seconds: int) -> None:
    """Search until the time is over; libFuzzer ends the process, and tells on stderr what was reached.

    Raises:
        ModuleNotFoundError: atheris is not installed.
    """
    atheris: Any = importlib.import_module("atheris")
    with atheris.instrument_imports(include=["eroica_otel"]):
        found = _findings(name, out)
    target, draw = found.target, random.Random(1)

    def mutate(data: bytes, longest: int, seed: int) -> bytes:
        if seed % 4 == 0:
            return bytes(atheris.Mutate(data, longest))
        draw.seed(seed)
        try:
            changed = target.mutate(data, draw, target.words)
        except (ValueError, RecursionError):  # not of the format any more
            return bytes(atheris.Mutate(data, longest))
        return changed if len(changed) <= longest else data

    corpus = out / "corpus"
    corpus.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(target.seeds):
        (corpus / f"seed-{number}").write_bytes(seed)
    options = {
        "max_total_time": seconds, "timeout": ENDLESS_SECONDS, "max_len": LONGEST_INPUT, "rss_limit_mb": 0,
        "len_control": 0, "artifact_prefix": f"{out}/", "print_final_stats": 1, "verbosity": 1,
    }  # fmt: skip
    arguments = ["fuzz", *(f"-{key}={value}" for key, value in options.items())]
    if target.words:
        (out / "words").write_text("".join(f'"{_escaped(word)}"\n' for word in target.words))
        arguments.append(f"-dict={out / 'words'}")
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    atheris.Setup([*arguments, str(corpus)], found.run, custom_mutator=mutate)
    atheris.Fuzz()


def blind(name: str, out: Path, runs: int) -> int:
    """Run the seeds and ``runs`` random changes of them; return how many findings there are."""
    found, draw = _findings(name, out), random.Random(0)
    for seed in found.target.seeds:
        found.run(seed)
    for _ in range(runs):
        found.run(found.target.mutate(draw.choice(found.target.seeds), draw, found.target.words))
    return len(found)


def replay(name: str, files: Sequence[Path]) -> None:
    """Run the target on files; what it raises is the caller's."""
    target = importlib.import_module("bench.fuzz.target").load(name)
    for file in files:
        target.run(file.read_bytes())


def _findings(name: str, out: Path) -> Findings:
    # Imported here: what is to be measured must be imported under atheris.
    findings, target = (importlib.import_module(f"bench.fuzz.{module}") for module in ("findings", "target"))
    found: Findings = findings.Findings(target.load(name), out)
    return found


def _escaped(word: str) -> str:
    return "".join(sign if sign.isalnum() else f"\\x{ord(sign):02x}" for sign in word if ord(sign) < 128)
