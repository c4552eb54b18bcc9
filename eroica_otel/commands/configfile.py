"""The configuration file of ``eroica-otel localize``: TOML in, values in force and everything wrong with it out."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from eroica_otel.commands.settings import NUMBER, SWITCH, TEXT, TEXTS, Option, meant
from eroica_otel.errors import ConfigError, one_line
from eroica_otel.jobpolicy import THRESHOLDS, WAITS, JobRule, Policies, bounds, contradictions
from eroica_otel.jobstate import Patience
from eroica_otel.localize.policy import Policy

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

MOST_BYTES = 2**20
_TABLES = ("thresholds", "patience", "job")
_PATTERNS = ("training_job", "team")


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """What a file says.

    Attributes:
        path: Where it is; "" without one.
        options: Usable values by the dest of their option.
        policies: Thresholds by job.
        patience: Waits.
        given: Names of the thresholds and waits that are the file's.
        problems: What is wrong, one line each; what is named there has its default above.
    """

    path: str = ""
    options: Mapping[str, Any] | None = None
    policies: Policies = Policies()  # noqa: RUF009 - frozen
    patience: Patience = Patience()  # noqa: RUF009 - frozen
    given: frozenset[str] = frozenset()
    problems: tuple[str, ...] = ()


def read(path: str, options: Iterable[Option]) -> ConfigFile:
    """Return what the file says about these options.

    Raises:
        ConfigError: it cannot be read, or it is no TOML.
    """
    return of(_parsed(path), path, tuple(options))


def of(raw: Mapping[str, Any], path: str, options: tuple[Option, ...]) -> ConfigFile:
    """Return what the tables of a file say."""
    problems: list[str] = []
    values = dict(_options(raw, options, problems))
    thresholds = _numbers(raw.get("thresholds", {}), "[thresholds]", THRESHOLDS, problems)
    rules = tuple(_rules(raw.get("job", []), problems))
    waits = _numbers(raw.get("patience", {}), "[patience]", WAITS, problems)
    policies, patience = Policies(replace(Policy(), **thresholds), rules), replace(Patience(), **waits)
    problems += _contradictions(policies, patience)
    return ConfigFile(path, values, policies, patience, frozenset((*thresholds, *waits)), tuple(problems))


def _parsed(path: str) -> dict[str, Any]:
    try:
        with Path(path).open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}; give a configuration file that can be read") from error
    if len(data) > MOST_BYTES:
        raise ConfigError(f"{path} has more than {MOST_BYTES} bytes; give a configuration file")
    try:
        parsed: dict[str, Any] = tomllib.loads(data.decode("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"{path} is no TOML: {one_line(str(error))}; correct it (docs/configuration.md)") from error
    return parsed


def _options(raw: Mapping[str, Any], options: tuple[Option, ...], problems: list[str]) -> Iterator[tuple[str, Any]]:
    by_name = {option.name: option for option in options}
    for key, value in raw.items():
        option = by_name.get(key)
        if key in _TABLES:
            continue
        if option is None:
            problems.append(f"{_shown(key)} is no option{meant(key, (*by_name, *_TABLES))}")
        elif not _is(option.kind, value):
            problems.append(f"{key} = {_shown(value)}: give {option.kind}{_example(option)}")
        else:
            yield option.dest, value


def _is(kind: str, value: Any) -> bool:
    if kind == TEXTS:
        return isinstance(value, list) and all(isinstance(item, str) for item in value)
    if kind == NUMBER:
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return isinstance(value, {TEXT: str, SWITCH: bool}[kind])


def _example(option: Option) -> str:
    text = {NUMBER: "60", SWITCH: "true", TEXT: f'"{option.metavar}"', TEXTS: f'["{option.metavar.strip(chr(39))}"]'}
    return f", for example {option.name} = {text[option.kind]}"


def _numbers(given: Any, where: str, known: tuple[str, ...], problems: list[str]) -> dict[str, float]:
    """Return the usable numbers of a table by name."""
    if not isinstance(given, dict):
        problems.append(f"{where} is no table; write {where} on a line of its own, and NAME = NUMBER below")
        return {}
    found = {}
    for name, value in given.items():
        wrong = _wrong(name, value, known)
        if wrong:
            problems.append(f"{where} {wrong}")
        else:
            found[name] = float(value)
    return found


def _wrong(name: str, value: Any, known: tuple[str, ...]) -> str:
    if name not in known:
        return f"{_shown(name)} is no name in it{meant(name, known)}"
    low, high = bounds(name)
    if not _is(NUMBER, value) or not low <= value <= high:
        return f"{name} = {_shown(value)}: give a number from {low:g} to {high:g}"
    return ""


def _rules(given: Any, problems: list[str]) -> Iterator[JobRule]:
    if not isinstance(given, list) or not all(isinstance(item, dict) for item in given):
        problems.append('job is no list of tables; write [[job]], below it training_job = "llm-*" and thresholds')
        return
    seen: set[tuple[str, str]] = set()
    for number, table in enumerate(given, 1):
        where = f"[[job]] {number}"
        patterns = {name: table.get(name, "*") for name in _PATTERNS}
        rest = {name: value for name, value in table.items() if name not in _PATTERNS}
        thresholds = _numbers(rest, where, THRESHOLDS, problems)
        if not all(isinstance(text, str) and text for text in patterns.values()):
            problems.append(f'{where}: training_job and team are patterns; give a text, for example "llm-*"')
        elif patterns.keys().isdisjoint(table):
            problems.append(f"{where} says for which jobs nowhere; give training_job or team, or use [thresholds]")
        elif tuple(patterns.values()) in seen:
            problems.append(f"{where} is about the same jobs as an earlier one; write both into one")
        else:
            seen.add((patterns["training_job"], patterns["team"]))
            yield JobRule(**patterns, thresholds=thresholds)


def _contradictions(policies: Policies, patience: Patience) -> Iterator[str]:
    base = policies.base.thresholds()
    general = [*contradictions(base)]
    yield from (f"[thresholds] {text}" for text in general)
    yield from (f"[patience] {text}" for text in contradictions({name: getattr(patience, name) for name in WAITS}))
    for rule in policies.rules:
        about = f"[[job]] training_job = {_shown(rule.training_job)}"
        own = contradictions({**base, **rule.thresholds})
        yield from (f"{about}: {text}" for text in own if text not in general)


def _shown(value: Any) -> str:
    return one_line(f'"{value}"' if isinstance(value, str) else repr(value), 80)
