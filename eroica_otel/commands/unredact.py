"""``eroica-otel unredact``: puts names back into a verdict, an alert or any text with tokens of EROICA_REDACT."""

from __future__ import annotations

import argparse
import html
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from eroica_otel.config import WorkerConfig
from eroica_otel.errors import ConfigError, EroicaError
from eroica_otel.export.codenames import names_in
from eroica_otel.export.redact import TOKEN, token
from eroica_otel.export.secret import KEY_FILE, NAMES_FILE, read_key, read_names

HELP = "put the names back into a verdict, an alert or any text that holds tokens of EROICA_REDACT"

_EPILOG = """\
Where the names come from, in this order:
  the file that the workers of this machine write (redacted-names.jsonl in EROICA_DIR), and others that --names gives
  the training's source code, with --source and the key of the job

examples:
  eroica-otel unredact report.json > clear.json
  eroica-otel unredact --text '~3f9a1c0b72e4 (~77aa01b2c3d4:104)'
  eroica-otel unredact report.json --source src --key-file job.key

exit codes: 0 every token has its name, 2 wrong usage, 3 some are unknown, or a failure
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _EPILOG
    what = parser.add_mutually_exclusive_group()
    what.add_argument("file", nargs="?", type=Path, help="text, JSON or HTML with tokens; default: standard input")
    what.add_argument("--text", help="the text itself")
    parser.add_argument("--dir", default="", help="folder of the workers (default: EROICA_DIR, as for the training)")
    parser.add_argument(
        "--names", type=Path, action="append", default=[], metavar="FILE", help="another machine's redacted-names.jsonl"
    )
    parser.add_argument(
        "--source", type=Path, action="append", default=[], metavar="DIR", help="folder with the training's source code"
    )
    parser.add_argument(
        "--key-file", type=Path, metavar="FILE", help="with --source: the key (default: EROICA_REDACT_KEY_FILE)"
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the text with its names.

    Raises:
        ConfigError: a file, folder or key cannot be used.
        EroicaError: a token is not known.
    """
    text = arguments.text if arguments.text is not None else _read(arguments.file)
    names = _known(arguments)
    print(restored(text, names), end="" if text.endswith("\n") else "\n")
    unknown = sorted(set(TOKEN.findall(text)) - names.keys())
    if unknown:
        raise EroicaError(
            f"{len(unknown)} tokens have no name here ({', '.join(unknown[:3])}): give the names of the machine "
            "they come from with --names, or the training's code and key with --source and --key-file"
        )
    return 0


def restored(text: str, names: Mapping[str, str]) -> str:
    """Return ``text`` with the name of each token that has one, escaped as JSON or HTML wants it."""
    escape = _escape(text)
    return TOKEN.sub(lambda found: escape(names[found[0]]) if found[0] in names else found[0], text)


def _escape(text: str) -> Callable[[str], str]:
    if re.match(r"\s*<(?:!doctype|html)", text, re.IGNORECASE):
        return html.escape
    try:
        json.loads(text)
    except ValueError:
        return str
    return lambda name: json.dumps(name)[1:-1]


def _known(arguments: argparse.Namespace) -> dict[str, str]:
    config = WorkerConfig.from_env(os.environ, **({"directory": arguments.dir} if arguments.dir else {}))
    folder = Path(config.directory)
    for path in arguments.names:
        if not path.is_file():
            raise ConfigError(f"--names {path} is no file; give a {NAMES_FILE} that workers wrote")
    names = {key: name for path in (*arguments.names, folder / NAMES_FILE) for key, name in read_names(path)}
    if arguments.source:
        key_file = arguments.key_file or Path(config.redact_key_file or folder / KEY_FILE)
        names = _from_source(arguments.source, read_key(key_file)) | names
    elif arguments.key_file is not None:
        raise ConfigError("--key-file finds no names alone: give the folder of the training's code with --source")
    return names


def _from_source(folders: Iterable[Path], key: bytes) -> dict[str, str]:
    found: dict[str, str] = {}
    for folder in folders:
        if not folder.is_dir():
            raise ConfigError(f"--source {folder} is no folder; give the one that holds the training's code")
        found |= {token(key, name): name for name in set(names_in(folder.resolve()))}
    return found


def _read(path: Path | None) -> str:
    try:
        return sys.stdin.read() if path is None else path.read_text(encoding="utf-8")
    except (OSError, UnicodeError) as error:
        raise ConfigError(f"{path or 'the input'} cannot be read as text ({error})") from error
