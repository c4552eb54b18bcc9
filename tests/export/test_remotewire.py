"""The body of a remote write request: read back by protobuf itself and by the rules of the snappy format."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eroica_otel.export.remotewire import STALE_BITS, compressed, labels, request, value_bits
from remote_write import decompressed, series


@given(st.binary(max_size=300) | st.integers(0, 200_000).map(bytes))
def test_what_is_compressed_is_got_back(data: bytes) -> None:
    assert decompressed(compressed(data)) == data


@pytest.mark.parametrize("size", [0, 1, 59, 60, 61, 65_535, 65_536, 65_537, 131_072])
def test_pieces_are_cut_where_the_format_changes(size: int) -> None:
    data = bytes(index % 251 for index in range(size))
    assert decompressed(compressed(data)) == data


def test_labels_are_sorted_and_an_empty_value_is_none() -> None:
    made = labels("up", [("team", ""), ("rank", "3"), ("Zone", "a")])
    assert made == (("Zone", "a"), ("__name__", "up"), ("rank", "3"))


def test_a_request_holds_every_series_with_its_sample() -> None:
    long = "x" * 1000
    one, two = labels("a_total", [("rank", "0")]), labels("b", [("stack", long)])
    body = request([(one, value_bits(1.5)), (two, STALE_BITS)], 1_764_430_000_123)
    assert series(body) == [
        (dict(one), value_bits(1.5), 1_764_430_000_123),
        ({"__name__": "b", "stack": long}, 0x7FF0000000000002, 1_764_430_000_123),
    ]


@given(st.floats(allow_nan=False))
def test_values_are_the_bits_of_their_float(value: float) -> None:
    assert struct.unpack("<d", struct.pack("<Q", value_bits(value)))[0] == value
