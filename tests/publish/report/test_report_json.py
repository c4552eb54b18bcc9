from __future__ import annotations

import json
import math
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eroica_otel import names
from eroica_otel.errors import ConfigError, EroicaError
from eroica_otel.model import REASONS, SEVERITIES, Detail, Finding, FunctionDetail, Report, Timeline, Victims
from eroica_otel.publish.report.json import CHOICES, contract, parse, render
from eroica_otel.publish.report.wire import FunctionWire
from factories_report import detail, finding, function, report

CONTRACT = [
    "schema",
    "training_job",
    "window_id",
    "reason",
    "workers_seen",
    "workers_expected",
    "missing_ranks",
    "findings",
    "victims",
    "no_consensus",
    "notes",
]
FINDING = [
    "verdict",
    "cause",
    "domain",
    "severity",
    "confidence",
    "scope",
    "link",
    "kind",
    "function",
    "function_id",
    "stack",
    "ranks",
    "hosts",
    "roles",
    "impact_ratio",
    "impact_seconds",
    "expectation_distance",
    "differential_distance",
    "drift_distance",
    "persistence",
    "evidence",
    "advice",
]

texts = st.text(max_size=12)
integers = st.integers(-(2**40), 2**40)
numbers = st.floats(allow_infinity=False) | st.just(math.nan)
maybe = st.none() | st.floats(allow_nan=False, allow_infinity=False)


