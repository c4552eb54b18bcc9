"""What the files of a captured window hold -> the fields of a Capture, or why they cannot be those of one. No I/O.

Only the helper and the commands read captures, so that the trainer need not load what decodes them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from eroica_otel.model import Identity, Window
from eroica_otel.profile.loaderfiles import FAR, sendable

_LARGEST = 1 << 62
_Time = Annotated[int, msgspec.Meta(ge=-FAR, le=FAR)]
_Offset = Annotated[int, msgspec.Meta(ge=-FAR // 2, le=FAR)]
_Place = Annotated[int, msgspec.Meta(ge=0)]


class _Facts(msgspec.Struct, forbid_unknown_fields=True):
    """The fields of model.Capture that are no arrays, as JSON holds them."""

    window: Window
    identity: Identity
    start_ns: _Time
    end_ns: _Time
    realtime_offset_ns: tuple[_Offset, _Offset]
    training_thread: _Time
    trace: str
    frames: tuple[tuple[str, str, str, int], ...]
    stacks: tuple[tuple[_Place, ...], ...]
    nic_peak_bytes: float | None = None
    missing: dict[str, str] = {}
    blocked_seconds: float = 0.0
    throttled_ratio: float | None = None
    run_delay_ratio: float | None = None
    stopped_seconds: float = 0.0
    end_realtime_seconds: float = 0.0
    signature: str = ""
    gpu: bool = False
    progress: dict[str, tuple[int, int | None]] = {}
    silent_seconds: float | None = None


def facts(text: str) -> dict[str, Any]:
    """Return what meta.json says, by field of Capture.

    Raises:
        ValueError, RecursionError: it is no JSON, or no facts of a capture.
    """
    try:
        found = msgspec.convert(json.loads(sendable(text)), _Facts)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from error
    if found.end_ns <= found.start_ns:
        raise ValueError("it ends before it starts, or at once")
    if "\0" in found.trace:
        raise ValueError("the path of its trace is none")
    outside = any(place >= len(found.frames) for stack in found.stacks for place in stack)
    if outside:
        raise ValueError("a stack has a frame that is not there")
    return msgspec.structs.asdict(found)


def column(name: str, array: NDArray[Any]) -> NDArray[Any]:
    """Return an array as the column of a Capture.

    Raises:
        ValueError: it is of another type or shape, or holds what no clock and no counter shows.
    """
    pairs = name == "gc_ns"
    if array.size and (array.dtype.kind not in "iu" or int(array.max()) > _LARGEST or int(array.min()) < -_LARGEST):
        raise ValueError(f"{name} are no whole numbers that fit")
    if array.ndim != (2 if pairs else 1) or (pairs and array.shape[1] != 2):
        raise ValueError(f"{name} has the shape {list(array.shape)[:4]}")
    return array.astype(np.int32 if name == "stack_ids" else np.int64, copy=False)


def check(columns: Mapping[str, NDArray[Any]], stacks: int) -> None:
    """Check that columns fit together.

    Raises:
        ValueError: they do not.
    """
    for names in (("stack_ns", "stack_ids", "cpu_ns"), ("nic_ns", "nic_tx", "nic_rx")):
        if len({columns[name].size for name in names}) > 1:
            raise ValueError(f"{', '.join(names)} differ in length")
    for name in ("iteration_ns", "stack_ns", "nic_ns"):
        if (np.diff(columns[name]) < 0).any() or (np.abs(columns[name]) > FAR).any():
            raise ValueError(f"{name} are no times in order")
    ids = columns["stack_ids"]
    if ids.size and not 0 <= int(ids.min()) <= int(ids.max()) < stacks:
        raise ValueError("a sample has a stack that is not there")
