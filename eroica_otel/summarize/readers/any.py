"""Path of any trace that we know -> Trace: the format is found by content, never by the name."""

from __future__ import annotations

import os
from pathlib import Path

from eroica_otel.summarize.readers import kineto
from eroica_otel.traces import Trace

LIMIT_BYTES = 32 << 30
"""Largest trace, unpacked: a packed file may promise far more than a machine holds."""


def read_trace(path: str | os.PathLike[str], *, limit_bytes: int = LIMIT_BYTES) -> Trace:
    """Read a Kineto trace (JSON, also packed with gzip), an export of Nsight Systems (SQLite) or a capture folder.

    Args:
        limit_bytes: Most bytes of JSON that are unpacked.

    Raises:
        TraceError: the file cannot be read, is no trace, is cut short or too large; says where and what to do.
    """
    return kineto.read_whole(str(Path(path)), limit_bytes)
