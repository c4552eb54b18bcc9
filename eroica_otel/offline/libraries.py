"""Frames whose place a trace tells only in part -> where they lie in the installation on this machine.

torch's profiler takes the folders of the import path off: ``torch/nn/modules/module.py`` is left of a library's file,
and as little of a fork in a checkout. What can be looked up in an installed library is no secret of the training's;
everything else stays as the trace tells it. Nothing is imported.
"""

from __future__ import annotations

import importlib.util
import re
from functools import lru_cache
from pathlib import Path

from eroica_otel.export.public import LIBRARIES
from eroica_otel.kinds import Frame

_MOST_BYTES = 2_000_000
_SHORTENED = re.compile(r"\w+(?:/\w+)+\.py")
_DEFINED = re.compile(r"^\s*(?:async\s+def|def|class)\s+(\w+)", re.MULTILINE)


def placed(frame: Frame) -> Frame:
    """Return the frame with its whole path where this machine has that file of a library, and it defines the function.

    That the path is one of an installation is for the caller to see: a library may be installed from a checkout.
    """
    top = frame.file.partition("/")[0]
    if top not in LIBRARIES or not _SHORTENED.fullmatch(frame.file):
        return frame
    path = _folder(top) / frame.file
    return frame._replace(file=str(path)) if set(frame.qualname.split(".")) <= _names(path) else frame


@lru_cache(maxsize=256)
def _folder(package: str) -> Path:
    """Return the folder that holds an installed package; one that holds nothing where there is none."""
    try:
        found = importlib.util.find_spec(package)
    except (ImportError, ValueError, AttributeError):  # of a package that is broken, or half imported
        found = None
    return Path(found.origin).parent.parent if found is not None and found.origin else Path("/nonexistent")


@lru_cache(maxsize=1024)
def _names(path: Path) -> frozenset[str]:
    """Return the functions and classes that a file defines; none where it cannot be read."""
    try:
        if path.stat().st_size > _MOST_BYTES:
            return frozenset()
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return frozenset()
    return frozenset({"<module>", "<lambda>", "<locals>", *_DEFINED.findall(text)})
