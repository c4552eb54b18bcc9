"""The configuration file of the localizer: options, or lines that say what is wrong."""

from __future__ import annotations

from pathlib import Path

from bench.fuzz.check import check_error, hold
from bench.fuzz.target import Target
from eroica_otel.commands.config import options_of_localize
from eroica_otel.commands.configfile import read
from eroica_otel.errors import ConfigError

FILE = "localize.toml"
_WHOLE = b"""\
prometheus = "http://127.0.0.1:9090"
prometheus-interval = 7
prometheus-header = ["X-Scope-OrgID: a"]
once = true

[thresholds]
material_ratio = 0.08

[patience]
hang_seconds = 90

[[job]]
training_job = "llm-*"
critical_ratio = 0.3
"""
_OPTIONS = options_of_localize()


def target() -> Target:
    """Return the reader of the file."""
    words = (*(option.name for option in _OPTIONS), "[[job]]", "[job]", "1979-05-27", "nan", "{}", "[]")
    return Target(run, [_WHOLE, b"", b"listen = 1"], words)


def run(data: bytes) -> None:
    """Read a file, and look at a job's thresholds."""
    Path(FILE).write_bytes(data)
    try:
        found = read(FILE, _OPTIONS)
    except ConfigError as error:
        check_error(error, FILE)
        return
    for line in found.problems:
        hold(line.isprintable() and len(line) <= 400, f"a problem is no short line: {line[:40]!r}")
    found.policies.of("team", "llm-7b").thresholds()
