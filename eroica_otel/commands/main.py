"""Takes the command line, gives the exit code: finds the subcommand, imports it alone, and turns errors into one line.

A subcommand is a module of this package with ``HELP`` (text), ``configure(parser)`` and ``run(arguments) -> int``.
Exit codes of a verdict: 0 no finding, 1 finding, 2 wrong usage, 3 failure. Of all: 130 interrupted,
141 the reader of the output went away.
"""

from __future__ import annotations

import argparse
import difflib
import importlib
import logging
import os
import sys
import traceback
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import eroica_otel
from eroica_otel.errors import EroicaError


class Command(NamedTuple):
    """What a person wants of a subcommand, and what its exit codes mean."""

    wish: str
    codes: str


_JUDGES = "0 no finding, 1 finding, 2 wrong usage, 3 failure"

COMMANDS: Mapping[str, Command] = MappingProxyType(
    {
        "run": Command(
            "watch a training:      eroica-otel run -- python train.py", "those of the command; 2 wrong usage"
        ),
        "window": Command(
            "ask for a window:      eroica-otel window", "0 asked, 2 nobody to ask or wrong usage, 3 failure"
        ),
        "set": Command(
            "change its options:    eroica-otel set window_seconds=10",
            "0 done, 2 nobody or wrong usage, 3 not done by all",
        ),
        "disable": Command(
            "take it off:           eroica-otel disable", "0 done, 2 nobody or wrong usage, 3 not done by all"
        ),
        "localize": Command("find the slow worker:  eroica-otel localize", _JUDGES),
        "config": Command(
            "check its settings:    eroica-otel config check FILE", "0 usable, 1 problems, 2 wrong usage, 3 failure"
        ),
        "analyze": Command("read traces you have:  eroica-otel analyze PATH", _JUDGES),
        "patterns": Command("one worker's patterns: eroica-otel patterns FILE", "0 shown, 2 wrong usage, 3 failure"),
        "query": Command("what workers measured: eroica-otel query", "0 shown, 2 wrong usage, 3 failure"),
        "report": Command("read a verdict:        eroica-otel report", _JUDGES),
        "unredact": Command(
            "put names back:        eroica-otel unredact report.json",
            "0 every token has its name, 2 wrong usage, 3 some are unknown, or a failure",
        ),
        "grafana": Command(
            "set up dashboards:     eroica-otel grafana push",
            "0 done, 2 wrong usage, 3 refused, or a dashboard was left as it is",
        ),
        "demo": Command("see it work:           eroica-otel demo", "0 the right verdict, 2 wrong usage, 3 failure"),
    }
)
"""Subcommands by name, in the order of the help screen."""

USAGE, FAILURE, INTERRUPTED, BROKEN_PIPE = 2, 3, 130, 141


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; nothing is raised, whatever the command does."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        code = _until_exit(words)
        sys.stdout.flush()
    except KeyboardInterrupt:
        sys.stderr.write("\neroica-otel: interrupted\n")
        return INTERRUPTED
    except BrokenPipeError:
        _drop_output()
        return BROKEN_PIPE
    except (EroicaError, OSError) as error:
        return _complain(error, _wants_debug(words))
    except Exception:  # a crash would exit with 1, which means "finding"
        logging.getLogger(__name__).exception("eroica-otel failed in an unforeseen way; please report what follows")
        return FAILURE
    return code


def _until_exit(words: list[str]) -> int:
    """Run the command; what argparse says by SystemExit becomes a code, so that one place flushes the output."""
    split = next((index for index, word in enumerate(words) if not word.startswith("-")), len(words))
    try:
        return _dispatch(words[:split], words[split:])
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else USAGE if stop.code else 0


def _dispatch(options: list[str], rest: list[str]) -> int:
    """Parse the options before the command, then let the command parse the rest and run."""
    parser = _parser()
    parser.parse_args(options)
    if not rest:
        parser.print_help(sys.stderr)
        return USAGE
    name, *arguments = rest
    if name not in COMMANDS:
        parser.error(_unknown(name))
    command = importlib.import_module(f"eroica_otel.commands.{name}")
    subparser = argparse.ArgumentParser(
        prog=f"eroica-otel {name}",
        description=command.HELP,
        epilog=f"exit codes: {COMMANDS[name].codes}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _add_debug(subparser)
    command.configure(subparser)
    return int(command.run(subparser.parse_args(arguments)))


def _parser() -> argparse.ArgumentParser:
    wishes = "\n".join(f"  {command.wish}" for command in COMMANDS.values())
    parser = argparse.ArgumentParser(
        prog="eroica-otel",
        usage="eroica-otel [--version] [--debug] COMMAND ...",
        description=f"Names the worker, the function and the cause when a training job gets slow.\n\n{wishes}",
        epilog=f"eroica-otel COMMAND --help tells more of each.\nexit codes: {_JUDGES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        add_help=False,
    )
    # It stands in the last lines; the screen has no room for it twice.
    parser.add_argument("-h", "--help", action="help", help=argparse.SUPPRESS)
    parser.add_argument("--version", action="version", version=f"eroica-otel {eroica_otel.__version__}")
    _add_debug(parser)
    return parser


def _add_debug(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--debug", action="store_true", help="show where an error comes from")


def _unknown(name: str) -> str:
    near = difflib.get_close_matches(name, COMMANDS, n=1)
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(COMMANDS)}"
    return f"there is no command {name!r}; {hint}"


def _complain(error: EroicaError | OSError, debug: bool) -> int:
    """Print the error as one line, after its traceback where that was asked for."""
    if debug:
        traceback.print_exception(error)
    text = " ".join(str(error).split())
    print(f"eroica-otel: {text}", file=sys.stderr)
    return error.exit_code if isinstance(error, EroicaError) else FAILURE


def _wants_debug(words: list[str]) -> bool:
    """Tell whether --debug is ours: what follows ``--`` belongs to the program that run starts."""
    return "--debug" in words[: words.index("--") if "--" in words else len(words)]


def _drop_output() -> None:
    """Point stdout at nothing, or Python complains once more when it flushes at exit."""
    descriptor = os.open(os.devnull, os.O_WRONLY)
    os.dup2(descriptor, sys.stdout.fileno())
    os.close(descriptor)


if __name__ == "__main__":
    sys.exit(main())
