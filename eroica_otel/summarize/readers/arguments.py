"""What we read of an event's arguments, whatever torch of whatever year wrote them."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

SENDS, RECEIVES = "send", "recv"
"""Collectives, by torch's name for them, that have a peer."""
_ITEM_BYTES = {
    "byte": 1, "char": 1, "bool": 1, "uint8": 1, "int8": 1, "float8_e4m3fn": 1, "float8_e5m2": 1,
    "float8_e4m3fnuz": 1, "float8_e5m2fnuz": 1,
    "short": 2, "half": 2, "bfloat16": 2, "float16": 2, "int16": 2, "uint16": 2,
    "int": 4, "float": 4, "int32": 4, "uint32": 4, "float32": 4,
    "long": 8, "double": 8, "int64": 8, "uint64": 8, "float64": 8, "complexfloat": 8, "complexdouble": 16,
}  # fmt: skip


def _is_rank(text: str) -> bool:
    """Return whether a text is a rank; one of thousands of digits would not even be a number to Python."""
    return text.isdecimal() and len(text) < 10


class Arguments(msgspec.Struct, gc=False):
    """The keys that matter, on kernels, record_param_comms, Python functions and (2021) operators."""

    group: str | None = msgspec.field(name="Process Group Name", default=None)
    items: int | None = msgspec.field(name="In msg nelems", default=None)
    type: str | None = msgspec.field(name="dtype", default=None)
    collective: str | None = msgspec.field(name="Collective name", default=None)
    ranks: str | list[int] | None = msgspec.field(name="Process Group Ranks", default=None)
    sender: int | str | None = msgspec.field(name="Src Rank", default=None)
    receiver: int | str | None = msgspec.field(name="Dst Rank", default=None)
    external: int | None = msgspec.field(name="External id", default=None)
    external_2021: int | None = msgspec.field(name="external id", default=None)
    python: int | None = msgspec.field(name="Python id", default=None)
    parent: int | None = msgspec.field(name="Python parent id", default=None)
    stack: str | None = msgspec.field(name="Call stack", default=None)

    def bytes(self) -> int | None:
        """Return the bytes of this worker's input, None where they are not told."""
        size = _ITEM_BYTES.get((self.type or "").lower().removeprefix("c10::"))
        return None if size is None or self.items is None else self.items * size

    def peer(self) -> int | None:
        """Return the rank that a send goes to or a receive comes from, None where it is not told."""
        rank = {SENDS: self.receiver, RECEIVES: self.sender}.get(self.collective or "")
        return int(rank) if rank is not None and _is_rank(str(rank)) else None

    def members(self) -> tuple[int, ...]:
        """Return the ranks of the process group; () where they are not told, or not all of them."""
        parts = self.ranks.strip("[] ").split(",") if isinstance(self.ranks, str) else self.ranks or ()
        numbers = [str(part).strip() for part in parts]
        return tuple(map(int, numbers)) if all(map(_is_rank, numbers)) else ()

    def link(self) -> int | None:
        """Return the id that joins a kernel to the operator that launched it."""
        return self.external if self.external is not None else self.external_2021


_DECODER = msgspec.json.Decoder(Arguments)
_MANY = msgspec.json.Decoder(list[Arguments])


def decode(text: msgspec.Raw) -> Arguments:
    """Return the arguments; all None where there are none, or of other types than torch writes."""
    try:
        return _DECODER.decode(text) if bytes(text) else Arguments()
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return Arguments()


def decode_all(texts: Iterable[msgspec.Raw]) -> list[Arguments]:
    """Return the arguments of many events, each as ``decode`` gives them, by one call where none is odd."""
    known = list(map(bytes, texts))
    try:
        return _MANY.decode(b"".join((b"[", b",".join([text or b"{}" for text in known]), b"]")))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return [decode(msgspec.Raw(text)) for text in known]