def tuples(items: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(items, max_size=3).map(tuple)


def findings() -> st.SearchStrategy[Finding]:
    return st.builds(
        Finding,
        **{key: st.sampled_from(allowed) for key, allowed in CHOICES.items()},
        kind=texts, function=texts, function_id=texts, stack=tuples(texts), ranks=tuples(integers),
        hosts=tuples(texts), roles=tuples(texts), impact_ratio=numbers, impact_seconds=numbers,
        expectation_distance=maybe, differential_distance=maybe, drift_distance=maybe, evidence=tuples(texts),
        advice=texts, link=st.none() | st.tuples(texts, texts),
    )  # fmt: skip


def details() -> st.SearchStrategy[Detail]:
    def of(workers: int) -> st.SearchStrategy[Detail]:
        def column(items: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
            return st.lists(items, min_size=workers, max_size=workers).map(tuple)

        functions = st.builds(
            FunctionDetail, texts, texts, texts, column(numbers), column(numbers), numbers, numbers, numbers
        )
        return st.builds(
            Detail,
            iteration_seconds=numbers, reference_iteration_seconds=numbers, window_seconds=numbers,
            iterations=integers, verdict_seconds=numbers, ranks=column(integers), hosts=column(texts),
            kinds=st.dictionaries(texts, column(numbers), max_size=3), functions=tuples(functions),
            functions_seen=integers, largest_difference=st.tuples(texts, integers, numbers), ruled_out=tuples(texts),
        )  # fmt: skip

    return st.integers(0, 3).flatmap(of)


def reports() -> st.SearchStrategy[Report]:
    return st.builds(
        Report,
        training_job=texts, window_id=integers, reason=st.sampled_from(REASONS), workers_seen=integers,
        workers_expected=integers, missing_ranks=tuples(integers), findings=tuples(findings()),
        victims=tuples(st.builds(Victims, tuples(integers), texts, tuples(integers))), no_consensus=tuples(texts),
        notes=tuples(texts), detail=st.none() | details(),
    )  # fmt: skip


def comparable(value: Any) -> Any:
    """NaN is unlike itself: replace it by a word, all the way down."""
    if is_dataclass(value) and not isinstance(value, type):
        return {item.name: comparable(getattr(value, item.name)) for item in fields(value)}
    if isinstance(value, dict):
        return {key: comparable(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return tuple(comparable(item) for item in value)
    return "nan" if isinstance(value, float) and math.isnan(value) else value


@settings(deadline=None, max_examples=60)
@given(reports())
def test_parse_is_the_inverse_of_render(original: Report) -> None:
    assert comparable(parse(render(original))) == comparable(original)


def refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is no JSON")


def test_keys_are_those_of_the_contract_in_its_order_with_detail_last() -> None:
    value = json.loads(render(report()))
    assert list(value) == [*CONTRACT, "detail"]
    assert list(value["findings"][0]) == FINDING
    assert list(value["victims"][0]) == ["ranks", "function", "waits_for"]
    assert list(value["detail"]) == [item.name for item in fields(Detail)]
    assert value["schema"] == 1


def test_contract_is_the_file_without_detail() -> None:
    value = json.loads(render(report()))
    del value["detail"]
    assert contract(report()) == value


def test_every_field_of_the_contract_page_is_documented() -> None:
    page = (Path(__file__).parents[3] / "docs" / "report.md").read_text(encoding="utf-8")
    for key in (
        *CONTRACT,
        *FINDING,
        *(item.name for item in fields(Detail)),
        *FunctionWire.__struct_fields__,
    ):
        assert f"`{key}`" in page


def test_what_is_not_finite_is_null_and_the_file_is_strict_json() -> None:
    text = render(report(findings=(finding(impact_ratio=math.nan, impact_seconds=math.inf, drift_distance=None),)))
    written = json.loads(text, parse_constant=refuse)["findings"][0]
    assert (written["impact_ratio"], written["impact_seconds"], written["drift_distance"]) == (None, None, None)
    assert math.isnan(parse(text).findings[0].impact_ratio)
    assert parse(text).findings[0].drift_distance is None


def test_numpy_numbers_are_written_as_numbers() -> None:
    written = json.loads(render(report(workers_seen=np.int64(4), findings=(finding(impact_ratio=np.float32(0.25)),))))
    assert written["workers_seen"] == 4
    assert written["findings"][0]["impact_ratio"] == 0.25


def test_a_text_that_is_no_unicode_does_not_break_the_file() -> None:
    assert parse(render(report(training_job="job\udce9"))).training_job == "job?"


def test_columns_of_ranks_stay_on_one_line() -> None:
    lines = render(report(detail=detail(4096))).splitlines()
    assert len(lines) < 120
    assert max(len(line) for line in lines) > 4096


def test_detail_may_be_absent() -> None:
    value = json.loads(render(report()))
    del value["detail"]
    assert parse(json.dumps(value)).detail is None


def test_keys_of_a_later_version_are_ignored() -> None:
    value = json.loads(render(report())) | {"later": 1}
    assert comparable(parse(json.dumps(value))) == comparable(report())


def broken(path: str, new: Any) -> str:
    """Return the story's JSON with one value replaced, or removed when ``new`` is ... ."""
    value = json.loads(render(report()))
    *way, last = [int(part) if part.isdigit() else part for part in path.split(".")]
    place = value
    for part in way:
        place = place[part]
    if new is ...:
        del place[last]
    else:
        place[last] = new
    return json.dumps(value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "not a report"),
        ("{", "not a report"),
        ("[]", "not a report"),
        ("null", "not a report"),
        ("[" * 100_000, "not a report"),
        ('{"training_job": "x"}', "schema"),
        (broken("schema", 2), "schema is 2, this version reads 1"),
        (broken("schema", "1"), "schema"),
        (broken("reason", "bored"), "reason is 'bored'"),
        (broken("findings.0.severity", "fatal"), "findings[0].severity is 'fatal', it must be one of info, warning"),
        (broken("findings.0.cause", "gremlins"), "findings[0].cause is 'gremlins'"),
        (broken("findings.0.verdict", "guilty"), "findings[0].verdict"),
        (broken("findings.0.advice", ...), "advice"),
        (broken("findings.0.ranks", ["2"]), "findings[0].ranks[0]"),
        (broken("findings.0.link", ["a"]), "findings[0].link"),
        (broken("workers_seen", None), "workers_seen"),
        (broken("workers_seen", 1.5), "workers_seen"),
        (broken("detail.hosts", ["a"]), "detail.hosts has 1 values for the 4 ranks"),
        (broken("detail.kinds.python", [1, 2]), "detail.kinds.python has 2 values"),
        (broken("detail.functions.0.seconds", []), "detail.functions[0].seconds has 0 values"),
        (broken("detail.functions.0.cpu_seconds", []), "detail.functions[0].cpu_seconds"),
    ],
)
def test_malformed_text_says_what_is_wrong_and_where(text: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(text)
    assert words in str(caught.value)
    assert isinstance(caught.value, EroicaError)
    assert "\n" not in str(caught.value)


def test_closed_lists_are_those_of_the_project() -> None:
    assert CHOICES["cause"] == names.CAUSES
    assert CHOICES["severity"] == SEVERITIES


def test_what_traces_tell_of_a_window_comes_back_and_may_be_absent() -> None:
    line = Timeline(2, 5.2, {"compute": (0.25, 0.0), "idle": (0.75, 1.0)})
    measured = function(mu=(0.5, 0.5, 0.96, 0.5), sigma=(0.3, 0.3, 0.04, 0.3), reference=0.0004)
    told = report(detail=detail(timelines=(line,), functions=(measured,)))
    text = render(told)
    assert parse(text).detail == told.detail
    older = json.loads(text)
    del older["detail"]["timelines"], older["detail"]["functions"][0]["mu"], older["detail"]["functions"][0]["sigma"]
    parsed = parse(json.dumps(older)).detail
    assert parsed is not None
    assert parsed.timelines == ()
    assert parsed.functions[0].mu == parsed.functions[0].sigma == ()
