"""The stack of a training that cannot say it itself, seen from the helper: by py-spy, else as faulthandler wrote it.

Both know file, line and bare name of a function. Module, qualified name and first line, by which the same function is
known elsewhere, are looked up in its source; where there is none they stay bare.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import CodeType
from typing import Any

from eroica_otel.kinds import Frame

SPY_SECONDS = 10.0
_LARGEST_SOURCE = 4 << 20
_FRAME = re.compile(r'^  File "(.*)", line (\d+|\?\?\?) in (.*)$')

Raw = tuple[str, str, int]
"""File, bare name of the function, line that it is at."""


def parse_dump(text: str) -> list[Raw]:
    """Return the stack in faulthandler's output for one thread, outermost first; [] = none."""
    found: list[Raw] = []
    for line in text.splitlines():
        frame = _FRAME.match(line)
        if frame is not None:
            found.append((frame[1], frame[3], int(frame[2]) if frame[2].isdigit() else 0))
    return found[::-1]


def spy(pid: int, thread: int) -> list[Raw]:
    """Return the same from py-spy, which reads another process' memory; [] where it is not installed or not allowed."""
    program = shutil.which("py-spy") or shutil.which("py-spy", path=str(Path(sys.executable).parent))
    if program is None:
        return []
    try:
        done = subprocess.run(
            [program, "dump", "--nonblocking", "--json", "--pid", str(pid)],
            capture_output=True,
            timeout=SPY_SECONDS,
            check=True,
        )
        return parse_spy(json.loads(done.stdout), thread)
    except (OSError, ValueError, subprocess.SubprocessError):
        return []


def parse_spy(threads: Iterable[dict[str, Any]], thread: int) -> list[Raw]:
    """Return the stack of one thread in py-spy's JSON, outermost first; [] = none. Raises ValueError on other JSON."""
    try:
        for one in threads:
            if one["thread_id"] == thread:
                return [(f["filename"], str(f["name"]).rpartition(".")[2], int(f["line"])) for f in one["frames"]][::-1]
    except (KeyError, TypeError) as error:
        raise ValueError(f"another version of py-spy: {error}") from error
    return []


def resolve(stack: Iterable[Raw]) -> tuple[Frame, ...]:
    """Return the frames as the stack sampler names them, as far as their sources tell; reads each file once."""
    raw = list(stack)
    script = next((file for file, name, _ in raw if name == "<module>" and not _is_launcher(file)), "")
    known: dict[str, list[CodeType]] = {}
    frames = []
    for file, name, line in raw:
        if file not in known:
            known[file] = list(_functions(file))
        fitting = [code for code in known[file] if code.co_name == name and _covers(code, line)]
        code = max(fitting, key=lambda one: one.co_firstlineno, default=None)
        module = "__main__" if file == script else _module(file)
        if code is None:
            frames.append(Frame(module, name, file, line))
        else:
            frames.append(Frame(module, getattr(code, "co_qualname", name), file, code.co_firstlineno))
    return tuple(frames)


def _is_launcher(file: str) -> bool:
    return file.startswith("<frozen") or Path(file).name in ("runpy.py", "spawn.py")


def _functions(file: str) -> Iterator[CodeType]:
    """Yield the code of a source file and of each function in it; nothing where it cannot be read."""
    try:
        path = Path(file)
        if path.suffix != ".py" or path.stat().st_size > _LARGEST_SOURCE:
            return
        left = [compile(path.read_bytes(), file, "exec", dont_inherit=True)]
    except (OSError, SyntaxError, ValueError, MemoryError, RecursionError):
        return
    while left:
        code = left.pop()
        yield code
        left += [constant for constant in code.co_consts if isinstance(constant, CodeType)]


def _covers(code: CodeType, line: int) -> bool:
    return any(line == at for _, _, at in code.co_lines()) or not line


def _module(file: str) -> str:
    """Return the dotted name under which a file is imported, by the longest folder of sys.path that it lies in."""
    path = Path(file)
    folders = [Path(entry) for entry in sys.path if entry]
    inside = [folder for folder in folders if path.is_relative_to(folder)]
    if not inside:
        return path.stem
    parts = path.relative_to(max(inside, key=lambda folder: len(folder.parts))).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1:] == ("__init__",) else parts)
