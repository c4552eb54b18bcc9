"""Takes nothing, gives grafana/dashboards/eroica-overview.json: which job, which worker, which function, since when.

``make docs`` runs it (Python >= 3.11, where grafana-foundation-sdk runs); a test fails when the file is not what this
writes. Queries use the series themselves, so the board works where the recording rules are not loaded.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grafana_foundation_sdk.builders import common as common_builders
from grafana_foundation_sdk.builders import dashboard as board_builders
from grafana_foundation_sdk.builders import prometheus, stat, table, timeseries
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import common, dashboard
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

FILE = Path(__file__).parent / "dashboards" / "eroica-overview.json"
JOBS = 'training_job=~"$training_job", team=~"$team"'
BY_JOB = "by (training_job, team)"
FINDING = "training_job, team, rank, host, function, cause, severity, scope, link"
SOURCE = dashboard.DataSourceRef(type_val="prometheus", uid="${datasource}")
GREEN, ORANGE, RED = "green", "orange", "red"


@dataclass(frozen=True, slots=True)
class Query:
    """One PromQL query and how its series are called."""

    expr: str
    legend: str = ""


@dataclass(frozen=True, slots=True)
class Spot:
    """One panel: place on 24 columns, words, unit, queries; ``steps`` are (from value, colour)."""

    kind: str
    title: str
    description: str
    place: tuple[int, int, int, int]
    unit: str
    queries: Sequence[Query]
    steps: Sequence[tuple[float, str]] = ()
    stacked: bool = False
    columns: Mapping[str, str] | None = None
    units: Mapping[str, str] | None = None


def _mean_period(by: str) -> str:
    series = "eroica_iteration_period_seconds"
    sums = f"sum by ({by}) (rate({series}_sum{{{JOBS}}}[$__rate_interval]))"
    return f"{sums} / (sum by ({by}) (rate({series}_count{{{JOBS}}}[$__rate_interval])) > 0)"


def _shares(series: str) -> str:
    return f'max by (training_job, team, function, kind, peer_role) ({series}{{{JOBS}, component="beta"}})'


_OPEN = f'max by ({FINDING}) (eroica_anomaly_impact_ratio{{{JOBS}, severity=~"warning|critical"}})'
_ADVICE = "max by (cause, advice) (cause:eroica_advice:info)"
_SINCE = f"1000 * min_over_time(timestamp({_OPEN})[$__range:])"
SPOTS = (
    Spot(
        "stat", "Open findings", "Findings above info that have not ended. 0 is healthy; nothing at all means that no "
        "localizer is scraped.", (0, 0, 5, 4), "none",
        [Query(f"sum {BY_JOB} (max {BY_JOB} (eroica_job_anomalies{{{JOBS}}}))", "{{training_job}}")],
        [(0, GREEN), (1, RED)],
    ),
    Spot(
        "stat", "Iteration time", "Mean time from one optimizer update to the next, over all workers of a job.",
        (5, 0, 5, 4), "s", [Query(_mean_period("training_job, team"), "{{training_job}}")],
    ),
    Spot(
        "stat", "Slower than baseline", "Rise of the iteration time over the job's own baseline; median of its "
        "workers. A window is taken from 5 % on.", (10, 0, 5, 4), "percentunit",
        [Query(f"quantile {BY_JOB} (0.5, eroica_iteration_degradation_ratio{{{JOBS}}})", "{{training_job}}")],
        [(0, GREEN), (0.05, ORANGE), (0.2, RED)],
    ),
    Spot(
        "stat", "Workers without patterns", "Workers whose patterns of the latest window did not arrive: they were "
        "not judged.", (15, 0, 5, 4), "none",
        [Query(
            f"max {BY_JOB} (eroica_localizer_workers_expected{{{JOBS}}}) - "
            f"max {BY_JOB} (eroica_localizer_workers_seen{{{JOBS}}})", "{{training_job}}",
        )],
        [(0, GREEN), (1, ORANGE)],
    ),
    Spot(
        "stat", "Age of the latest verdict", "Time since a window was judged. A healthy job is judged once, at its "
        "start.", (20, 0, 4, 4), "s",
        [Query(
            f"time() - max {BY_JOB} (eroica_localizer_last_success_timestamp_seconds{{{JOBS}}})", "{{training_job}}"
        )],
    ),
    Spot(
        "table", "Who slows which job", "One row for each culprit: worker, function, cause, share of each iteration "
        "that it costs, first sight of it in the time range, and what to do. Empty is healthy. Rank and host are empty "
        "where all workers or a link are the cause.", (0, 4, 24, 7), "short",
        [
            Query(f"({_OPEN} * on (cause) group_left (advice) {_ADVICE}) or ({_OPEN} unless on (cause) {_ADVICE})"),
            Query(_SINCE),
        ],
        columns={
            "training_job": "Job", "team": "Team", "rank": "Rank", "host": "Host", "function": "Function",
            "cause": "Cause", "Value #A": "Costs", "Value #B": "Since", "severity": "Severity", "advice": "What to do",
            "scope": "Scope", "link": "Link",
        },
        units={"Costs": "percentunit", "Since": "dateTimeAsIso"},
    ),
    Spot(
        "timeseries", "Iteration time of each worker", "Mean time of an iteration. A synchronous job is slow on all "
        "workers at once, so this shows when, not who.", (0, 11, 12, 8), "s",
        [Query(_mean_period("training_job, rank"), "{{training_job}} rank {{rank}}")],
    ),
    Spot(
        "timeseries", "What each culprit costs", "Share of each iteration that an open finding costs.",
        (12, 11, 12, 8), "percentunit",
        [Query(_OPEN, "{{training_job}} rank {{rank}} {{function}} ({{cause}})")],
        [(0, GREEN), (0.05, ORANGE), (0.2, RED)],
    ),
    Spot(
        "table", "Where an iteration goes", "Share of the critical path by function: median of the workers in the "
        "latest window and in the reference window.", (0, 19, 12, 9), "percentunit",
        [
            Query(f"topk(20, {_shares('eroica_function_median_ratio')})"),
            Query(_shares("eroica_function_reference_ratio")),
        ],
        columns={
            "training_job": "Job", "function": "Function", "kind": "Kind", "peer_role": "Role", "Value #A": "Now",
            "Value #B": "Reference",
        },
        units={"Now": "percentunit", "Reference": "percentunit"},
    ),
    Spot(
        "timeseries", "Kinds of work", "Share of the latest window by kind of work on the critical path; mean of the "
        "workers. It is shown for some minutes after a window.", (12, 19, 12, 9), "percentunit",
        [Query(
            "avg by (training_job, kind) (max by (training_job, rank, kind) "
            f"(eroica_kind_beta_ratio{{{JOBS}}}))", "{{training_job}} {{kind}}",
        )],
        stacked=True,
    ),
    Spot(
        "timeseries", "States of the workers", "Workers by state. Paused is a checkpoint or a validation; blocked is "
        "no update for five mean iterations.", (0, 28, 8, 7), "none",
        [Query(
            "sum by (training_job, state) (max by (training_job, rank, state) "
            f"(eroica_worker_state{{{JOBS}}}))", "{{training_job}} {{state}}",
        )],
        stacked=True,
    ),
    Spot(
        "timeseries", "Time spent waiting for input", "Share of its time that each worker spends inside next() of its "
        "input.", (8, 28, 8, 7), "percentunit",
        [Query(
            "max by (training_job, rank) (rate(eroica_input_wait_seconds_total"
            f"{{{JOBS}}}[$__rate_interval]))", "{{training_job}} rank {{rank}}",
        )],
    ),
    Spot(
        "timeseries", "What a window costs", "Time for which training stood still to stop and save the latest window, "
        "by worker.", (16, 28, 8, 7), "s",
        [Query(
            f"max by (training_job, rank) (eroica_window_blocked_seconds{{{JOBS}}})", "{{training_job}} rank {{rank}}"
        )],
    ),
    Spot(
        "timeseries", "Windows", "Windows by reason and outcome, in each interval.", (0, 35, 8, 6), "none",
        [Query(
            "max by (training_job, reason, outcome) (increase(eroica_windows_total"
            f"{{{JOBS}}}[$__rate_interval]))", "{{training_job}} {{reason}} {{outcome}}",
        )],
    ),
    Spot(
        "timeseries", "Failures of eroica_otel", "Failures inside workers and localizer by stage, in each interval; "
        "training is never affected.", (8, 35, 8, 6), "none",
        [
            Query(
                "sum by (training_job, stage) (increase(eroica_failures_total"
                f"{{{JOBS}}}[$__rate_interval]))", "{{training_job}} {{stage}}",
            ),
            Query(
                "sum by (stage) (increase(eroica_localizer_failures_total[$__rate_interval]))", "localizer {{stage}}"
            ),
        ],
    ),
    Spot(
        "timeseries", "Deliveries", "Deliveries that workers push, a second, by way and outcome; "
        "nothing where all of them are scraped.", (16, 35, 8, 6), "ops",
        [Query(
            "sum by (training_job, delivery, outcome) (rate(eroica_deliveries_total"
            f"{{{JOBS}}}[$__rate_interval]))", "{{training_job}} {{delivery}} {{outcome}}",
        )],
    ),
)  # fmt: skip

_NOW = f"max {BY_JOB} (eroica_localizer_window_id{{{JOBS}}})"
_WINDOWS = f"({_NOW} > {_NOW.replace('})', '} offset 1m)')}) or ({_NOW} unless {_NOW.replace('})', '} offset 1m)')})"


def _panel(number: int, spot: Spot) -> Any:
    made: Any = {"stat": _stat, "table": _table, "timeseries": _timeseries}[spot.kind](spot)
    x, y, w, h = spot.place
    made.id(number).title(spot.title).description(spot.description).unit(spot.unit).datasource(SOURCE)
    made.grid_pos(dashboard.GridPos(x=x, y=y, w=w, h=h))
    for letter, query in zip("ABC", spot.queries, strict=False):
        made.with_target(_target(spot, letter, query))
    if spot.steps:
        steps = [dashboard.Threshold(value=None if at == 0 else at, color=colour) for at, colour in spot.steps]
        made.thresholds(board_builders.ThresholdsConfig().mode(dashboard.ThresholdsMode.ABSOLUTE).steps(steps))
    return made


def _target(spot: Spot, letter: str, query: Query) -> Any:
    target = prometheus.Dataquery().ref_id(letter).expr(query.expr).datasource(SOURCE)
    if spot.kind == "table":
        return target.instant().format(PromQueryFormat.TABLE)
    return (target.instant() if spot.kind == "stat" else target.range()).legend_format(query.legend)


def _stat(spot: Spot) -> Any:
    reduce = common_builders.ReduceDataOptions().calcs(["lastNotNull"]).values(False)
    made = stat.Panel().reduce_options(reduce).graph_mode(common.BigValueGraphMode.NONE)
    return made.color_mode(common.BigValueColorMode.BACKGROUND if spot.steps else common.BigValueColorMode.NONE)


def _timeseries(spot: Spot) -> Any:
    legend = common_builders.VizLegendOptions().display_mode(common.LegendDisplayMode.LIST).show_legend(True)
    legend = legend.placement(common.LegendPlacement.BOTTOM).calcs([])
    tooltip = (
        common_builders.VizTooltipOptions().mode(common.TooltipDisplayMode.MULTI).sort(common.SortOrder.DESCENDING)
    )
    made = timeseries.Panel().legend(legend).tooltip(tooltip).line_width(1).fill_opacity(60 if spot.stacked else 0)
    if spot.stacked:
        made = made.stacking(common_builders.StackingConfig().mode(common.StackingMode.NORMAL))
    return made


def _table(spot: Spot) -> Any:
    names = dict(spot.columns or {})
    order = {old: index for index, old in enumerate(names)}
    hidden = {"Time": True} | {column: True for column in ("team",) if column not in names}
    organize = {"indexByName": order, "renameByName": names, "excludeByName": hidden}
    made = table.Panel()
    made.with_transformation(dashboard.DataTransformerConfig(id_val="merge", options={}))
    made.with_transformation(dashboard.DataTransformerConfig(id_val="organize", options=organize))
    made.sort_by([common_builders.TableSortByFieldState().display_name(names["Value #A"]).desc(True)])
    # A unit on the whole panel would format ranks, which look like numbers.
    for column, unit in (spot.units or {}).items():
        made.override_by_name(column, [dashboard.DynamicConfigValue(id_val="unit", value=unit)])
    return made


def _variables() -> list[Any]:
    label = dashboard.VariableOption(selected=True, text="All", value="$__all")
    source = board_builders.DatasourceVariable("datasource").label("Data source").type("prometheus")
    made = [source]
    for name, title, everything in (("training_job", "Training job", ".+"), ("team", "Team", ".*")):
        variable = board_builders.QueryVariable(name).label(title).datasource(SOURCE)
        variable.query(f"label_values(eroica_world_size, {name})").refresh(
            dashboard.VariableRefresh.ON_TIME_RANGE_CHANGED
        )
        variable.multi(True).include_all(True).all_value(everything).current(label)
        made.append(variable.sort(dashboard.VariableSort.ALPHABETICAL_ASC))
    return made


def board() -> dict[str, Any]:
    """Return the dashboard as JSON data, without the nulls that Grafana does not take everywhere."""
    title = "Eroica / Overview"
    made = board_builders.Dashboard(title).uid("eroica-overview").tags(["eroica"]).readonly().refresh("30s")
    made.tooltip(dashboard.DashboardCursorSync.CROSSHAIR).time("now-1h", "now").timezone("browser")
    made.description("Which training job is slow, which worker and function slows it, and since when.")
    link = board_builders.DashboardLink("Eroica").type(dashboard.DashboardLinkType.DASHBOARDS).tags(["eroica"])
    made.link(link.as_dropdown(True).include_vars(True).keep_time(True))
    for variable in _variables():
        made.with_variable(variable)
    windows = board_builders.AnnotationQuery().name("Windows").datasource(SOURCE).enable(True).icon_color("blue")
    made.annotation(windows.expr(_WINDOWS))
    for number, spot in enumerate(SPOTS, start=1):
        made.with_panel(_panel(number, spot))
    data: dict[str, Any] = _without_nulls(json.loads(JSONEncoder().encode(made.build())))
    data["id"] = None
    for variable in data["templating"]["list"]:
        # The SDK writes these for every variable; they belong to those of type interval.
        for key in ("auto", "auto_min", "auto_count"):
            variable.pop(key, None)
    data["annotations"]["list"][0] |= {"titleFormat": "window of {{training_job}}", "step": "1m"}
    return data


def _without_nulls(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    if isinstance(value, dict):
        # The lowest step of a threshold is null on purpose.
        kept = {key: item for key, item in value.items() if item is not None or (key == "value" and "color" in value)}
        return {key: _without_nulls(item) for key, item in kept.items()}
    return value


def text() -> str:
    """Return the dashboard file."""
    return json.dumps(board(), indent=2) + "\n"


def main() -> int:
    """Write the dashboard."""
    FILE.write_text(text(), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
