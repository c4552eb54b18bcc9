"""Folders of source code -> every name that a worker could have hidden. Runs and imports nothing of it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

MOST_BYTES = 2_000_000
"""Of one source file."""
_SCOPES: dict[type[ast.AST], str] = {
    ast.Lambda: "<lambda>",
    ast.ListComp: "<listcomp>",
    ast.SetComp: "<setcomp>",
    ast.DictComp: "<dictcomp>",
    ast.GeneratorExp: "<genexpr>",
}
_OPERATOR = re.compile(r"[A-Za-z_]\w*::\w+(?:\.\w+)?")


def names_in(folder: Path) -> Iterator[str]:
    """Yield names of modules, qualified and bare names of functions, and operators of the Python files in ``folder``.

    A file counts under every dotted name that a place on the import path above it could give it. What is no Python is
    passed over.
    """
    for path in sorted(folder.rglob("*.py")):
        yield from _modules(path.relative_to(folder.parent))
        try:
            if path.stat().st_size <= MOST_BYTES:
                yield from _functions(ast.parse(path.read_bytes()), "", in_function=False)
        except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
            continue


def _modules(path: Path) -> Iterator[str]:
    parts: Sequence[str] = path.with_suffix("").parts
    if parts[-1] == "__init__":
        parts = parts[:-1]
    for first in range(len(parts)):
        yield ".".join(parts[first:])


def _functions(node: ast.AST, outer: str, in_function: bool) -> Iterator[str]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Constant) and isinstance(child.value, str) and _OPERATOR.fullmatch(child.value):
            yield child.value
        name = _scope(child)
        if not name:
            yield from _functions(child, outer, in_function)
            continue
        qualified = f"{outer}{'.<locals>' if in_function else ''}.{name}" if outer else name
        yield from (name, qualified)
        yield from _functions(child, qualified, not isinstance(child, ast.ClassDef))


def _scope(node: ast.AST) -> str:
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return node.name
    return _SCOPES.get(type(node), "")
