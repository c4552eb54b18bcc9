"""``eroica-hardware check``: what this machine and this user can read, what not and why, in a table; nothing is left.

Takes options, gives lines of text and whether all that was asked for by name is there.
"""

from __future__ import annotations

import math
import os
import textwrap
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from eroica_hardware import catalog, place
from eroica_hardware.listener import LOCK
from eroica_hardware.options import Options
from eroica_otel.errors import ConfigError, one_line
from eroica_otel.hardware.ring import Layout, slots_for
from eroica_otel.hardware.source import Resource, Source

APART_SECONDS = 0.25
MOST_REASONS = 12
WIDTH = 110
LEAST_WIDE = 10


@dataclass(frozen=True, slots=True)
class Row:
    """What was found of one source.

    Attributes:
        source: Its name.
        resources: How many it has, and of how many a value came in two readings.
        devices: Whose they are.
        missing: What it cannot read, with the reason.
    """

    source: str
    resources: int
    known: int
    devices: tuple[str, ...]
    missing: Mapping[str, str]


def look(family: str, source: Source, sleep: Callable[[float], None] = time.sleep) -> Row:
    """Return what a source finds; it is read twice, as some values are differences."""
    source.look()
    known: set[int] = set()
    for pause in (APART_SECONDS, 0.0):
        known |= {place for place, value in enumerate(source.read()) if not math.isnan(value)}
        sleep(pause)
    devices = tuple(dict.fromkeys(resource.device for resource in source.resources if resource.device))
    return Row(family, len(source.resources), len(known), devices, dict(source.missing))


def rows(options: Options, make: Callable[[str], Source] | None = None) -> list[Row]:
    """Return what the chosen sources find."""
    wanted = catalog.Wanted(options.dcgm, options.nic_mbit)
    return [look(family, make(family) if make else catalog.CATALOG[family].make(wanted)) for family in options.sources]


def table(found: list[Row]) -> Iterator[str]:
    """Yield the lines of the table."""
    wide = max(LEAST_WIDE, *(len(row.source) + 2 for row in found))
    yield f"{'source':<{wide}}{'resources':>9}  {'with value':>10}  devices"
    for row in found:
        shown = ", ".join(row.devices) or ("the node" if row.resources else "-")
        yield _short(f"{row.source:<{wide}}{row.resources:>9}  {row.known:>10}  {shown}")
    if any(row.missing or not row.resources for row in found):
        yield ""
        yield "what cannot be read, and why:"
    for row in found:
        yield from _reasons(row, wide)


def _reasons(row: Row, wide: int) -> Iterator[str]:
    """Yield a line for each reason, with all that it is the reason for."""
    by_reason: dict[str, list[str]] = {}
    for what, reason in sorted(row.missing.items()):
        by_reason.setdefault(one_line(reason), []).append(one_line(what))
    if not row.resources:
        by_reason.setdefault(f"it needs {catalog.CATALOG[row.source].looks_for}", [row.source])
    for reason, things in list(by_reason.items())[:MOST_REASONS]:
        named = f": {_whose(row.devices, things)}" if things != [row.source] else ""
        yield from textwrap.wrap(
            f"{reason}{named}", WIDTH, initial_indent=f"  {row.source:<{wide}}", subsequent_indent=" " * 14
        )
    if len(by_reason) > MOST_REASONS:
        yield f"  {row.source:<{wide}}and {len(by_reason) - MOST_REASONS} more reasons"


def _whose(devices: tuple[str, ...], things: list[str]) -> str:
    """Return things such as "GPU-a power" by name, with the devices or their number behind."""
    by_name: dict[str, list[str]] = {}
    for thing in things:
        device = next((each for each in devices if thing.startswith(f"{each} ")), "")
        by_name.setdefault(thing.removeprefix(f"{device} "), []).extend([device] if device else [])
    by_devices: dict[tuple[str, ...], list[str]] = {}
    for name, owners in by_name.items():
        by_devices.setdefault(tuple(owners), []).append(name)
    return "; ".join(f"{', '.join(names)}{_of(owners)}" for owners, names in by_devices.items())


def _of(owners: tuple[str, ...]) -> str:
    if not owners:
        return ""
    return f" of {owners[0]}" if len(owners) == 1 else f" of {len(owners)} devices"


def _short(line: str) -> str:
    return line if len(line) <= WIDTH else line[: WIDTH - 3] + "..."


def folder(path: Path) -> str:
    """Return a line on the shared folder: usable, missing, or why it cannot be used."""
    if not path.exists():
        parent = os.access(path.parent, os.W_OK | os.X_OK)
        return f"{path}: missing; {'the agent makes it' if parent else f'this user cannot make it; {place.REMEDY}'}"
    try:
        file = place.prepare(path)
    except ConfigError as error:
        return str(error)
    try:
        taken = LOCK in os.listdir(file)
        space = os.fstatvfs(file)
    finally:
        os.close(file)
    free = space.f_bavail * space.f_frsize // (1 << 20)
    return f"{path}: can be written, {free} MiB free{', an agent has been here' if taken else ''}"


def lines(options: Options, found: list[Row]) -> Iterator[str]:
    """Yield all that the command prints."""
    yield from table(found)
    yield ""
    yield f"shared folder: {folder(options.folder)}"
    need = sum(ring_bytes(row) for row in found if row.resources)
    yield f"rings take {math.ceil(need / (1 << 20))} MiB in it; the label host is {options.host}"
    lacking = lacks(options, found)
    if lacking:
        yield f"asked for by --sources and not there, hence exit code 3: {', '.join(lacking)}"
    elif not all(row.resources for row in found):
        yield "a source that has nothing to read is no failure (exit code 0), unless it is asked for by --sources"


def ring_bytes(row: Row) -> int:
    """Return the size of the source's ring."""
    resources = (Resource("", "", "", math.nan, counter=False),) * row.resources
    return Layout(row.source, resources, slots_for(row.resources, catalog.slots_of(row.source))).size


def lacks(options: Options, found: list[Row]) -> list[str]:
    """Return the sources that were asked for by name and have nothing to read."""
    return [row.source for row in found if row.source in options.required and not row.resources and row.missing]
