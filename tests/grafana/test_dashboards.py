"""The dashboards: what their generator writes, what a linter asks of them, and queries that ask for what exists.

Rules of the dashboard linter that are left out, and why: variables and matchers for ``job`` and ``instance`` (these are
labels of the scrape, and our series carry the job as ``training_job``); of counters, the range of the panel is allowed
beside its rate interval (what happened in the time range), and one table shows what has happened since the start, since
increase() does not see a series that begins with 1.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlparse

import promql_parser
import pytest

from alert_rules import all_rules, run
from dashboards import FILES, UIDS, Asked, all_queries, board, boards, columns_of, filled_in, generator, panels
from eroica_hardware import names as agent_names
from eroica_otel import names
from eroica_otel.model import STATES

PANELS = [(uid, panel) for uid in UIDS for panel in panels(uid)]
OURS = {metric.name: metric for metric in (*names.ALL, *agent_names.ALL)}
PARTS = {metric.name + part: metric for metric in names.DURATIONS for part in ("_sum", "_count")}
FOREIGN = {
    "DCGM_FI_DEV_SM_CLOCK", "DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_XID_ERRORS",
    "node_pressure_cpu_waiting_seconds_total", "node_pressure_io_waiting_seconds_total",
    "node_pressure_memory_waiting_seconds_total", "node_cpu_core_throttles_total", "node_network_transmit_bytes_total",
    "node_network_receive_bytes_total", "node_infiniband_port_data_transmitted_bytes_total",
    "node_infiniband_port_data_received_bytes_total",
}  # fmt: skip
SELECTOR = re.compile(
    r"(?<![\w\"])(?P<name>(?:job:|cause:)?(?:eroica|hw|DCGM|node)_\w+(?::\w+)?)(?P<matchers>\{[^}]*\})?(?![:\w])"
)

if sys.version_info >= (3, 11):  # the SDK needs it; the files are the same everywhere

    def test_the_files_are_what_the_generator_writes() -> None:
        assert {path.name: path.read_text("utf-8") for path in FILES} == generator().files(), "make docs renews them"

    @pytest.mark.parametrize("uid", UIDS)
    def test_no_key_is_lost_on_the_way_through_the_sdk(uid: str) -> None:
        from grafana_foundation_sdk.cog.encoder import JSONEncoder
        from grafana_foundation_sdk.cog.plugins import register_default_plugins
        from grafana_foundation_sdk.models.dashboard import Dashboard

        register_default_plugins()
        given = board(uid)
        again = _keys(json.loads(JSONEncoder().encode(Dashboard.from_json(given))))
        # The annotations' own words are Grafana's, and unknown to the SDK.
        own = {f"annotations.list[].{name}" for name in ("titleFormat", "textFormat", "step")}
        assert _keys(given) - again <= own | {"id"}


def _keys(value: Any, path: str = "") -> set[str]:
    if isinstance(value, list):
        return {key for item in value for key in _keys(item, f"{path}[]")}
    if isinstance(value, dict):
        inner = {key for name, item in value.items() for key in _keys(item, f"{path}.{name}".lstrip("."))}
        return inner | {f"{path}.{name}".lstrip(".") for name in value}
    return set()


def test_the_five_boards_keep_their_uids() -> None:
    assert [one["uid"] for one in boards()] == [path.stem for path in FILES] == list(UIDS)
    assert len({one["title"] for one in boards()}) == 5


@pytest.mark.parametrize("uid", UIDS)
def test_a_board_is_what_a_provider_expects(uid: str) -> None:
    one = board(uid)
    assert (one["id"], one["schemaVersion"], one["editable"]) == (None, 41, False)
    assert (one["tags"], one["graphTooltip"], one["refresh"]) == (["eroica"], 1, "30s")
    assert one["description"].endswith(".")
    (link,) = one["links"]
    assert (link["type"], link["asDropdown"], link["includeVars"], link["keepTime"]) == ("dashboards", True, True, True)
    assert [annotation["name"] for annotation in one["annotations"]["list"]] == ["Windows", "Findings"]


@pytest.mark.parametrize("uid", UIDS)
def test_there_is_one_data_source_and_every_query_uses_it(uid: str) -> None:
    one = board(uid)
    source, *others = one["templating"]["list"]
    assert (source["type"], source["name"], source["label"]) == ("datasource", "datasource", "Data source")
    assert all(other["type"] == "query" for other in others)
    for user in (*others, *panels(uid), *one["annotations"]["list"], *(t for p in panels(uid) for t in p["targets"])):
        assert user["datasource"] == {"type": "prometheus", "uid": "${datasource}"}


@pytest.mark.parametrize("uid", UIDS)
def test_variables_scale_and_each_is_used(uid: str) -> None:
    one = board(uid)
    text = json.dumps([panel["targets"] for panel in panels(uid)] + one["templating"]["list"])
    for variable in one["templating"]["list"][1:]:
        assert variable["refresh"] == 2, "the values of the time range"
        assert re.search(rf"\${variable['name']}\b", text), variable["name"]
        # Thousands of values in one regular expression would be refused: all of them are one short expression.
        if variable.get("multi") and not variable.get("hide"):
            assert variable["includeAll"]
            assert variable["allValue"] in (".+", ".*")
            assert _in_an_expression(variable["name"], text)
        # Grafana quotes a single value for a regular expression only where several can be chosen.
        if not variable.get("multi"):
            assert not _in_an_expression(variable["name"], text)


def _in_an_expression(name: str, text: str) -> bool:
    return re.search(rf'=~\\"\${name}\b', text) is not None


@pytest.mark.parametrize(
    ("uid", "panel"), PANELS, ids=lambda given: given if isinstance(given, str) else given["title"]
)
def test_a_panel_says_what_it_shows_in_which_unit_and_why_there_may_be_nothing(uid: str, panel: dict[str, Any]) -> None:
    defaults = panel["fieldConfig"]["defaults"]
    assert panel["title"]
    assert panel["description"].endswith(".")
    assert panel["targets"]
    assert len(defaults["noValue"]) > 10, "no data, for which reason?"
    if panel["type"] != "table":
        assert defaults["unit"] not in ("", "short", "string")
        assert all(target["legendFormat"] for target in panel["targets"])
        return
    # Any other unit would format ranks and the ids of GPUs, which look like numbers.
    assert defaults["unit"] == "string"
    overrides = _overrides(panel)
    for name, title in columns_of(panel).items():
        if name.startswith("Value"):
            assert overrides[title]["unit"]
        else:
            assert "unit" not in overrides.get(title, {})
    values = {f"Value #{t['refId']}" if len(panel["targets"]) > 1 else "Value" for t in panel["targets"]}
    assert values == {name for name in columns_of(panel) if name.startswith("Value")}


@pytest.mark.parametrize("uid", UIDS)
def test_panels_lie_on_the_grid_and_on_nobody_else(uid: str) -> None:
    taken: set[tuple[int, int]] = set()
    everything = board(uid)["panels"]
    for panel in everything:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert max(x for x, _ in cells) < 24
        assert not cells & taken
        taken |= cells
    assert len({panel["id"] for panel in everything}) == len(everything)


@pytest.mark.parametrize("uid", UIDS)
def test_links_lead_to_variables_of_boards_that_exist_and_keep_the_time(uid: str) -> None:
    for link in _links(uid):
        url = urlparse(link["url"])
        target = url.path.removeprefix("/d/")
        assert target in UIDS
        known = {one["name"] for one in board(target)["templating"]["list"]}
        here = {one["name"] for one in board(uid)["templating"]["list"]}
        kept = set(re.findall(r"\$\{(\w+):queryparam\}", link["url"]))
        given = {name.removeprefix("var-") for name, _ in parse_qsl(url.query) if name.startswith("var-")}
        assert "${__url_time_range}" in link["url"]
        assert kept <= here
        assert {"datasource", "training_job"} <= kept | given <= known


def _links(uid: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for panel in panels(uid):
        found += panel["fieldConfig"]["defaults"].get("links", [])
        for one in panel["fieldConfig"]["overrides"]:
            found += [link for prop in one["properties"] if prop["id"] == "links" for link in prop["value"]]
    return found


def test_every_board_about_one_thing_is_reached_from_another() -> None:
    reached = {urlparse(link["url"]).path.removeprefix("/d/") for uid in UIDS for link in _links(uid)}
    assert reached == {"eroica-job", "eroica-function", "eroica-worker"}


@pytest.mark.parametrize("uid", ["eroica-job", "eroica-jobs"])
def test_who_is_to_blame_stands_on_the_first_screen(uid: str) -> None:
    table = next(panel for panel in panels(uid) if panel["title"].startswith("Who slows"))
    assert table["gridPos"]["y"] + table["gridPos"]["h"] <= 20
    columns = set(columns_of(table).values())
    assert {"Rank", "Host", "Function", "Cause", "Costs", "Since", "What to do"} <= columns


def _overrides(panel: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the properties that are set for a column or series, by its name."""
    return {
        one["matcher"]["options"]: {each["id"]: each["value"] for each in one["properties"]}
        for one in panel["fieldConfig"]["overrides"]
    }


