"""The table of frames: which innermost frames read from storage. The rest of it is tested in test_kinds.py."""

from __future__ import annotations

import pytest

from eroica_otel.frames import Frame, is_storage


@pytest.mark.parametrize(
    ("module", "qualname", "expected"),
    [
        ("pathlib", "Path.read_bytes", True),
        ("pathlib._local", "Path.read_text", True),
        ("torch.serialization", "load", True),
        ("numpy.lib._npyio_impl", "load", True),
        ("pyarrow.parquet.core", "read_table", True),
        ("fsspec.implementations.local", "LocalFileSystem._open", True),
        ("zipfile", "ZipExtFile.read", True),
        ("pathlib", "Path.exists", False),
        ("torch.serialization", "save", False),
        ("numpy.core.fromnumeric", "sum", False),
        ("PIL.Image", "Image.resize", False),
        ("pathlib2", "Path.read_bytes", False),
        ("train", "load", False),
    ],
)
def test_what_reads_from_storage(module: str, qualname: str, expected: bool) -> None:
    assert is_storage(Frame(module, qualname, module, 1)) is expected
