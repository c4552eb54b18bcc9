"""Numbers, ranks and places as people read them: takes fields of a report, gives short plain text. Pure.

A value that is not known is shown as "unknown", never as 0.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence

from eroica_otel.model import Finding

UNKNOWN = "unknown"
NO_BREAK = "\u00a0"
_BEFORE_UNIT = re.compile(r"(?<=\d) (?=(?:ms|s|%)(?!\w))")
_RUN = 4
"""From this many consecutive ranks on, a run is written as "0 to 5"."""


def duration(seconds: float | None) -> str:
    """Return a length of time with its unit: "0.4 ms", "46 ms", "5.2 s"."""
    if seconds is None or not math.isfinite(seconds):
        return UNKNOWN
    size = abs(seconds)
    if size >= 0.9995:
        return f"{seconds:.3g} s" if size < 2 else f"{seconds:.1f} s" if size < 99.95 else f"{seconds:.0f} s"
    if size >= 0.00995:
        return f"{seconds * 1000:.0f} ms"
    if size == 0:
        return "0 ms"
    return f"{seconds * 1000:.1f} ms" if size >= 0.00005 else "under 0.1 ms"


def percent(ratio: float | None) -> str:
    """Return a ratio as a percentage: "22 %", "1.8 %"."""
    if ratio is None or not math.isfinite(ratio):
        return UNKNOWN
    value = ratio * 100
    return f"{value:.0f} %" if abs(value) >= 9.95 or value == 0 else f"{value:.1f} %"


def signed(text: str) -> str:
    """Return the text of a number with a plus sign where it has none."""
    return text if text.startswith(("-", "0 ", "under ")) or text == UNKNOWN else f"+{text}"


def plural(count: int, noun: str) -> str:
    """Return "1 worker" or "4 workers"."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def listed(items: Sequence[str], last: str = "and") -> str:
    """Return "a", "a and b" or "a, b and c"."""
    if len(items) < 2:
        return "".join(items)
    return f"{', '.join(items[:-1])} {last} {items[-1]}"


def visible(text: str) -> str:
    """Return the text on one line: characters that would move a cursor or hide text appear as escapes."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def glued(text: str) -> str:
    """Return the text with no-break spaces between numbers and their units."""
    return _BEFORE_UNIT.sub(NO_BREAK, text)


def numbers(ranks: Iterable[int], limit: int = 8) -> str:
    """Return ranks as "0, 1, 3" with long runs as "4 to 9"; after ``limit`` parts the rest is counted."""
    parts: list[tuple[str, int]] = []
    for low, high in _runs(sorted(set(ranks))):
        if high - low + 1 >= _RUN:
            parts.append((f"{low} to {high}", high - low + 1))
        else:
            parts += [(str(rank), 1) for rank in range(low, high + 1)]
    shown = ", ".join(text for text, _ in parts[:limit])
    rest = sum(count for _, count in parts[limit:])
    return f"{shown} and {rest:,} more" if rest else shown


def ranks_text(ranks: Sequence[int], limit: int = 8) -> str:
    """Return "rank 2" or "ranks 0, 1, 3"; "" without any."""
    if not ranks:
        return ""
    return f"{'rank' if len(set(ranks)) == 1 else 'ranks'} {numbers(ranks, limit)}"


def capital(text: str) -> str:
    """Return the text with its first letter in upper case, the rest as it is."""
    return text[:1].upper() + text[1:]


def sentence(text: str) -> str:
    """Return the text on one line, with a full stop where it has none."""
    text = visible(text).strip()
    return text if text.endswith((".", "!", "?")) else f"{text}."


def place(finding: Finding) -> str:
    """Return who is meant: "rank 2 on node-c", "node node-c (ranks 8 to 15)", "link a to b", "all workers"."""
    ranks = ranks_text(finding.ranks)
    if finding.scope == "job" or finding.verdict == "job":
        return "all workers"
    if finding.link is not None and not ranks:
        return f"link {visible(finding.link[0])} to {visible(finding.link[1])}"
    if finding.scope == "node" and finding.hosts:
        return _with_ranks(_hosts(finding.hosts, "node"), ranks)
    if finding.scope == "role":
        roles = [visible(role) for role in dict.fromkeys(finding.roles) if role]
        return _with_ranks(f"role {listed(roles)}", ranks) if roles else f"the role of {ranks}"
    if not ranks:
        return _hosts(finding.hosts, "node") or "an unsettled worker"
    return f"{ranks} on {_hosts(finding.hosts)}" if any(finding.hosts) else ranks


def location(finding: Finding) -> str:
    """Return the function with the module and line it starts at, where the stack tells: "augment (train:41)"."""
    function = visible(finding.function)
    if not finding.stack:
        return function
    module, _, line = split_frame(finding.stack[-1])
    if not module or not line or "(" in function:
        return function
    return f"{function} ({frame_place(module, line)})"


def split_frame(frame: str) -> tuple[str, str, int]:
    """Return (module, qualified name, first line) of "module:qualname:firstline"; ("", frame, 0) when it is not one."""
    parts = frame.rsplit(":", 2)
    if len(parts) != 3 or not parts[2].isdecimal() or len(parts[2]) > 9:
        return "", frame, 0
    return parts[0], parts[1], int(parts[2])


def frame_text(frame: str) -> str:
    """Return one frame for people: "augment (train:41)"."""
    module, name, line = split_frame(frame)
    return f"{visible(name)} ({frame_place(module, line)})" if module else visible(frame)


def frame_place(module: str, line: int) -> str:
    """Return where a frame's function begins, for people; line 0 stands for one that nobody knows."""
    if module == "__main__":
        return f"line {line} of the script" if line else "the script"
    return f"{visible(module)}:{line}" if line else visible(module)


def _with_ranks(text: str, ranks: str) -> str:
    return f"{text} ({ranks})" if ranks else text


def _hosts(hosts: Sequence[str], noun: str = "") -> str:
    distinct = [visible(host) for host in dict.fromkeys(hosts) if host]
    if len(distinct) > 3:
        return f"{len(distinct)} nodes"
    text = listed(distinct)
    if not noun or not distinct:
        return text
    return f"{noun if len(distinct) == 1 else noun + 's'} {text}"


def _runs(ranks: Sequence[int]) -> list[tuple[int, int]]:
    runs: list[tuple[int, int]] = []
    for rank in ranks:
        if runs and rank == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], rank)
        else:
            runs.append((rank, rank))
    return runs
