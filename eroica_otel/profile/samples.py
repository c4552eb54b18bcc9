"""A captured window as files in a private folder: written by the trainer, read by the helper. numpy only.

trace.json    Kineto's own file (absent in mode stacks)
arrays.npz    the arrays of model.Capture, by field name
loader-N.jsonl  one for each process N of the DataLoader, written by itself (profile/loaders.py)
meta.json     everything else; renamed into place last, so that it says "complete"
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from eroica_otel.errors import TraceError
from eroica_otel.model import Capture, Identity, Window
from eroica_otel.profile import loaderfiles

TRACE, ARRAYS, META = "trace.json", "arrays.npz", "meta.json"
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
        TraceError: a file is missing, cut short or of another version.
    """
    try:
        meta: dict[str, Any] = json.loads((folder / META).read_text())
        with np.load(folder / ARRAYS) as arrays:
            columns = {name: arrays[name] for name in ARRAY_FIELDS}
        meta["window"] = Window(**meta["window"])
        meta["identity"] = Identity(**meta["identity"])
        meta["realtime_offset_ns"] = tuple(meta["realtime_offset_ns"])
        meta["frames"] = tuple((m, q, f, int(line)) for m, q, f, line in meta["frames"])
        meta["stacks"] = tuple(tuple(stack) for stack in meta["stacks"])
        meta["progress"] = {group: (int(put), done) for group, (put, done) in meta["progress"].items()}
        return Capture(**meta, **columns, loaders=loaderfiles.read(folder))
    except (OSError, EOFError, ValueError, KeyError, TypeError, BadZipFile) as error:
        raise TraceError(f"{folder} holds no complete capture: {error}") from error
