"""An unpacked trace -> the parts of the file that hold its events, found without reading them: each of two processes
then reads only what it decodes."""

from __future__ import annotations

import os
from collections.abc import Iterator

from eroica_otel.summarize.readers.cut import LOOK_BYTES, last_cut


def ranges(file: int, begin: int, size: int) -> Iterator[tuple[int, int]]:
    """Yield (begin, end) of parts that likely end between two events, without the comma between them.

    Args:
        file: Descriptor of the file.
        begin: Where the events begin.
        size: Largest part.

    Raises:
        ValueError: there is no border between two events near the end of a part.
    """
    end = os.fstat(file).st_size
    while end - begin > size:
        look = max(begin, begin + size - LOOK_BYTES)
        place = last_cut(os.pread(file, begin + size - look, look))
        if not place:
            raise ValueError(f"no border between two events from byte {look} on")
        yield begin, look + place - 1
        begin = look + place
    yield begin, end


def read_range(file: int, begin: int, end: int) -> bytes:
    """Return the bytes of a part.

    Raises:
        ValueError: the file has become shorter.
        OSError: it cannot be read.
    """
    text = os.pread(file, end - begin, begin)
    if len(text) < end - begin:
        raise ValueError(f"the file ends after byte {begin + len(text)}")
    return text
