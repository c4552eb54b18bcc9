"""Options of ``eroica-otel localize`` by where they come from: command line, environment, file, default, in this order.

The options of the parser are the table: each is a variable (EROICA_LOCALIZE_ and its name in capitals) and a key of the
file too, so that what is added there is known here.
"""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from eroica_otel.config import LOCALIZER_PREFIX, boolean
from eroica_otel.errors import ConfigError

TEXT, NUMBER, SWITCH, TEXTS = "a text", "a number", "true or false", "a list of texts"
_OF_THE_COMMAND_ALONE = ("help", "debug", "config")
_NUMBERS = ("SECONDS", "COUNT")
"""How the options that take numbers call them."""


@dataclass(frozen=True, slots=True)
class Option:
    """One option.

    Attributes:
        name: Long option without its dashes, and key in the file.
        dest: Its name in the parsed arguments.
        kind: TEXT, NUMBER, SWITCH or TEXTS.
        default: Value where nobody gives one.
        group: What the help screen groups it under.
        help: Its help.
        metavar: What its value is called, "" of a switch.
        parse: Its check of a text; None without one.
    """

    name: str
    dest: str
    kind: str
    default: Any
    group: str
    help: str
    metavar: str
    parse: Callable[[str], Any] | None = None

    @property
    def variable(self) -> str:
        """Name of its variable."""
        return LOCALIZER_PREFIX + self.dest.upper()


@dataclass(frozen=True, slots=True)
class Setting:
    """A value in force, and where it comes from."""

    value: Any
    origin: str


def table(parser: argparse.ArgumentParser) -> tuple[Option, ...]:
    """Return the options of a parser, and take their defaults out of it: what it then parses was given by hand."""
    found = []
    for group in parser._action_groups:  # argparse has no public way to list what it was told
        for action in group._group_actions:
            if not action.option_strings or action.dest in _OF_THE_COMMAND_ALONE:
                continue
            text = (action.help or "").replace("%(default)s", str(action.default))
            name = action.option_strings[-1].removeprefix("--")
            metavar = action.metavar if isinstance(action.metavar, str) else ""
            parse = action.type if callable(action.type) else None
            kind, title = _kind(action), group.title or ""
            found.append(Option(name, action.dest, kind, action.default, title, text, metavar, parse))
            action.default, action.help = argparse.SUPPRESS, text
    return tuple(found)


def _kind(action: argparse.Action) -> str:
    if action.nargs == 0:
        return SWITCH
    if isinstance(action.default, list):
        return TEXTS
    return NUMBER if action.metavar in _NUMBERS else TEXT


def effective(
    options: Iterable[Option],
    given: argparse.Namespace,
    environment: Mapping[str, str],
    file: Mapping[str, Any] = MappingProxyType({}),
    path: str = "",
) -> dict[str, Setting]:
    """Return every option by its dest with its value and origin; ``file`` is by dest and was checked.

    Raises:
        ConfigError: a variable holds what its option cannot be.
    """
    found = {}
    for option in options:
        if hasattr(given, option.dest):
            found[option.dest] = Setting(getattr(given, option.dest), f"--{option.name}")
        elif option.variable in environment:
            value = _of_variable(option, environment[option.variable])
            found[option.dest] = Setting(value, option.variable)
        elif option.dest in file:
            found[option.dest] = Setting(_checked(option, file[option.dest], path), path)
        else:
            found[option.dest] = Setting(option.default, "default")
    return found


def _of_variable(option: Option, text: str) -> Any:
    if option.kind == SWITCH:
        try:
            return boolean(text)
        except ValueError as error:
            raise ConfigError(f"{option.variable}={text!r} is not usable: give {error}") from None
    if option.kind == TEXTS:
        return [line for line in text.splitlines() if line.strip()]
    return _checked(option, text, option.variable)


def _checked(option: Option, value: Any, origin: str) -> Any:
    """Return a value as the command line would have brought it: numbers as the text that their check is for."""
    plain = str(value) if option.kind == NUMBER else value
    if option.parse is None:
        return plain
    try:
        return option.parse(plain)
    except (argparse.ArgumentTypeError, ValueError) as error:
        raise ConfigError(f"{origin}: {option.name}: {error}") from None


def unknown_variables(options: Iterable[Option], environment: Mapping[str, str]) -> Iterator[str]:
    """Yield a line for each variable of ours that is no option."""
    known = [option.variable for option in options] + [f"{LOCALIZER_PREFIX}CONFIG"]
    for name in sorted(environment):
        if name.startswith(LOCALIZER_PREFIX) and name not in known:
            yield f"{name} is no option of this version and does nothing{meant(name, known)}"


def meant(name: str, known: Iterable[str]) -> str:
    """Return "; did you mean X?" where one of the known names is near."""
    near = difflib.get_close_matches(name, list(known), n=1)
    return f"; did you mean {near[0]}?" if near else ""
