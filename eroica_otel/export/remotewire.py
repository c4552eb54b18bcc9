"""Series -> the body of a Prometheus remote write request (version 1): protobuf in a snappy block. Pure.

Both formats are written out here: a request needs four kinds of protobuf fields, and a snappy block may consist of
literals alone. Message: WriteRequest{timeseries = 1}, TimeSeries{labels = 1, samples = 2}, Label{name = 1, value = 2},
Sample{value = 1 (fixed64), timestamp = 2 (varint, ms)}. https://prometheus.io/docs/specs/prw/remote_write_spec/ and
https://github.com/google/snappy/blob/main/format_description.txt
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence

Labels = tuple[tuple[str, str], ...]
"""Name and value of each label, ``__name__`` among them, sorted by name; none is empty."""

STALE_BITS = 0x7FF0000000000002
"""The NaN that ends a series; kept as bits, because a float of Python need not keep which NaN it is."""
_PIECE = 1 << 16
_SHORT = 60


def labels(name: str, given: Iterable[tuple[str, str]]) -> Labels:
    """Return the labels of a series; an empty value is no label, as in a scrape."""
    return tuple(sorted({"__name__": name, **{key: value for key, value in given if value}}.items()))


def value_bits(value: float) -> int:
    """Return the bits of a float64."""
    bits: int = struct.unpack("<Q", struct.pack("<d", value))[0]
    return bits


def request(
    series: Iterable[tuple[Labels, int]],
    timestamp_millis: int,
    rows: Iterable[tuple[Labels, Sequence[int]]] = (),
) -> bytes:
    """Return the compressed body: one sample, given as the bits of its float64, for each of ``series``.

    Of ``rows`` the first sample has that time too, and each further one is a millisecond later.
    """
    singles = ((names, (bits,)) for names, bits in series)
    return compressed(b"".join(_series(names, bits, timestamp_millis) for names, bits in (*singles, *rows)))


def _series(names: Labels, bits: Sequence[int], timestamp_millis: int) -> bytes:
    one = b"".join(_field(1, _field(1, key.encode()) + _field(2, value.encode())) for key, value in names)
    samples = b"".join(
        _field(2, b"\x09" + struct.pack("<Q", value) + b"\x10" + _varint(timestamp_millis + at))
        for at, value in enumerate(bits)
    )
    return _field(1, one + samples)


def compressed(data: bytes) -> bytes:
    """Return ``data`` as a snappy block of literals."""
    parts = [_varint(len(data))]
    for start in range(0, len(data), _PIECE):
        piece = data[start : start + _PIECE]
        last = len(piece) - 1
        tag = bytes([last << 2]) if last < _SHORT else bytes([61 << 2]) + struct.pack("<H", last)
        parts += [tag, piece]
    return b"".join(parts)


def _field(number: int, data: bytes) -> bytes:
    return bytes([number << 3 | 2]) + _varint(len(data)) + data


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)
