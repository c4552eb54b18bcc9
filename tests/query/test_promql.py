from __future__ import annotations

import pytest

from eroica_otel.errors import ConfigError
from eroica_otel.query import promql
from eroica_otel.query.client import QueryFailed


def test_a_selector_names_its_metrics_and_matchers() -> None:
    assert promql.selector(["a"], "", 'job="x"') == '{__name__="a",job="x"}'
    assert promql.selector(["a", "b"]) == '{__name__=~"a|b"}'


def test_values_are_quoted_and_regular_expressions_escaped() -> None:
    assert promql.matcher("job", ['a"b\\c\nd']) == '''job="a\\"b\\\\c\\nd"'''
    assert promql.matcher("rank", ["1", "1.5"]) == '''rank=~"1|1\\\\.5"'''
    assert promql.matcher("team", [""]) == 'team=""'


def test_of_what_was_cut_the_beginning_is_asked_for() -> None:
    assert promql.beginning("a", ['x."', "y"]) == 'a=~"x\\\\.\\"(?s:.*)|y(?s:.*)"'


@pytest.mark.parametrize(("seconds", "text"), [(60, "x[60000ms]"), (0.0101, "x[11ms]"), (0, "x[1ms]")])
def test_a_range_is_in_whole_milliseconds(seconds: float, text: str) -> None:
    assert promql.raw("x", seconds) == text


@pytest.mark.parametrize(
    ("text", "inside"),
    [
        ("", ""),
        ('team="a"', 'team="a"'),
        ('{team="a", training_job=~"llm-.*",}', 'team="a", training_job=~"llm-.*"'),
        (r'a!="x\"y",b!~"z"', r'a!="x\"y",b!~"z"'),
    ],
)
def test_matchers_of_the_user(text: str, inside: str) -> None:
    assert promql.checked_matchers(text, "--match") == inside


@pytest.mark.parametrize(
    "text", ["team", "team=a", 'team="a" or b', 'team="a"} or {b="c"', "}", "{", '{team="a"', 'team="a"\\', '="a"']
)
def test_what_is_no_matcher_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ConfigError, match=r"--match .* training_job=~"):
        promql.checked_matchers(text, "--match")


def test_samples_that_are_not_finite_are_absent_and_so_is_a_series_without_others() -> None:
    body = b"""{"status":"success","data":{"resultType":"matrix","result":[
        {"metric":{"a":"1"},"values":[[1,"0.5"],[2.5,"NaN"],[3,"+Inf"],[4,"-Inf"],[5,"2e3"]]},
        {"metric":{"a":"2"},"values":[[1,"NaN"]]},
        {"metric":{"a":"3"},"value":[7,"1"]},
        {"metric":{"a":"4"},"values":[]}]},"infos":["x"]}"""
    assert promql.parse(body) == [({"a": "1"}, ((1, 0.5), (5, 2000))), ({"a": "3"}, ((7, 1),))]


@pytest.mark.parametrize(
    "body",
    [
        b"", b"<html>", b"[]", b'{"status":"success"', b'{"status":"success","data":{"result":{}}}', b"\xff\xfe",
        b'{"status":"success","data":{"result":[{"metric":{},"values":[["x","1"]]}]}}',
        b'{"status":"success","data":{"result":[{"metric":{},"values":[[1,"one"]]}]}}',
        b'{"status":"success","data":{"result":[{"metric":{"a":1},"values":[]}]}}', b"[" * 100_000,
    ],
)  # fmt: skip
def test_what_is_no_answer_is_said_so(body: bytes) -> None:
    with pytest.raises(QueryFailed, match="none of a PromQL API") as failed:
        promql.parse(body)
    assert failed.value.outcome == "malformed"


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b'{"status":"error","errorType":"execution","error":"too many samples"}', "too many samples"),
        (b'{"status":"success","isPartial":true,"data":{"result":[]}}', "partial"),
        (b'{"status":"success"}', "success"),
        (b'{"status":"error","error":"first\\n\\u0000second"}', "it answers: first  second"),
    ],
)
def test_a_failure_inside_a_good_answer(body: bytes, text: str) -> None:
    with pytest.raises(QueryFailed, match=text) as failed:
        promql.parse(body)
    assert failed.value.outcome == "refused"
