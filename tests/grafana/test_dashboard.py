"""The dashboard: what its generator writes, what a linter asks of one, and queries that parse and ask for what exists.

Rules of the dashboard linter that are left out, and why: variables and matchers for ``job`` and ``instance`` (these are
labels of the scrape, and our series carry the job as ``training_job``), a unit on tables (it would format ranks).
"""

from __future__ import annotations

import json
import re
import sys
from typing import Any

import promql_parser
import pytest

from dashboards import FILE, filled_in, generator, panels, queries
from eroica_otel import names

BOARD: dict[str, Any] = json.loads(FILE.read_text("utf-8"))
PANELS = panels()
KNOWN = set(names.BY_NAME) | {metric.name + part for metric in names.DURATIONS for part in ("_sum", "_count")}
OF_NO_JOB = {metric.name for metric in names.ALL if "training_job" not in metric.labels}

if sys.version_info >= (3, 11):  # the SDK needs it; the file is the same everywhere

    def test_the_file_is_what_the_generator_writes() -> None:
        assert FILE.read_text("utf-8") == generator().text(), "make docs renews it"

    def test_no_key_is_lost_on_the_way_through_the_sdk() -> None:
        from grafana_foundation_sdk.cog.encoder import JSONEncoder
        from grafana_foundation_sdk.cog.plugins import register_default_plugins
        from grafana_foundation_sdk.models.dashboard import Dashboard

        register_default_plugins()
        again = json.loads(JSONEncoder().encode(Dashboard.from_json(BOARD)))
        lost = {key for key in _keys(BOARD) if key not in _keys(again)}
        # The annotations' own words are Grafana's, and unknown to the SDK.
        assert lost <= {"annotations.list[].titleFormat", "annotations.list[].step", "id"}


def _keys(value: Any, path: str = "") -> set[str]:
    if isinstance(value, list):
        return {key for item in value for key in _keys(item, f"{path}[]")}
    if isinstance(value, dict):
        inner = {key for name, item in value.items() for key in _keys(item, f"{path}.{name}".lstrip("."))}
        return inner | {f"{path}.{name}".lstrip(".") for name in value}
    return set()


def test_the_board_is_what_a_provider_expects() -> None:
    assert (BOARD["uid"], BOARD["id"], BOARD["schemaVersion"], BOARD["editable"]) == (
        "eroica-overview",
        None,
        41,
        False,
    )
    assert (BOARD["tags"], BOARD["graphTooltip"], BOARD["refresh"]) == (["eroica"], 1, "30s")
    (link,) = BOARD["links"]
    assert (link["type"], link["asDropdown"], link["includeVars"], link["keepTime"]) == ("dashboards", True, True, True)


def test_there_is_one_data_source_and_every_query_uses_it() -> None:
    source, *others = BOARD["templating"]["list"]
    assert (source["type"], source["name"], source["label"]) == ("datasource", "datasource", "Data source")
    assert all(other["type"] == "query" for other in others)
    for user in (*others, *PANELS, *BOARD["annotations"]["list"], *(t for p in PANELS for t in p["targets"])):
        assert user["datasource"] == {"type": "prometheus", "uid": "${datasource}"}


def test_variables_choose_several_or_all() -> None:
    everything = {"training_job": ".+", "team": ".*"}
    for variable in BOARD["templating"]["list"][1:]:
        assert variable["allValue"] == everything[variable["name"]]
        assert (variable["multi"], variable["includeAll"], variable["refresh"]) == (True, True, 2)


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: str(panel["title"]))
def test_a_panel_says_what_it_shows_in_which_unit(panel: dict[str, Any]) -> None:
    assert panel["title"]
    assert panel["description"].endswith(".")
    assert panel["targets"]
    assert panel["fieldConfig"]["defaults"]["unit"]
    if panel["type"] == "table":
        overridden = {one["matcher"]["options"] for one in panel["fieldConfig"]["overrides"]}
        organized = next(t for t in panel["transformations"] if t["id"] == "organize")["options"]["renameByName"]
        assert overridden == {organized["Value #A"], organized["Value #B"]}
    else:
        assert all(target["legendFormat"] for target in panel["targets"])


def test_panels_lie_on_the_grid_and_on_nobody_else() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in PANELS:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert max(x for x, _ in cells) < 24
        assert not cells & taken
        taken |= cells
    assert len({panel["id"] for panel in PANELS}) == len(PANELS)


def test_who_is_to_blame_stands_on_the_first_screen() -> None:
    table = next(panel for panel in PANELS if panel["type"] == "table")
    assert table["gridPos"]["y"] + table["gridPos"]["h"] <= 16
    columns = next(t for t in table["transformations"] if t["id"] == "organize")["options"]["renameByName"].values()
    assert {"Job", "Rank", "Host", "Function", "Cause", "Costs", "Since", "What to do"} <= set(columns)


@pytest.mark.parametrize(("title", "query"), queries(), ids=lambda value: value[:40])
def test_a_query_is_promql_about_the_chosen_jobs_and_series_that_exist(title: str, query: str) -> None:
    promql_parser.parse(filled_in(query))
    asked = set(re.findall(r"(?<![:\w])eroica_[a-z_]+", query))
    assert asked <= KNOWN, title
    for name in asked - OF_NO_JOB:
        for after in re.findall(rf"\b{name}(.*?)[)\]}}]", query):
            assert 'training_job=~"$training_job", team=~"$team"' in after + "}", title


@pytest.mark.parametrize(("title", "query"), queries(), ids=lambda value: value[:40])
def test_counters_are_only_seen_through_rates_of_the_panels_own_interval(title: str, query: str) -> None:
    for name in re.findall(r"(?<![:\w])(eroica_[a-z_]+(?:_total|_sum|_count))\b", query):
        assert re.search(rf"(rate|increase)\({name}(\{{[^}}]*\}})?\[\$__rate_interval\]\)", query), title
