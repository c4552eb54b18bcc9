"""The configuration file: what is found wrong, what is in force, and where each value comes from."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from eroica_otel.commands import main
from eroica_otel.commands.chosen import Chosen, choose
from eroica_otel.commands.config import options_of_localize
from eroica_otel.commands.configfile import ConfigFile, of
from eroica_otel.commands.localize import configure
from eroica_otel.errors import ConfigError
from eroica_otel.jobpolicy import THRESHOLDS, WAITS, JobRule, Policies
from eroica_otel.jobstate import Patience
from eroica_otel.localize.policy import Policy
from eroica_otel.query.store import WORKERS_MOST

WHOLE = """
prometheus = "http://127.0.0.1:9090"
prometheus-interval = 7
prometheus-header = ["X-Scope-OrgID: a"]
once = true
timeout = 60

[thresholds]
material_ratio = 0.08

[patience]
hang_seconds = 90

[[job]]
training_job = "llm-*"
critical_ratio = 0.3

[[job]]
training_job = "llm-7b"
team = "vision"
critical_ratio = 0.4
gap_ratio = 0.1
"""


def of_text(raw: Mapping[str, Any]) -> ConfigFile:
    return of(raw, "x.toml", options_of_localize())


def chosen(text: str, folder: Path, *words: str, **environment: str) -> Chosen:
    """Return what a command line, variables and a file with this text come to."""
    path = folder / "localize.toml"
    path.write_text(text)
    parser = argparse.ArgumentParser()
    configure(parser)
    given = parser.parse_args(["--config", str(path), *words])
    return choose(given.table, given, environment)


def test_a_whole_file_is_in_force(tmp_path: Path) -> None:
    found = chosen(WHOLE, tmp_path)
    backend = found.job.backend
    assert backend is not None
    assert (backend.url, backend.interval_seconds) == ("http://127.0.0.1:9090", 7)
    assert backend.headers == (("X-Scope-OrgID", "a"),)
    assert found.job.listen is None
    assert (found.arguments.once, found.arguments.timeout) == (True, 60)
    assert found.job.policies.base == Policy(material_ratio=0.08)
    assert found.job.thresholds["material_ratio"] == 0.08
    assert found.job.patience == Patience(hang_seconds=90)


def test_how_many_workers_are_followed(tmp_path: Path) -> None:
    assert chosen("", tmp_path).job.workers == WORKERS_MOST
    assert chosen("workers = 1000000", tmp_path).job.workers == 1_000_000
    assert chosen("workers = 5", tmp_path, "--workers", "200000").job.workers == 200_000
    for wrong in ("0", "1.5", "many", "99999999", "2097153"):
        with pytest.raises(ConfigError, match=r"EROICA_LOCALIZE_WORKERS: .* from 1 to 2097152, for example 200000"):
            chosen("", tmp_path, EROICA_LOCALIZE_WORKERS=wrong)


def test_the_command_line_wins_over_variables_and_these_over_the_file(tmp_path: Path) -> None:
    text, variable = 'metrics = "127.0.0.1:1"\nonce = true', "EROICA_LOCALIZE_METRICS"
    ports = [
        chosen("", tmp_path).job.metrics.port,
        chosen(text, tmp_path).job.metrics.port,
        chosen(text, tmp_path, **{variable: "127.0.0.1:2"}).job.metrics.port,
        chosen(text, tmp_path, "--metrics", "127.0.0.1:3", **{variable: "127.0.0.1:2"}).job.metrics.port,
    ]
    assert ports == [9465, 1, 2, 3]
    assert chosen(text, tmp_path, EROICA_LOCALIZE_ONCE="0").arguments.once is False


def test_a_list_of_the_command_line_replaces_that_of_the_file(tmp_path: Path) -> None:
    found = chosen(WHOLE, tmp_path, "--prometheus-header", "A: 1", "--prometheus-header", "B: 2")
    assert found.job.backend is not None
    assert found.job.backend.headers == (("A", "1"), ("B", "2"))
    found = chosen(WHOLE, tmp_path, EROICA_LOCALIZE_PROMETHEUS_HEADER="C: 3, 4\nD: 5")
    assert found.job.backend is not None
    assert found.job.backend.headers == (("C", "3, 4"), ("D", "5"))


def test_the_file_may_be_named_by_a_variable(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text('metrics = "127.0.0.1:7"')
    found = choose(options_of_localize(), argparse.Namespace(), {"EROICA_LOCALIZE_CONFIG": str(tmp_path / "a.toml")})
    assert (found.job.metrics.port, found.problems) == (7, ())


def test_every_rule_that_fits_a_job_counts_and_the_later_wins(tmp_path: Path) -> None:
    policies = chosen(WHOLE, tmp_path).job.policies
    assert policies.of("", "other") == Policy(material_ratio=0.08)
    assert policies.of("speech", "llm-7b") == Policy(material_ratio=0.08, critical_ratio=0.3)
    assert policies.of("vision", "llm-7b") == Policy(material_ratio=0.08, critical_ratio=0.4, gap_ratio=0.1)
    assert policies.changes("vision", "llm-7b") == {"critical_ratio": 0.4, "gap_ratio": 0.1}


def test_a_rule_that_repeats_what_holds_for_all_changes_nothing() -> None:
    policies = Policies(Policy(material_ratio=0.08), (JobRule("a", thresholds={"material_ratio": 0.08}),))
    assert policies.changes("", "a") == {}


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        ({"prometheus_interval": 5}, '"prometheus_interval" is no option; did you mean prometheus-interval?'),
        ({"listn": "a:1"}, '"listn" is no option; did you mean listen?'),
        ({"zzz": 1}, '"zzz" is no option'),
        ({"config": "x"}, '"config" is no option'),
        ({"thresholds ": {}}, '"thresholds " is no option; did you mean thresholds?'),
        ({"listen": 4318}, 'listen = 4318: give a text, for example listen = "HOST:PORT"'),
        ({"timeout": "60"}, 'timeout = "60": give a number, for example timeout = 60'),
        ({"timeout": float("nan")}, "timeout = nan: give a number, for example timeout = 60"),
        ({"once": 1}, "once = 1: give true or false, for example once = true"),
        ({"prometheus-header": "A: b"}, 'prometheus-header = "A: b": give a list of texts, for example'),
        ({"prometheus": {"url": "x"}}, "prometheus = {'url': 'x'}: give a text"),
        ({"thresholds": 3}, "[thresholds] is no table; write [thresholds] on a line of its own"),
        ({"thresholds": {"materal_ratio": 1}}, '[thresholds] "materal_ratio" is no name in it; did you mean material_'),
        ({"thresholds": {"material_ratio": 2}}, "[thresholds] material_ratio = 2: give a number from 0 to 1"),
        ({"thresholds": {"peers_factor": 0.5}}, "[thresholds] peers_factor = 0.5: give a number from 1 to 1e+09"),
        ({"thresholds": {"gap_errors": True}}, "[thresholds] gap_errors = True: give a number"),
        ({"patience": {"hang_seconds": -1}}, "[patience] hang_seconds = -1: give a number from 0 to"),
        ({"patience": {"hang": 1}}, '[patience] "hang" is no name in it'),
        ({"job": {"training_job": "a"}}, "job is no list of tables; write [[job]]"),
        ({"job": [{"material_ratio": 0.1}]}, "[[job]] 1 says for which jobs nowhere; give training_job or team"),
        ({"job": [{"training_job": 7}]}, "[[job]] 1: training_job and team are patterns; give a text"),
        ({"job": [{"training_job": "a"}, {"training_job": "a"}]}, "[[job]] 2 is about the same jobs as an earlier one"),
        ({"job": [{"training_job": "a", "x": 1}]}, '[[job]] 1 "x" is no name in it'),
        ({"thresholds": {"critical_ratio": 0.1}}, "critical_kept_ratio = 0.15 is above critical_ratio = 0.1: a crit"),
        ({"patience": {"stale_seconds": 30}}, "[patience] silent_seconds = 60 is above stale_seconds = 30"),
        (
            {"job": [{"training_job": "a", "gap_ratio": 0.01}]},
            '[[job]] training_job = "a": gap_least_ratio = 0.03 is above gap_ratio = 0.01',
        ),
    ],
)
def test_what_is_wrong_is_said_with_what_would_be_right(raw: Mapping[str, Any], problem: str) -> None:
    (found,) = of_text(raw).problems
    assert found.startswith(problem) or found.removeprefix("[thresholds] ").startswith(problem)


def test_all_that_is_wrong_is_named_and_the_rest_is_in_force() -> None:
    found = of_text({"listn": "a", "metrics": "127.0.0.1:5", "thresholds": {"x": 1, "gap_ratio": 0.2}})
    assert len(found.problems) == 2
    assert found.options == {"metrics": "127.0.0.1:5"}
    assert found.policies.base == Policy(gap_ratio=0.2)


def test_the_defaults_contradict_nothing_and_lie_within_their_bounds() -> None:
    policy, patience = Policy(), Patience()
    whole = {"thresholds": policy.thresholds(), "patience": {name: getattr(patience, name) for name in WAITS}}
    assert of_text(whole).problems == ()
    assert set(THRESHOLDS).isdisjoint(WAITS)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"listen = ", "is no TOML: "),
        (b"\xff\xfe", "is no TOML: "),
        (b"a = 1\na = 2", "is no TOML: Cannot overwrite a value"),
        (b"#" * (2**20 + 1), "has more than 1048576 bytes"),
    ],
)
def test_what_is_no_configuration_is_one_line(
    content: bytes, text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.toml"
    path.write_bytes(content)
    for words in (["localize", "--config"], ["config", "check"]):
        assert main.main([*words, str(path)]) == 2
        error = capsys.readouterr().err
        assert f"{path} {text}" in error
        assert error.count("\n") == 1


def test_a_file_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["config", "check", "/nowhere/a.toml"]) == 2
    assert "/nowhere/a.toml: No such file or directory; give a configuration file" in capsys.readouterr().err


def test_localize_refuses_a_file_with_problems_and_tells_who_names_all(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.toml"
    path.write_text("listn = 1\nx = 2")
    assert main.main(["localize", "--config", str(path)]) == 2
    line = f'{path}: "listn" is no option; did you mean listen? (and 1 more); eroica-otel config check {path} names all'
    assert capsys.readouterr().err == f"eroica-otel: {line}\n"


def test_a_value_that_its_option_refuses_is_told_with_where_it_is_from(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"--listen 'nonsense'.* \(from .*localize\.toml\)$"):
        chosen('listen = "nonsense"', tmp_path)
    with pytest.raises(ConfigError, match=r"--listen 'x'.* \(from EROICA_LOCALIZE_LISTEN\)$"):
        chosen("", tmp_path, EROICA_LOCALIZE_LISTEN="x")
    with pytest.raises(ConfigError, match=r"--listen 'y'(?!.*from)"):
        chosen('listen = "z"', tmp_path, "--listen", "y")
    with pytest.raises(ConfigError, match=r"localize\.toml: timeout: '-1' is no number of seconds"):
        chosen("timeout = -1", tmp_path)
    with pytest.raises(ConfigError, match="EROICA_LOCALIZE_TIMEOUT: timeout: 'x' is no number of seconds"):
        chosen("", tmp_path, EROICA_LOCALIZE_TIMEOUT="x")
    with pytest.raises(ConfigError, match="EROICA_LOCALIZE_ONCE='maybe' is not usable: give 1 or 0"):
        chosen("", tmp_path, EROICA_LOCALIZE_ONCE="maybe")


def test_a_variable_that_is_no_option_is_told(tmp_path: Path) -> None:
    (line,) = chosen("", tmp_path, EROICA_LOCALIZE_LISTN="x", EROICA_TEAM="y").problems
    assert line == (
        "EROICA_LOCALIZE_LISTN is no option of this version and does nothing; did you mean EROICA_LOCALIZE_LISTEN?"
    )


def check(path: Path, *words: str) -> int:
    return main.main(["config", "check", str(path), *words])


def test_check_prints_what_is_in_force_and_where_it_is_from(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EROICA_LOCALIZE_METRICS", "127.0.0.1:4")
    path = tmp_path / "a.toml"
    path.write_text(WHOLE)
    assert check(path, "--json") == 0
    output = capsys.readouterr()
    held = json.loads(output.out)
    assert output.err == f"{path}: can be used\n"
    assert held["problems"] == []
    found = held["values"]
    assert found["metrics"] == {"value": "127.0.0.1:4", "from": "EROICA_LOCALIZE_METRICS"}
    assert found["prometheus-interval"] == {"value": 7, "from": str(path)}
    assert found["report"] == {"value": "", "from": "default"}
    assert found["thresholds.material_ratio"] == {"value": 0.08, "from": str(path)}
    assert found["patience.stale_seconds"] == {"value": 300, "from": "default"}
    assert found["job['llm-7b', team 'vision'].gap_ratio"] == {"value": 0.1, "from": str(path)}
    assert check(path) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines[:2]] == [
        ["listen", '""', "(default)"],
        ["metrics", '"127.0.0.1:4"', "(EROICA_LOCALIZE_METRICS)"],
    ]


def test_check_shows_defaults_that_depend_on_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.toml"
    path.write_text("")
    assert check(path, "--json") == 0
    found = json.loads(capsys.readouterr().out)["values"]
    assert found["listen"] == {"value": "127.0.0.1:4318", "from": "default"}
    assert found["state"]["value"].endswith("eroica_otel")


def test_check_keeps_secrets_and_creates_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.toml"
    lines = 'prometheus = "https://me:hush@h:9090"\nprometheus-header = ["X-Key: hush"]\n'
    path.write_text(f'{lines}state = "{tmp_path}/state"\nreport = "{tmp_path}/out"\nsend-otlp = "https://u:hush@h"')
    assert check(path) == 0
    output = capsys.readouterr()
    assert "hush" not in output.out + output.err
    assert "https://h:9090" in output.out
    assert [item.name for item in tmp_path.iterdir()] == ["a.toml"]


def test_check_names_every_problem_and_ends_with_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.toml"
    path.write_text('listn = 1\nmatch = "x=\\"y\\""\n[thresholds]\nx = 1')
    assert check(path) == 1
    output = capsys.readouterr()
    assert [line for line in output.out.splitlines() if line.startswith("problem: ")] == [
        'problem: "listn" is no option; did you mean listen?',
        'problem: [thresholds] "x" is no name in it',
        f"problem: --match says how to read a Prometheus; give --prometheus URL too (from {path})",
    ]
    assert output.err == f"{path}: 3 problems\n"
