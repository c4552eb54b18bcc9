"""``eroica-otel report``: takes a report.json, shows the verdict and writes its other forms."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from eroica_otel.errors import ConfigError, EroicaError
from eroica_otel.model import Report
from eroica_otel.publish.report import html, json, prompt, source, terminal
from eroica_otel.publish.report.verdict import grave

HELP = "read a verdict: print it, write it as a web page, or as a question for an AI assistant"

_DEFAULT = "build/demo/report.json"
_EPILOG = """\
examples:
  eroica-otel report                                    the verdict of the demo
  eroica-otel report llm-7b.json --html llm-7b.html     a page to forward
  eroica-otel report llm-7b.json --prompt --source src  a question with lines of code from src

exit codes: 0 no finding, 1 finding, 2 the file or an option cannot be used, 3 failure
"""
_WIDEST = 120
_PRINTED = Path("-")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command to ``parser``."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.description = "Show the verdict that a report.json holds: who slows the training, where, why, what to do."
    parser.epilog = _EPILOG
    parser.add_argument("file", nargs="?", type=Path, default=Path(_DEFAULT), help=f"the report (default {_DEFAULT})")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write the verdict as one self-contained web page")
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="write the report again as JSON, checked; - prints it"
    )
    question_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Show and write what was asked for; return 1 when the report holds a finding above info, else 0.

    Raises:
        ConfigError: the report or a source folder cannot be used.
        EroicaError: a file cannot be written.
    """
    report = load(arguments.file)
    folders(arguments.source)
    deliver(arguments, report, lambda: _more(arguments))
    return 1 if grave(report) else 0


def question_options(parser: argparse._ActionsContainer) -> None:
    """Add the options of a question for an assistant."""
    parser.add_argument("--prompt", action="store_true", help="print a question for an AI assistant instead")
    parser.add_argument("--prompt-json", type=Path, metavar="FILE", help="write that question as JSON")
    parser.add_argument(
        "--source", type=Path, action="append", default=[], metavar="DIR",
        help="with a question: folder that holds the job's modules, to quote lines from; may be repeated",
    )  # fmt: skip


def deliver(arguments: argparse.Namespace, report: Report, more: Callable[[], list[str]]) -> None:
    """Write the files that were asked for, then show the verdict, with the lines of ``more`` below, or the question.

    A form whose file is ``-`` is printed, and takes the place of the verdict.

    Raises:
        EroicaError: a file cannot be written.
    """
    excerpts = source.excerpts(report, arguments.source)
    forms: tuple[tuple[Path | None, Callable[[], str]], ...] = (
        (arguments.html, lambda: html.render(report)),
        (arguments.json, lambda: json.render(report)),
        (arguments.prompt_json, lambda: prompt.render_json(report, excerpts)),
    )
    for path, render in forms:
        if path is not None and path != _PRINTED:
            write(path, render())
    printed = "".join(render() for path, render in forms if path == _PRINTED)
    if printed:
        show(printed)
    elif arguments.prompt:
        show(prompt.render(report, excerpts))
    else:
        width = min(shutil.get_terminal_size((100, 24)).columns, _WIDEST)
        show(terminal.render(report, width, colour(), more()))


def load(path: Path) -> Report:
    """Return the report in a file.

    Raises:
        ConfigError: the file is missing, unreadable or no report of this schema.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ConfigError(f"there is no report at {path}; give the path of a report.json") from None
    except (OSError, UnicodeError) as error:
        why = (isinstance(error, OSError) and error.strerror) or "it is not text"
        raise ConfigError(f"{path} cannot be read ({why}); give the path of a report.json") from error
    try:
        return json.parse(text)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}; give a report.json that eroica-otel wrote") from error


def folders(paths: list[Path]) -> None:
    """Raise ConfigError where a folder of ``--source`` is none."""
    for path in paths:
        if not path.is_dir():
            raise ConfigError(f"--source {path} is no folder; give the folder that holds the job's modules")


def _more(arguments: argparse.Namespace) -> list[str]:
    """Return where the other forms are: the page just written or beside the file, and how to ask an assistant."""
    page = arguments.html if arguments.html is not None else arguments.file.with_suffix(".html")
    asked = "" if arguments.file == Path(_DEFAULT) else f" {arguments.file}"
    more = [f"report: {page}"] if page.is_file() else []
    return [*more, f"prompt for an assistant: eroica-otel report{asked} --prompt"]


def write(path: Path, text: str) -> None:
    """Write a whole file or none: an older one stays until the new one is complete.

    Raises:
        EroicaError: the file cannot be written.
    """
    temporary = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    except OSError as error:
        if temporary is not None and os.path.exists(temporary):
            os.unlink(temporary)
        raise EroicaError(f"{path} cannot be written ({error.strerror}); give another place") from error


def _umask() -> int:
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


def show(text: str) -> None:
    """Print a text in whatever encoding the terminal has."""
    encoding = (sys.stdout and sys.stdout.encoding) or "utf-8"
    print(text.encode(encoding, "replace").decode(encoding), end="")


def colour() -> bool:
    """Return whether standard output is a terminal that wants colours."""
    return (
        sys.stdout is not None
        and sys.stdout.isatty()
        and "NO_COLOR" not in os.environ
        and os.environ.get("TERM") != "dumb"
    )