def test_sentences_are_not_cut_at_the_end_of_a_line() -> None:
    found = [
        _overrides(panel)[title]["custom.cellOptions"]["wrapText"]
        for _, panel in PANELS
        if panel["type"] == "table"
        for title in set(columns_of(panel).values()) & {"What to do", "Stack"}
    ]
    assert found == [True] * 4, "the findings of three boards, and the stacks of a function"


def test_a_state_has_its_colour_wherever_it_is_drawn() -> None:
    (lines,) = (panel for _, panel in PANELS if panel["title"] == "States of the workers")
    (bands,) = (panel for _, panel in PANELS if panel["title"] == "State of each job")
    colours = {name: given["color"]["fixedColor"] for name, given in _overrides(lines).items()}
    (mapping,) = bands["fieldConfig"]["defaults"]["mappings"]
    assert set(colours) == set(STATES)
    assert sorted([*colours.values(), "text"]) == sorted(one["color"] for one in mapping["options"].values())
    assert (colours["healthy"], colours["degraded"], colours["blocked"]) == ("green", "orange", "red")


def _expression(uid: str, title: str) -> str:
    (found,) = {asked.expr for asked in all_queries() if (asked.board, asked.panel) == (uid, title)}
    return filled_in(found, training_job="llm", team="nlp")


