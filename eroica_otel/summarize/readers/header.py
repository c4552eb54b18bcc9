"""Keys around the events of a Kineto trace -> who the worker is, on what devices, in which process groups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

import msgspec

from eroica_otel.summarize.readers.decimals import LARGEST_NS
from eroica_otel.summarize.readers.decode import Document


@dataclass(frozen=True, slots=True)
class Header:
    """What a trace says of its worker; None, "" or empty where it does not, as in traces.Trace."""

    base_ns: int = 0
    rank: int | None = None
    world_size: int | None = None
    host: str = ""
    backend: str = ""
    devices: tuple[str, ...] = ()
    groups: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


class _Group(msgspec.Struct):
    pg_name: str = ""
    ranks: list[int] | None = None


class _Distributed(msgspec.Struct):
    rank: int | None = None
    world_size: int | None = None
    backend: str = ""
    pg_config: list[_Group] = []


class _Device(msgspec.Struct):
    name: str = ""


def header_of(document: Document) -> Header:
    """Return what the keys say; what is of another type than torch writes counts as not told."""
    distributed = _as(_Distributed, document.distributedInfo) or _Distributed()
    devices = _as(list[_Device], document.deviceProperties) or _as(list[_Device], document.computeProperties) or []
    return Header(
        base_ns=document.baseTimeNanoseconds if 0 <= document.baseTimeNanoseconds < LARGEST_NS else 0,
        rank=distributed.rank,
        world_size=distributed.world_size,
        host=document.host_name or document.hostname,
        backend=distributed.backend,
        devices=tuple(device.name for device in devices),
        groups={group.pg_name: tuple(group.ranks or ()) for group in distributed.pg_config},
    )


_Told = TypeVar("_Told")


def _as(type: type[_Told], text: msgspec.Raw) -> _Told | None:
    try:
        return msgspec.json.decode(text, type=type, strict=False) if bytes(text) else None
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
