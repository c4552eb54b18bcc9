"""The language of the questions: matchers and names in, PromQL out; the body of an answer in, series out. Pure.

Only what Prometheus 2.42 and VictoriaMetrics answer alike is used: instant queries, raw samples by range selector.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Generic, NamedTuple, TypeVar

import msgspec

from eroica_otel.errors import ConfigError, one_line
from eroica_otel.query.client import QueryFailed

_NAME = r"[a-zA-Z_][a-zA-Z0-9_]*"
_MATCHER = rf'\s*{_NAME}\s*(?:=~|!~|!=|=)\s*"(?:[^"\\\n]|\\.)*"\s*'
_MATCHERS = re.compile(rf"(?:{_MATCHER}(?:,{_MATCHER})*,?\s*)?")


class Series(NamedTuple):
    """Labels and finite samples (time by the backend in unix seconds, value), oldest first."""

    labels: Mapping[str, str]
    samples: tuple[tuple[float, float], ...]


class Raw(NamedTuple):
    """The same with the labels as JSON."""

    metric: bytes
    samples: Sequence[tuple[float, float]]


class _Found(msgspec.Struct):
    metric: dict[str, str]
    values: list[tuple[float, str]] = []
    value: tuple[float, str] | None = None


class _RawFound(msgspec.Struct):
    metric: msgspec.Raw
    values: list[tuple[float, str]] = []
    value: tuple[float, str] | None = None


_One = TypeVar("_One", _Found, _RawFound)


class _Data(msgspec.Struct, Generic[_One]):
    result: list[_One]


class _Answer(msgspec.Struct, Generic[_One]):
    status: str
    data: _Data[_One] | None = None
    error: str = ""
    isPartial: bool = False


_decoder = msgspec.json.Decoder(_Answer[_Found])
_raw_decoder = msgspec.json.Decoder(_Answer[_RawFound])


def checked_matchers(text: str, flag: str) -> str:
    """Return label matchers as they stand between the braces of a selector.

    Raises:
        ConfigError: they are none.
    """
    inside = text.strip()
    if inside.startswith("{") and inside.endswith("}"):
        inside = inside[1:-1].strip()
    if not _MATCHERS.fullmatch(inside):
        raise ConfigError(f'{flag} {text!r} is no list of label matchers; give one, for example training_job=~"llm-.*"')
    return inside.rstrip(", ")


def selector(metrics: Sequence[str], *matchers: str) -> str:
    """Return the selector of one or several names under matchers; empty ones are left out."""
    name = matcher("__name__", metrics)
    return "{" + ",".join([name, *(text for text in matchers if text)]) + "}"


def matcher(label: str, values: Sequence[str]) -> str:
    """Return the matcher that is true for exactly these values of a label ("" = the label is absent)."""
    if len(values) == 1:
        return f"{label}={_quoted(values[0])}"
    return f"{label}=~{_quoted('|'.join(re.escape(value) for value in values))}"


def beginning(label: str, values: Sequence[str]) -> str:
    """Return the matcher that is true for what begins with one of these: of a label that was cut no more is known."""
    return f"{label}=~{_quoted('|'.join(f'{re.escape(value)}(?s:.*)' for value in values))}"


def raw(selected: str, seconds: float) -> str:
    """Return the question for all samples of the last ``seconds``."""
    return f"{selected}[{max(1, math.ceil(seconds * 1000))}ms]"


def _quoted(text: str) -> str:
    inside = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{inside}"'


def parse(body: bytes) -> list[Series]:
    """Return the series of an answer; samples that are not finite (not measured, or the end of a series) are absent.

    Raises:
        QueryFailed: it is no answer of a PromQL API, says that it failed, or says that it is not complete.
    """
    found = (Series(one.metric, _samples(one)) for one in _result(body, _decoder))
    return [series for series in found if series.samples]


def parse_raw(body: bytes) -> list[Raw]:
    """Return the same with the labels as they stand in the answer.

    Raises:
        QueryFailed: as parse.
    """
    return [Raw(bytes(one.metric), _samples(one)) for one in _result(body, _raw_decoder)]


def _result(body: bytes, decoder: msgspec.json.Decoder[_Answer[_One]]) -> list[_One]:
    try:
        answer = decoder.decode(body)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise QueryFailed("malformed", f"the answer is none of a PromQL API ({one_line(str(error), 200)})") from error
    if answer.status != "success" or answer.data is None:
        raise QueryFailed("refused", f"it answers: {one_line(answer.error or answer.status)}")
    if answer.isPartial:
        raise QueryFailed("refused", "the answer is partial, one of its storage nodes is missing; look after it")
    return answer.data.result


def _samples(found: _Found | _RawFound) -> tuple[tuple[float, float], ...]:
    given: Iterable[tuple[float, str]] = found.values if found.value is None else (found.value,)
    try:
        samples = [(when, float(text)) for when, text in given]
    except ValueError as error:
        raise QueryFailed("malformed", f"the answer is none of a PromQL API ({one_line(str(error), 200)})") from error
    return tuple(sample for sample in samples if math.isfinite(sample[0]) and math.isfinite(sample[1]))