def test_a_finding_that_becomes_critical_begins_once_and_stays_one_line(tmp_path: Path) -> None:
    who = {"training_job": "llm", "team": "nlp", "rank": "2", "host": "b", "function": "f", "cause": "slow_input"}
    series = [
        {"series": _quoted("eroica_anomaly_impact_ratio", **who, severity=severity, scope="worker"), "values": values}
        for severity, values in (("warning", "_ _ 0.1x2 stale"), ("critical", "_ _ _ _ _ 0.3x5"))
    ]
    line = _quoted("", rank="2", function="f", cause="slow_input")
    asked = [
        (_expression("eroica-job", "Findings"), "2m", [{"labels": _quoted("", **who), "value": 0.1}]),
        (_expression("eroica-job", "Findings"), "5m", []),
        (_expression("eroica-job", "What each culprit costs"), "3m", [{"labels": line, "value": 0.1}]),
        (_expression("eroica-job", "What each culprit costs"), "7m", [{"labels": line, "value": 0.3}]),
    ]
    told = [{"expr": expr, "eval_time": at, "exp_samples": samples} for expr, at, samples in asked]
    test = {"interval": "1m", "input_series": series, "promql_expr_test": told}
    (tmp_path / "case.yml").write_text(json.dumps({"rule_files": [], "tests": [test]}))  # YAML takes JSON
    assert "SUCCESS" in run("promtool", "test", "rules", tmp_path / "case.yml")


def _quoted(name: str, **labels: str) -> str:
    return name + "{" + ", ".join(f"{key}={json.dumps(value)}" for key, value in labels.items()) + "}"


@pytest.mark.parametrize("asked", all_queries(), ids=str)
def test_a_query_is_promql_about_the_chosen_jobs_and_series_that_exist(asked: Asked) -> None:
    promql_parser.parse(filled_in(asked.expr))
    recorded = {rule["record"] for rule in all_rules() if "record" in rule}
    for found in SELECTOR.finditer(re.sub(r"\b(?:on|by|group_left) ?\([^)]*\)", "", asked.expr)):
        name, matchers = found["name"], found["matchers"] or ""
        metric = OURS.get(name) or PARTS.get(name)
        assert metric or name in recorded or name in FOREIGN, name
        about_jobs = name.startswith("job:") or (metric is not None and "training_job" in metric.labels)
        assert not about_jobs or ("training_job=" in matchers and "team=~" in matchers), found[0]
        if metric is not None:
            assert set(re.findall(r"(\w+)(?:=|!)", matchers)) <= set(metric.labels), found[0]


@pytest.mark.parametrize("asked", all_queries(), ids=str)
def test_counters_are_only_seen_through_rates(asked: Asked) -> None:
    if (asked.board, asked.panel) == ("eroica-job", "Windows"):
        return
    for name in re.findall(r"(?<![:\w])((?:eroica|hw|node)_\w+(?:_total|_sum|_count))\b", asked.expr):
        seen = rf"(rate|increase)\({name}(\{{[^}}]*\}})?\[\$__(rate_interval|range)\]\)"
        assert re.search(seen, asked.expr), name


@pytest.mark.parametrize("asked", all_queries(), ids=str)
def test_nothing_draws_a_line_for_each_of_thousands_of_workers(asked: Asked) -> None:
    bounded = ('rank="$rank"', "eroica_anomaly_", "topk(", "bottomk(", 'device=~"$', 'host=~"$node"')
    many = {"rank", "host", "instance", "device"} & (asked.legend | asked.table)
    assert not many or any(word in asked.expr for word in bounded) or asked.letter == "", asked.expr
