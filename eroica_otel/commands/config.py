"""``eroica-otel config check``: a configuration file in, what is wrong with it and what is in force out."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from eroica_otel.commands import localize
from eroica_otel.commands.chosen import chosen
from eroica_otel.commands.configfile import ConfigFile, read
from eroica_otel.commands.settings import Option, Setting, effective, unknown_variables
from eroica_otel.errors import ConfigError
from eroica_otel.joboptions import JobOptions
from eroica_otel.jobpolicy import THRESHOLDS, WAITS
from eroica_otel.query.client import shown_url

HELP = """\
Check a configuration file of eroica-otel localize before it is used:

  eroica-otel config check localize.toml

Prints every problem, each with what would be right; then each value that would be in force and where it comes from: the
environment (EROICA_LOCALIZE_*), the file, or the default. Opens no port and creates nothing."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("action", choices=["check"], help="check: say what is wrong, and what is in force")
    parser.add_argument("file", metavar="FILE", help="the configuration file, as for localize --config")
    parser.add_argument("--json", action="store_true", help="print problems and values as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Print what is wrong and what is in force; return 1 where something is wrong.

    Raises:
        ConfigError: the file cannot be read, or is no TOML.
    """
    options = options_of_localize()
    file = read(arguments.file, options)
    further, rows = _put_together(options, file)
    problems = [*file.problems, *further, *unknown_variables(options, os.environ)]
    print(_as_json(problems, rows) if arguments.json else _as_text(problems, rows))
    count = f"{len(problems)} problem{'s' if len(problems) > 1 else ''}"
    print(f"{arguments.file}: {count if problems else 'can be used'}", file=sys.stderr)
    return int(bool(problems))


def options_of_localize() -> tuple[Option, ...]:
    """Return the options of ``eroica-otel localize``."""
    parser = argparse.ArgumentParser()
    localize.configure(parser)
    found: tuple[Option, ...] = parser.get_default("table")
    return found


_Row = tuple[str, Any, str]


def _put_together(options: tuple[Option, ...], file: ConfigFile) -> tuple[list[str], list[_Row]]:
    """Return what is wrong only where all values meet, and everything in force; the rest of it where they cannot."""
    problems, job = [], None
    try:
        settings: Mapping[str, Setting] = effective(
            options, argparse.Namespace(), os.environ, file.options or {}, file.path
        )
    except ConfigError as error:
        return [str(error)], []
    try:
        job = chosen(options, argparse.Namespace(), os.environ, file).job
    except ConfigError as error:
        problems.append(str(error))
    return problems, _rows(options, settings, file, _found_out(job))


def _found_out(job: JobOptions | None) -> dict[str, Any]:
    """Return the options whose default depends on others, or on the machine."""
    if job is None:
        return {}
    found: dict[str, Any] = {"state": job.state}
    if job.listen is not None:
        found["listen"] = f"{job.listen.host}:{job.listen.port}"
    if job.backend is not None:
        found["prometheus_interval"] = job.backend.interval_seconds
    return found


def _rows(
    options: tuple[Option, ...], settings: Mapping[str, Setting], file: ConfigFile, found_out: Mapping[str, Any]
) -> list[_Row]:  # fmt: skip
    """Return key, value and origin of everything in force."""
    used = {dest: Setting(found_out.get(dest) or one.value, one.origin) for dest, one in settings.items()}
    rows: list[_Row] = [(option.name, *_shown(option, used[option.dest])) for option in options]
    for section, known, held in (
        ("thresholds", THRESHOLDS, file.policies.base),
        ("patience", WAITS, file.patience),
    ):
        origins = (file.path if name in file.given else "default" for name in known)
        rows += [
            (f"{section}.{name}", getattr(held, name), origin) for name, origin in zip(known, origins, strict=True)
        ]
    for rule in file.policies.rules:
        about = f"job[{rule.training_job!r}, team {rule.team!r}]"
        rows += [(f"{about}.{name}", value, file.path) for name, value in rule.thresholds.items()]
    return rows


def _shown(option: Option, setting: Setting) -> tuple[Any, str]:
    """Return value and origin without what is secret in it: passwords in addresses, values of headers."""
    value = setting.value
    if isinstance(value, list):
        value = [f"{item.partition(':')[0]}: ..." for item in value]
    elif isinstance(value, str) and option.metavar == "URL" and urlsplit(value).scheme:
        value = shown_url(value)
    return value, setting.origin


def _as_json(problems: list[str], rows: list[_Row]) -> str:
    values = {name: {"value": value, "from": origin} for name, value, origin in rows}
    return json.dumps({"problems": problems, "values": values}, indent=2)


def _as_text(problems: list[str], rows: list[_Row]) -> str:
    width = max((len(name) for name, _, _ in rows), default=0)
    lines = [f"problem: {text}" for text in problems]
    lines += [f"{name:<{width}}  {json.dumps(value, ensure_ascii=False)}  ({origin})" for name, value, origin in rows]
    return "\n".join(lines)
