"""Report <-> report.json, the stable contract (docs/report.md). Pure.

A number that is missing (None or NaN in the model) is null in the file, never 0.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from numbers import Integral, Real
from types import MappingProxyType
from typing import Any

import msgspec

from eroica_otel import names
from eroica_otel.errors import ConfigError
from eroica_otel.model import REASONS, SCHEMA, SEVERITIES, Detail, Finding, FunctionDetail, Report, Timeline, Victims
from eroica_otel.publish.report.wire import DetailWire, FindingWire, FunctionWire, ReportWire, SchemaWire

CHOICES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "verdict": ("culprit", "job"),
        "cause": names.CAUSES,
        "domain": ("hardware", "code", "data"),
        "severity": SEVERITIES,
        "confidence": ("high", "low"),
        "scope": ("worker", "node", "role", "link", "job"),
        "persistence": ("once", "rotating", "since_start"),
    }
)
"""Closed lists of the contract: key of a finding -> what it may be."""

_LINE = 100
"""Arrays of texts that are no longer than this stay on one line, and so do columns with an item for each rank."""
_COLUMN = 40


def render(report: Report) -> str:
    """Return the report as strict JSON in UTF-8 with a final newline, keys in the order of the contract."""
    return _pretty({"schema": SCHEMA} | _plain(report, ReportWire), "") + "\n"


def contract(report: Report) -> dict[str, Any]:
    """Return the report without ``detail`` as plain values, in the order of the contract."""
    return {"schema": SCHEMA} | {key: value for key, value in _plain(report, ReportWire).items() if key != "detail"}


def parse(text: str) -> Report:
    """Return the report that ``text`` holds; the inverse of :func:`render`.

    Keys that this version does not know are ignored, so that a later version may add some.

    Raises:
        ConfigError: the text is no JSON, has another schema, or a field is missing, of the wrong type or not in its
            closed list; the message says which one.
    """
    try:
        raw = msgspec.json.decode(text)
        schema = msgspec.convert(raw, SchemaWire).schema
        if schema != SCHEMA:
            raise ConfigError(f"schema is {schema}, this version reads {SCHEMA}: use the version that wrote the report")
        wire = msgspec.convert(raw, ReportWire)
    except (msgspec.DecodeError, msgspec.ValidationError, UnicodeError, RecursionError) as error:
        raise ConfigError(f"not a report of schema {SCHEMA}: {error}") from error
    _one_of("reason", wire.reason, REASONS)
    values = msgspec.structs.asdict(wire) | {
        "findings": tuple(_finding(item, f"findings[{i}]") for i, item in enumerate(wire.findings)),
        "victims": tuple(Victims(**msgspec.structs.asdict(item)) for item in wire.victims),
        "detail": None if wire.detail is None else _detail(wire.detail),
    }
    del values["schema"]
    return Report(**values)


def _one_of(where: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ConfigError(f"{where} is {value!r}, it must be one of {', '.join(allowed)}")


def _finding(wire: FindingWire, where: str) -> Finding:
    values = msgspec.structs.asdict(wire)
    for key, allowed in CHOICES.items():
        _one_of(f"{where}.{key}", values[key], allowed)
    values |= {key: _number(values[key]) for key in ("impact_ratio", "impact_seconds")}
    return Finding(**values)


def _detail(wire: DetailWire) -> Detail:
    workers = len(wire.ranks)
    _length("detail.hosts", wire.hosts, workers)
    for kind, seconds in wire.kinds.items():
        _length(f"detail.kinds.{kind}", seconds, workers)
    function, rank, share = wire.largest_difference
    values = msgspec.structs.asdict(wire) | {
        "kinds": {kind: _column(seconds) for kind, seconds in wire.kinds.items()},
        "functions": tuple(_function(item, f"detail.functions[{i}]", workers) for i, item in enumerate(wire.functions)),
        "largest_difference": (function, rank, _number(share)),
        "timelines": tuple(Timeline(**msgspec.structs.asdict(item)) for item in wire.timelines),
    }
    scalars = ("iteration_seconds", "reference_iteration_seconds", "window_seconds", "verdict_seconds")
    return Detail(**values | {key: _number(values[key]) for key in scalars})


def _function(wire: FunctionWire, where: str, workers: int) -> FunctionDetail:
    _length(f"{where}.seconds", wire.seconds, workers)
    _length(f"{where}.cpu_seconds", wire.cpu_seconds, workers)
    for key in ("mu", "sigma"):
        if getattr(wire, key):
            _length(f"{where}.{key}", getattr(wire, key), workers)
    values = msgspec.structs.asdict(wire)
    values |= {key: _number(values[key]) for key in ("median", "tolerance", "reference")}
    return FunctionDetail(**values | {key: _column(values[key]) for key in ("seconds", "cpu_seconds", "mu", "sigma")})


def _length(where: str, values: tuple[Any, ...], expected: int) -> None:
    if len(values) != expected:
        raise ConfigError(f"{where} has {len(values)} values for the {expected} ranks of detail.ranks")


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)


def _column(values: tuple[float | None, ...]) -> tuple[float, ...]:
    return tuple(_number(value) for value in values)


_PARTS: Mapping[str, type[msgspec.Struct]] = MappingProxyType({"findings": FindingWire, "functions": FunctionWire})


def _plain(value: Any, shape: type[msgspec.Struct] | None = None) -> Any:
    """Return model objects as dictionaries in the key order of the wire, with null for what is not finite."""
    if hasattr(value, "__dataclass_fields__"):
        keys = shape.__struct_fields__ if shape is not None else tuple(value.__dataclass_fields__)
        return {key: _plain(getattr(value, key), _PARTS.get(key)) for key in keys if key != "schema"}
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        if all(type(item) is float for item in value):  # columns of many ranks, without a call for each number
            return [item if math.isfinite(item) else None for item in value]
        return [_plain(item, shape) for item in value]
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")  # a lone surrogate is not JSON
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):  # numpy scalars too
        return float(value) if math.isfinite(value) else None
    return value


def _pretty(value: Any, indent: str) -> str:
    """Return JSON with two spaces of indent, but columns of numbers on one line: 4,096 ranks stay readable."""
    if not isinstance(value, dict | list) or not value or _one_line(value):
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    inner = indent + "  "
    if isinstance(value, dict):
        rows = [f"{json.dumps(key, ensure_ascii=False)}: {_pretty(item, inner)}" for key, item in value.items()]
        return "{\n" + ",\n".join(inner + row for row in rows) + f"\n{indent}}}"
    return "[\n" + ",\n".join(inner + _pretty(item, inner) for item in value) + f"\n{indent}]"


def _one_line(value: Any) -> bool:
    if not isinstance(value, list) or any(isinstance(item, dict | list) for item in value):
        return False
    return (
        len(value) > _COLUMN
        or not any(isinstance(item, str) for item in value)
        or len(json.dumps(value, ensure_ascii=False)) <= _LINE
    )
