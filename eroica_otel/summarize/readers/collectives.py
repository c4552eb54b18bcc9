"""Arguments of a collective's trace event -> process group and bytes of this worker's input."""

from __future__ import annotations

import msgspec

_ITEM_BYTES = {
    "byte": 1, "char": 1, "bool": 1, "uint8": 1, "int8": 1, "float8_e4m3fn": 1, "float8_e5m2": 1,
    "short": 2, "half": 2, "bfloat16": 2, "float16": 2, "int16": 2,
    "int": 4, "float": 4, "int32": 4, "float32": 4,
    "long": 8, "double": 8, "int64": 8, "float64": 8, "complexfloat": 8, "complexdouble": 16,
}  # fmt: skip


class Arguments(msgspec.Struct, gc=False):
    """The keys that torch writes on kernels and on record_param_comms, where it writes any."""

    group: str | None = msgspec.field(name="Process Group Name", default=None)
    items: int | None = msgspec.field(name="In msg nelems", default=None)
    type: str | None = msgspec.field(name="dtype", default=None)


class _Group(msgspec.Struct):
    pg_name: str = ""


class _Distributed(msgspec.Struct):
    pg_config: list[_Group] = []


def group_and_bytes(arguments: Arguments) -> tuple[str | None, int | None]:
    """Return (process group, bytes), None for what the trace does not tell."""
    size = _ITEM_BYTES.get((arguments.type or "").lower().removeprefix("c10::"))
    return arguments.group, None if size is None or arguments.items is None else arguments.items * size


def single_group(distributed_info: bytes) -> str:
    """Return the name of the job's only process group; "" where there are several, or none is told.

    gloo's events carry no arguments, but with one group there is no doubt which one they belong to.
    """
    if not distributed_info:
        return ""
    try:
        groups = msgspec.json.decode(distributed_info, type=_Distributed).pg_config
    except msgspec.DecodeError:
        return ""
    return groups[0].pg_name if len(groups) == 1 else ""
