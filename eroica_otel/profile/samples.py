"""A captured window as files in a private folder: written by the trainer, read by the helper. numpy only.

trace.json    Kineto's own file (absent in mode stacks)
arrays.npz    the arrays of model.Capture, by field name
loader-N.jsonl  one for each process N of the DataLoader, written by itself (profile/loaders.py)
meta.json     everything else; renamed into place last, so that it says "complete"
"""

from __future__ import annotations

import json
import os
import struct
import zlib
from dataclasses import asdict, fields
from pathlib import Path
from tokenize import TokenError
from typing import Any
from zipfile import BadZipFile

import numpy as np

from eroica_otel.errors import TraceError, one_line
from eroica_otel.model import Capture
from eroica_otel.profile import loaderfiles

TRACE, ARRAYS, META = "trace.json", "arrays.npz", "meta.json"
_DAMAGE = (
    OSError, EOFError, LookupError, TypeError, ValueError, AttributeError, ArithmeticError, MemoryError, RuntimeError,
    SyntaxError, TokenError, BadZipFile, struct.error, zlib.error,
)  # fmt: skip
"""What json, zipfile and numpy raise for files that are not as they were written."""
ARRAY_FIELDS = ("iteration_ns", "stack_ns", "stack_ids", "cpu_ns", "gc_ns", "nic_ns", "nic_tx", "nic_rx")


def write(folder: Path, capture: Capture) -> None:
    """Write all but the trace; raises OSError when the disk is full or the file too large."""
    with (folder / ARRAYS).open("wb") as file:
        np.savez(file, **{name: getattr(capture, name) for name in ARRAY_FIELDS})
    plain = {
        field.name: getattr(capture, field.name)
        for field in fields(capture)
        if field.name not in (*ARRAY_FIELDS, "window", "identity", "loaders")
    }
    plain |= {"window": asdict(capture.window), "identity": asdict(capture.identity), "missing": dict(capture.missing)}
    plain["progress"] = dict(capture.progress)
    unfinished = folder / (META + ".part")
    unfinished.write_text(json.dumps(plain))
    os.replace(unfinished, folder / META)


def read(folder: Path) -> Capture:
    """Read what ``write`` wrote.

    Raises:
        TraceError: a file is missing, cut short, damaged or of another version.
    """
    from eroica_otel.profile import checked  # the trainer, which writes only, need not load it

    try:
        plain = checked.facts((folder / META).read_text())
        with np.load(folder / ARRAYS) as arrays:
            if any(info.compress_type for info in arrays.zip.infolist()):
                raise ValueError("its arrays are packed, which may unpack to any size")
            columns: dict[str, Any] = {name: checked.column(name, arrays[name]) for name in ARRAY_FIELDS}
        checked.check(columns, len(plain["stacks"]))
        return Capture(**plain, **columns, loaders=loaderfiles.read(folder))
    except _DAMAGE as error:
        text = one_line(str(error), 200) or type(error).__name__
        raise TraceError(f"{folder} holds no complete capture: {text}; copy the folder again") from error
