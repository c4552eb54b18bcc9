"""What must hold of a reader's answer, and of the error in its place; a Violation says what did not."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from eroica_otel.errors import EroicaError, TraceError
from eroica_otel.export.points import window_points
from eroica_otel.model import WorkerWindow

LONGEST_MESSAGE = 700
_REMEDY = re.compile(
    r"\b(copy|export|give|raise the limit|unpack|profile again|name one|leave it out|end it|send|take|trying again"
    r"|set|correct|does --match fit|is the version|restrict|look after|come from another program|start another"
    r"|too old)\b"
)
"""What a person is told to do, or where to look."""


class Violation(AssertionError):
    """A property that does not hold."""


def hold(right: bool, what: str) -> None:
    """Raise Violation where something is not right."""
    if not right:
        raise Violation(what)


def check_error(error: EroicaError, name: str = "") -> None:
    """Check that an error is one short line that names the file and says what to do."""
    text = str(error)
    hold(len(text) <= LONGEST_MESSAGE, "the message is too long")
    hold("\n" not in text and text.isprintable(), "the message is not one line")
    hold(name in text, "the message does not name the file")
    hold(_REMEDY.search(text) is not None, f"the message gives no remedy: {re.sub(r'[0-9]+', 'N', text)[:80]}")
    msgspec.json.encode(text)


@contextmanager
def refused(name: str) -> Iterator[None]:
    """Let a TraceError pass that is as it should be."""
    try:
        yield
    except TraceError as error:
        check_error(error, name)


def check_window(window: WorkerWindow) -> None:
    """Check that shares are shares, that they sum to 1, and that the window can leave the process."""
    hold(math.isclose(sum(window.kinds.values()), 1.0, abs_tol=1e-6), "the kinds do not sum to 1")
    for pattern in window.patterns:
        hold(0.0 < pattern.beta <= 1.0 + 1e-9, "a beta outside (0, 1]")
        for ratio in (pattern.mu, *pattern.peaks.values()):
            hold(ratio is None or 0.0 <= ratio <= 1.0 + 1e-9, "a use outside [0, 1]")
        hold(pattern.sigma is None or 0.0 <= pattern.sigma < math.inf, "a deviation below 0")
    points = window_points(window)
    hold(all(type(point.value) is float for point in points), "a value that is no float")
    msgspec.json.encode(points)
