"""The rules: accepted by promtool and vmalert, tested one by one, and such that one fault is one alert."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import promql_parser
import pytest

from alert_rules import ALERTS, CASES, FINDINGS, ROOT, RULES, alerts, all_rules, generator, read, run
from eroica_hardware import names as agent
from eroica_otel import names
from eroica_otel.export import budget
from eroica_otel.localize import hang as hang_verdicts
from eroica_otel.localize.policy import Policy

ALLOWED = {"training_job", "team", "rank", "host", "role", "severity", "domain"}
HISTOGRAM_PARTS = ("_sum", "_count", "_bucket")


def test_promtool_accepts_all_rules_and_has_nothing_to_say_on_style() -> None:
    run("promtool", "check", "rules", "--lint=all", "--lint-fatal", *RULES)


def test_vmalert_accepts_them_too(tmp_path: Path) -> None:
    for path in RULES:
        # It knows keep_firing_for since its release 1.90; Debian's is older.
        text = re.sub(r"^ +keep_firing_for: .*\n", "", path.read_text("utf-8"), flags=re.MULTILINE)
        (tmp_path / path.name).write_text(text, "utf-8")
    run("vmalert", "-dryRun", f"-rule={tmp_path}/*.yml")


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.name)
def test_promtool_runs_the_cases(case: Path) -> None:
    assert "SUCCESS" in run("promtool", "test", "rules", case)


def test_every_alert_has_a_case_in_which_it_is_silent_and_one_in_which_it_fires() -> None:
    silent: set[str] = set()
    fires: set[str] = set()
    for case in CASES:
        for test in read(case)["tests"]:
            for step in test.get("alert_rule_test", ()):
                (fires if step.get("exp_alerts") else silent).add(step["alertname"])
    assert fires == set(alerts())
    assert silent == set(alerts()) - {"EroicaDeadMan"}, "the dead man is never silent"


def test_every_alert_has_a_case_in_which_it_ends() -> None:
    ended: set[str] = set()
    for case in CASES:
        for test in read(case)["tests"]:
            fired: set[str] = set()
            for step in test.get("alert_rule_test", ()):
                name = step["alertname"]
                if step.get("exp_alerts"):
                    fired.add(name)
                elif name in fired:
                    ended.add(name)
    assert ended == set(alerts()) - {"EroicaDeadMan"}, "the dead man never ends"


OF_WORKERS_ALONE = ("budget.test.yml", "recording.test.yml")
OF_LOCALIZER = re.compile("|".join(metric.name for metric in names.ALL if metric.component == names.LOCALIZER))


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.name)
def test_two_localizers_that_say_the_same_give_the_same_alerts(case: Path, tmp_path: Path) -> None:
    given = read(case)
    given["rule_files"] = [str(case.parent / name) for name in given["rule_files"]]
    doubled = 0
    for test in given["tests"]:
        test.pop("promql_expr_test", None)
        for series in list(test["input_series"]):
            if OF_LOCALIZER.match(series["series"]):
                again = series["series"].replace("{", '{second="localizer", ', 1)
                test["input_series"].append(series | {"series": again})
                doubled += 1
    assert bool(doubled) == (case.name not in OF_WORKERS_ALONE), "which files hold series of the localizer"
    (tmp_path / "doubled.yml").write_text(json.dumps(given))
    assert "SUCCESS" in run("promtool", "test", "rules", tmp_path / "doubled.yml")


def test_the_budget_in_the_rules_is_the_workers_own() -> None:
    most = (budget.MOST_SERIES - budget.STANDING_SERIES) // len(names.PATTERN_SERIES)
    assert f"> {most}" in alerts()["EroicaSeriesBudgetExceeded"]["expr"]


def test_a_threshold_that_a_rule_asks_for_is_published() -> None:
    asked = {found for rule in all_rules() for found in re.findall(r'threshold="(\w+)"', rule["expr"])}
    assert asked == {"throttle_ratio"}
    assert asked <= set(Policy().thresholds())


def test_every_alert_that_fires_in_a_case_carries_known_labels_only() -> None:
    labels: set[str] = set()
    for case in CASES:
        for test in read(case)["tests"]:
            for step in test.get("alert_rule_test", ()):
                labels |= {label for alert in step.get("exp_alerts") or () for label in alert["exp_labels"]}
    assert labels == ALLOWED


@pytest.mark.parametrize("name", alerts())
def test_an_alert_says_what_and_where_to_read_on(name: str) -> None:
    rule = alerts()[name]
    said = rule["annotations"]
    assert re.fullmatch(r"Eroica([A-Z][a-z]+)+", name)
    assert said["summary"].endswith(".")
    assert "Advice: " in said["description"]
    assert said["runbook"] == f"docs/runbook.md#{name.lower()}"
    assert "runbook_url" not in said, "a file's name is no link"
    assert set(rule.get("labels", {})) == (set() if name in FINDINGS else {"severity", "domain"})


def test_every_alert_outlives_a_gap() -> None:
    kept = {name: rule.get("keep_firing_for") for name, rule in alerts().items()}
    assert kept.pop("EroicaDeadMan") is None, "it would raise the watchdog's alarm five minutes late"
    assert set(kept.values()) == {"5m"}


@pytest.mark.parametrize("name", FINDINGS)
def test_a_finding_fires_at_once(name: str) -> None:
    rule = alerts()[name]
    assert rule["for"] == "0s"
    assert {"function", "cause", "impact", "advice"} <= set(rule["annotations"])


def test_a_recorded_series_says_level_metric_and_operation() -> None:
    recorded = {rule["record"] for rule in all_rules() if "record" in rule}
    assert all(re.fullmatch(r"(job|cause):eroica_[a-z_]+:[a-z0-9]+", name) for name in recorded)


def test_what_the_localizer_calls_a_hang_is_one_in_the_rules() -> None:
    hang = Path(hang_verdicts.__file__).read_text("utf-8")
    given = set(re.findall(r'"([a-z_]+)"', hang)) & set(names.CAUSES)
    assert {"process_stopped", "checkpoint_stall"} <= given
    assert set(generator().HANG_CAUSES) == given
    slow = alerts()["EroicaWorkerSlowsJob"]["expr"]
    for cause in given:
        assert cause in alerts()["EroicaWorkerHangsJob"]["expr"]
        assert cause in slow.partition("cause!~")[2]


def _selectors(expression: str) -> set[str]:
    return set(re.findall(r"\b(?:[a-z]+:)?eroica_[a-z_]+(?::[a-z0-9]+)?", expression))


def test_rules_ask_for_series_that_exist() -> None:
    recorded = {rule["record"] for rule in all_rules() if "record" in rule}
    parts = {metric.name + part for metric in names.DURATIONS for part in HISTOGRAM_PARTS}
    of_agent = {metric.name for metric in agent.ALL}
    for rule in all_rules():
        promql_parser.parse(rule["expr"])
        texts = [rule["expr"], *rule.get("annotations", {}).values()]
        asked = {name for text in texts for name in _selectors(text)} - {"eroica_otel"}
        assert asked <= recorded | parts | set(names.BY_NAME) | of_agent, rule


def test_every_cause_has_advice() -> None:
    advice = {
        rule["labels"]["cause"]: rule["labels"]["advice"] for rule in all_rules() if "cause" in rule.get("labels", {})
    }
    assert set(advice) == set(names.CAUSES)
    assert all(text and not text.endswith(".") for text in advice.values())


def test_the_files_are_what_the_generator_writes() -> None:
    written = generator().files((ALERTS / "config.ini").read_text("utf-8"))
    assert {path.relative_to(ALERTS).as_posix() for path in RULES} | {"prometheusrule.yaml"} == set(written)
    for name, text in written.items():
        assert (ALERTS / name).read_text("utf-8") == text, "make docs renews it"


def test_the_manifest_of_the_operator_holds_the_same_groups() -> None:
    manifest = read(ALERTS / "prometheusrule.yaml")
    assert (manifest["apiVersion"], manifest["kind"]) == ("monitoring.coreos.com/v1", "PrometheusRule")
    groups = {group["name"]: group for group in manifest["spec"]["groups"]}
    assert groups == {group["name"]: group for path in RULES for group in read(path)["groups"]}


def test_other_choices_reach_every_rule(tmp_path: Path) -> None:
    config = (ALERTS / "config.ini").read_text("utf-8")
    config = config.replace('jobs = training_job=~".+"', 'jobs = cluster="x"').replace("keep = 5m", "keep = 9m")
    for whose in ("localizer", "agents"):
        config = config.replace(f"{whose} =", f'{whose} = cluster="x"')
    (tmp_path / "mine.ini").write_text(config.replace("docs/runbook.md", "https://wiki/run"), "utf-8")
    assert generator().main(["--config", str(tmp_path / "mine.ini"), "--out", str(tmp_path)]) == 0
    run("promtool", "check", "rules", "--lint=all", "--lint-fatal", *sorted((tmp_path / "rules").glob("*.yml")))
    for path in sorted((tmp_path / "rules").glob("*.yml")):
        for rule in (rule for group in read(path)["groups"] for rule in group["rules"]):
            assert 'training_job=~".+"' not in rule["expr"]
            assert rule.get("keep_firing_for", "9m") == "9m"
            if "alert" in rule:
                assert rule["annotations"]["runbook_url"] == f"https://wiki/run#{rule['alert'].lower()}"
                assert "runbook" not in rule["annotations"]
            raw = re.findall(r"(?<![:\w])eroica_[a-z_]+(.{0,60})", rule["expr"], flags=re.DOTALL)
            assert all(after.lstrip("{ \n").startswith("cluster") for after in raw), rule["expr"]


def test_what_a_config_leaves_out_is_as_in_ours() -> None:
    ours = generator().files((ALERTS / "config.ini").read_text("utf-8"))
    assert generator().files("") == ours
    mine = generator().files("[patience]\nkeep = 9m\n")
    assert mine == {name: text.replace("keep_firing_for: 5m", "keep_firing_for: 9m") for name, text in ours.items()}


@pytest.mark.parametrize(
    ("config", "told"),
    [
        ("[patience]\nkept = 9m\n", "[patience] kept is no choice; alerts/config.ini has all of them"),
        ("[keep]\nkeep = 9m\n", "[keep] keep is no choice"),
        ("[patience]\nkeep = five\n", "[patience] keep = five cannot be used; give a duration, for example 5m"),
        ("[thresholds]\nshare = half\n", "[thresholds] share = half cannot be used; give a number"),
        ('[rules]\njobs = {cluster="x"}\n', '[rules] jobs = {cluster="x"} cannot be used; give matchers'),
        ("[rules]\njobs =\n", "[rules] jobs =  cannot be used; give matchers"),
        ("[rules]\nrunbook =\n", "[rules] runbook =  cannot be used; give its address"),
        ("keep = 9m\n", "no config.ini: File contains no section headers."),
        (b"\xff", "cannot be read: 'utf-8' codec"),
        (None, "cannot be read: No such file or directory; give a copy of alerts/config.ini"),
    ],
)
def test_a_config_that_cannot_be_used_is_one_line_and_writes_nothing(
    config: str | bytes | None, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mine, out = tmp_path / "mine.ini", tmp_path / "out"
    if config is not None:
        mine.write_bytes(config if isinstance(config, bytes) else config.encode())
    assert generator().main(["--config", str(mine), "--out", str(out)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("generate.py: ")
    assert told in line
    assert not out.exists()


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "out").write_text("a file")
    assert generator().main(["--out", str(tmp_path / "out")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith("/out cannot be written: Not a directory; give another folder")


def _headings(page: str) -> dict[str, Any]:
    sections = re.split(r"^## ", (ROOT / "docs" / page).read_text("utf-8"), flags=re.MULTILINE)[1:]
    return {section.partition("\n")[0].strip(): section.partition("\n")[2] for section in sections}


def test_the_runbook_has_an_entry_for_every_alert_and_every_cause() -> None:
    entries = _headings("runbook.md")
    assert set(alerts()) <= set(entries)
    for name in alerts():
        for word in ("**What it means.**", "**Look first.**", "**By PromQL.**", "**Then.**", "**When it is wrong.**"):
            assert word in entries[name], (name, word)
    causes = entries["What to do for each cause"]
    assert set(re.findall(r"^\| `([a-z_]+)` \|", causes, flags=re.MULTILINE)) == set(names.CAUSES)


@pytest.mark.parametrize("name", alerts())
def test_the_query_of_an_entry_asks_for_series_and_labels_that_exist(name: str) -> None:
    (query,) = re.findall(r"^\*\*By PromQL\.\*\* `(.+)`$", _headings("runbook.md")[name], flags=re.MULTILINE)
    promql_parser.parse(query)
    recorded = {rule["record"] for rule in all_rules() if "record" in rule}
    series = {metric.name: metric for metric in (*names.ALL, *agent.ALL)}
    asked = _selectors(query)
    assert asked <= recorded | set(series)
    assert asked or name == "EroicaDeadMan"
    known = {label for found in asked & set(series) for label in series[found].labels} | {"instance", "job", "state"}
    by = {label for group in re.findall(r"by \(([a-z_, ]+)\)", query) for label in group.split(", ")}
    assert by <= known
