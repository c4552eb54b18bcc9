"""``eroica-hardware``: the command line in, exit code out. Without a command it runs the agent.

Exit codes: 0 ended when told to (check: all that was asked for is there), 2 wrong usage, 3 failure, 130 interrupted.
"""

from __future__ import annotations

import argparse
import getpass
import logging
import os
import sys
import threading
from collections.abc import Sequence

from eroica_hardware import check, limits, passwords
from eroica_hardware.agent import Agent
from eroica_hardware.options import configure, resolve
from eroica_otel import __version__
from eroica_otel.errors import ConfigError, EroicaError
from eroica_otel.signalled import ended_by_signals
from eroica_otel.webserver import is_loopback

LOG = logging.getLogger(__name__)

HELP = """\
Sample GPUs, links and the node at up to 1 kHz for eroica-otel, and show them on /metrics.

  eroica-hardware check           what this machine and user can read, what not and why
  eroica-hardware                 run until SIGTERM or Ctrl-C
  eroica-hardware password NAME   make a line for --password-file

A training needs nothing but the shared folder: its workers find what is sampled there."""

CODES = "exit codes: 0 ended when told to, or all that was asked for is there; 2 wrong usage; 3 failure"
FAILURE, INTERRUPTED = 3, 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    arguments = _parser().parse_args(argv)
    try:
        return _run(arguments)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except (EroicaError, OSError) as error:
        print(f"eroica-hardware: {' '.join(str(error).split())}", file=sys.stderr)
        return error.exit_code if isinstance(error, EroicaError) else FAILURE
    except Exception:  # a crash would exit with 1, which means nothing here
        LOG.exception("eroica-hardware failed in an unforeseen way; please report what follows")
        return FAILURE


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="eroica-hardware",
        description=HELP,
        epilog=CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"eroica-hardware {__version__}")
    parser.add_argument("command", nargs="?", choices=("run", "check", "password"), default="run", help="see above")
    parser.add_argument("user", nargs="?", default="", help="of password: the name of the user")
    configure(parser)
    return parser


def _run(arguments: argparse.Namespace) -> int:
    if arguments.command == "password":
        return _password(arguments.user)
    if arguments.user:
        raise ConfigError(f"{arguments.user!r} is one word too many; eroica-hardware --help shows what there is")
    options = resolve(arguments, os.environ)
    limits.raise_open_files()
    if arguments.command == "check":
        found = check.rows(options)
        print("\n".join(check.lines(options, found)))
        return FAILURE if check.lacks(options, found) else 0
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(message)s")
    stop = threading.Event()
    with ended_by_signals(stop.set):
        agent = Agent(options)
        try:
            agent.start()
            _announce(agent)
            agent.run(stop)
        finally:
            agent.close()
    return 0


def _password(user: str) -> int:
    """Print a line for --password-file; the password is asked for, or read where the input is no terminal."""
    if not user:
        raise ConfigError("give the name of the user: eroica-hardware password NAME")
    text = getpass.getpass("password: ") if sys.stdin.isatty() else sys.stdin.readline().rstrip("\n")
    print(passwords.line(user, text))
    return 0


def _announce(agent: Agent) -> None:
    options, server = agent.options, agent.server
    shown = f"; series on {server.url}/metrics" if server is not None else ""
    print(f"sampling {', '.join(options.sources)} into {options.folder}{shown}", file=sys.stderr, flush=True)
    if server is not None and not is_loopback(server.address.host) and not options.password_file:
        hint = "--password-file and --tls-certificate protect it"
        print(f"{server.url} shows this node's hardware to everyone who can reach it; {hint}", file=sys.stderr)
