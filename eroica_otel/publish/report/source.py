"""Source lines of a stack frame: takes "module:qualname:firstline" and folders to look in, gives the lines or None.

The module is never imported, and nothing outside the given folders is read: links that lead out are refused.
"""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from eroica_otel.model import Report
from eroica_otel.publish.report.words import split_frame

MOST_LINES = 60
"""Longest excerpt; a longer function is cut."""
MOST_BYTES = 2_000_000
MOST_FRAMES = 5
"""Innermost frames of a stack whose source is looked up."""
MOST_SCRIPTS = 200
_WHOLE_FILE = "<module>"
_ANONYMOUS: Mapping[str, str] = MappingProxyType(
    {
        "<lambda>": "Lambda",
        "<listcomp>": "ListComp",
        "<setcomp>": "SetComp",
        "<dictcomp>": "DictComp",
        "<genexpr>": "GeneratorExp",
    }
)
"""Code objects without a name of their own -> the syntax that makes them."""


@dataclass(frozen=True, slots=True)
class Excerpt:
    """Lines of one function.

    Attributes:
        frame: The frame it belongs to.
        file: Path below the folder in which it was found.
        first_line: Number of the first line.
        lines: Without line ends.
        complete: False when the function is longer than what is shown.
    """

    frame: str
    file: str
    first_line: int
    lines: tuple[str, ...]
    complete: bool


def excerpts(report: Report, roots: Sequence[Path]) -> tuple[Excerpt, ...]:
    """Return the excerpts of the innermost frames of all findings, each once, innermost first."""
    frames = dict.fromkeys(frame for finding in report.findings for frame in reversed(finding.stack[-MOST_FRAMES:]))
    found = (excerpt(frame, roots) for frame in frames)
    return tuple(one for one in found if one is not None)


def excerpt(frame: str, roots: Sequence[Path]) -> Excerpt | None:
    """Return the lines of the function that a frame names; None when its file is not below ``roots`` or is another one.

    A file is another one than what ran when it does not define a function of that name at that line.
    """
    module, name, line = split_frame(frame)
    if not line:
        return None
    for path, shown in _candidates(module, roots):
        text = _read(path)
        size = _function_lines(text, name, line) if text is not None else 0
        if text is not None and size:
            lines = text.splitlines()[line - 1 : line - 1 + min(size, MOST_LINES)]
            return Excerpt(frame, shown, line, tuple(lines), size <= MOST_LINES)
    return None


def _candidates(module: str, roots: Iterable[Path]) -> Iterator[tuple[Path, str]]:
    """Yield (file, its path below the root) for a dotted module; only regular files that really lie below the root.

    The script has no module name ("__main__"): it may be any Python file that lies directly in a root.
    """
    parts = module.split(".")
    if not all(part.isidentifier() for part in parts):
        return
    for root in roots:
        top = root.resolve()
        relatives = [Path(*parts).with_suffix(".py"), Path(*parts, "__init__.py")]
        if module == "__main__":
            relatives += sorted(path.relative_to(top) for path in top.glob("*.py"))[:MOST_SCRIPTS]
        for relative in relatives:
            path = (top / relative).resolve()
            if path.is_relative_to(top) and path.is_file():
                yield path, relative.as_posix()


def _read(path: Path) -> str | None:
    """Return the text of a Python file in its declared encoding; None when it is too large or no text."""
    try:
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            return None
        encoding, _ = tokenize.detect_encoding(io.BytesIO(content).readline)
        return content.decode(encoding)
    except (OSError, SyntaxError, UnicodeError, LookupError):
        return None


def _function_lines(text: str, name: str, line: int) -> int:
    """Return the number of lines of the function that starts at ``line``, 0 when there is none of that name."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return 0
    last = name.rsplit(".", 1)[-1]
    if last == _WHOLE_FILE:
        return len(text.splitlines()) if line == 1 else 0
    for node in ast.walk(tree):
        if _starts(node, last, line):
            return int(getattr(node, "end_lineno", line)) - line + 1
    return 0


def _starts(node: ast.AST, name: str, line: int) -> bool:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        first = min((node.lineno, *(decorator.lineno for decorator in node.decorator_list)))
        return node.name == name and first == line
    return isinstance(node, ast.expr) and node.lineno == line and type(node).__name__ == _ANONYMOUS.get(name)
