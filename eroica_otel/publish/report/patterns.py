"""The patterns of one worker as a table for a terminal: takes a WorkerWindow, gives lines of plain text. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from eroica_otel.model import KINDS, Pattern, WorkerWindow
from eroica_otel.publish.report.words import duration, listed, percent, plural, visible

NARROWEST = 60
_HEADS = ("beta", "an iteration", "mu", "sigma", "kind", "family", "function")
_NUMBERS = _HEADS[:4]
_UNKNOWN = "-"
_Row = tuple[str, ...]


def render(window: WorkerWindow, width: int = 100, notes: Sequence[str] = ()) -> str:
    """Return the patterns, largest first, below the time by kind; the function's name is cut where it does not fit.

    Args:
        window: One worker's window.
        width: Columns of the terminal; below 60 it is taken as 60.
        notes: What a reader should know beside it, one line each.
    """
    heads, rows = _without_unknown(_HEADS, [_row(pattern, window) for pattern in window.patterns])
    lines = [_facts(window), "", *_kinds(window), "", *_table(heads, rows, max(width, NARROWEST))]
    if window.dropped:
        lines.append(f"{plural(window.dropped, 'more function')}, each below {percent(window.floor)}")
    for pattern in window.patterns:
        lines += _transfers(pattern)
    lines += [f"note: {visible(note)}" for note in notes]
    return "\n".join(lines) + "\n"


def _facts(window: WorkerWindow) -> str:
    parts = [f"rank {window.identity.rank}"]
    if window.identity.host:
        parts.append(f"on {visible(window.identity.host)}")
    each = f", {duration(window.seconds / window.iterations)} each" if window.iterations > 1 else ""
    parts.append(f"{plural(window.iterations, 'iteration')}{each}, {duration(window.seconds)} in all")
    parts.append(plural(window.events, "event"))
    return "   ".join(parts)


def _kinds(window: WorkerWindow) -> Iterator[str]:
    """Yield where the window went; kinds and idle time sum to it."""
    for kind in (*KINDS, "idle"):
        share = window.kinds.get(kind, math.nan)
        if share > 0:
            bar = "#" * round(40 * share)
            yield f"{kind:<14}{percent(share):>7}{_each(share, window):>10}  {bar}".rstrip()


def _each(share: float, window: WorkerWindow) -> str:
    return _short(share * window.seconds / max(window.iterations, 1))


def _short(seconds: float) -> str:
    """Return a length of time as in a report, but below a millisecond in microseconds: kernels are that short."""
    if not 0 < seconds < 0.0009995:
        return duration(seconds)
    return f"{seconds * 1e6:.0f} \u00b5s" if seconds >= 1e-6 else "under 1 \u00b5s"


def _row(pattern: Pattern, window: WorkerWindow) -> tuple[str, ...]:
    return (
        percent(pattern.beta),
        _each(pattern.beta, window),
        _number(pattern.mu),
        _number(pattern.sigma),
        pattern.kind,
        pattern.family,
        visible(pattern.function),
    )


def _number(value: float | None) -> str:
    return _UNKNOWN if value is None or not math.isfinite(value) else f"{value:.2f}"


def _without_unknown(heads: _Row, rows: Sequence[_Row]) -> tuple[_Row, list[_Row]]:
    """Leave out the columns of which nothing is known, as of mu and sigma in a trace alone."""
    kept = [at for at in range(len(heads)) if not rows or any(row[at] != _UNKNOWN for row in rows)]
    return tuple(heads[at] for at in kept), [tuple(row[at] for at in kept) for row in rows]


def _table(heads: _Row, rows: Sequence[_Row], width: int) -> Iterator[str]:
    if not rows:
        yield "no function was charged with any time"
        return
    sizes = [max(len(row[at]) for row in (heads, *rows)) for at in range(len(heads) - 1)]
    for row in (heads, *rows):
        cells = [
            text.rjust(size) if head in _NUMBERS else text.ljust(size)
            for head, text, size in zip(heads[:-1], row[:-1], sizes, strict=True)
        ]
        start = "  ".join(cells) + "  "
        yield (start + _cut(row[-1], width - len(start))).rstrip()


def _cut(text: str, room: int) -> str:
    return text if len(text) <= room else text[: max(room - 3, 8)] + "..."


def _transfers(pattern: Pattern) -> Iterator[str]:
    """Yield calls, bytes and the fastest call of a collective by process group."""
    for one in pattern.collectives:
        parts = [plural(one.calls, "call")]
        if one.bytes is not None:
            parts.append(f"{one.bytes:,} bytes")
        if math.isfinite(one.fastest_seconds):
            parts.append(f"fastest {_short(one.fastest_seconds)}")
        group = f" in group {visible(one.group)}" if one.group else ""
        yield f"{visible(pattern.function)}{group}: {listed(parts)}"
