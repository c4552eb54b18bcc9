"""A Spot -> a panel of grafana-foundation-sdk."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from grafana_foundation_sdk.builders import common as common_builders
from grafana_foundation_sdk.builders import dashboard as board_builders
from grafana_foundation_sdk.builders import heatmap, prometheus, stat, statetimeline, table, timeseries
from grafana_foundation_sdk.models import common, dashboard
from grafana_foundation_sdk.models.heatmap import HeatmapColorMode
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

from boards.spec import Link, Query, Spot

SOURCE = dashboard.DataSourceRef(type_val="prometheus", uid="${datasource}")
INSTANT = ("stat", "table")
WIDTHS = {
    "Rank": 70, "Role": 90, "Kind": 120, "Costs": 80, "Since": 170, "Wait for it": 100, "Severity": 90, "Scope": 80,
    "Link": 130, "Cause": 150, "Team": 110, "Judged": 170, "Decided": 170, "Local rank": 90, "Restart": 80, "Seen": 60,
    "State": 110, "Slower by": 100, "Findings": 90, "Workers": 90, "Now": 80, "Reference": 100, "Component": 110,
    "Median": 90, "MAD": 90, "Iteration": 110, "Baseline": 110, "GPU hours lost": 130, "Last judged": 130,
    "Schema": 90, "Version": 120, "Localizers": 110, "PCI": 130, "Network card": 120,
    "Beta": 100, "Role's beta": 110, "Difference": 110, "Mu": 90, "Sigma": 90, "Role's mu": 100,
}  # fmt: skip
"""Pixels of columns that are narrow or would be cut; the others share what is left."""
WRAPPED = ("What to do", "Stack")
"""Columns of sentences, which would be cut at the end of a line."""
STATE = "State"
"""Column of a table whose numbers are words."""


def panel(number: int, spot: Spot, x: int, y: int) -> Any:
    """Return the panel at this place of the grid."""
    made: Any = _MAKERS[spot.kind](spot)
    made.id(number).title(spot.title).description(spot.description).unit(spot.unit).datasource(SOURCE)
    made.no_value(spot.missing)
    width, height = spot.size
    made.grid_pos(dashboard.GridPos(x=x, y=y, w=width, h=height))
    for letter, query in zip("ABCDEFGHIJ", spot.queries, strict=False):
        made.with_target(_target(spot, letter, query))
    if spot.steps:
        steps = [dashboard.Threshold(value=at if at else None, color=colour) for at, colour in spot.steps]
        made.thresholds(board_builders.ThresholdsConfig().mode(dashboard.ThresholdsMode.ABSOLUTE).steps(steps))
    if spot.states and spot.kind != "table":
        made.mappings([_words(spot)])
    if "" in spot.links:
        made.data_links([_link(spot.links[""])])
    return made


def _target(spot: Spot, letter: str, query: Query) -> Any:
    target = prometheus.Dataquery().ref_id(letter).expr(query.expr).datasource(SOURCE)
    if spot.kind == "table":
        return target.instant().format(PromQueryFormat.TABLE)
    return (target.instant() if spot.kind in INSTANT else target.range()).legend_format(query.legend)


def _words(spot: Spot) -> Any:
    words = {
        f"{value:g}": dashboard.ValueMappingResult(text=text, color=colour, index=index)
        for index, (value, (text, colour)) in enumerate(spot.states.items())
    }
    return dashboard.ValueMap(options=words)


def _link(link: Link) -> Any:
    made = board_builders.DashboardLink(link.title).type(dashboard.DashboardLinkType.LINK)
    return made.url(link.url()).target_blank(False)


def _stat(spot: Spot) -> Any:
    reduce = common_builders.ReduceDataOptions().calcs(["lastNotNull"]).values(False)
    made = stat.Panel().reduce_options(reduce).graph_mode(common.BigValueGraphMode.NONE)
    whose = any("{{" in query.legend for query in spot.queries)
    text = common.BigValueTextMode.VALUE_AND_NAME if whose else common.BigValueTextMode.VALUE
    made.text_mode(common.BigValueTextMode.NAME if spot.named else text)
    made.color_scheme(board_builders.FieldColor().mode(dashboard.FieldColorModeId.THRESHOLDS))
    return made.color_mode(common.BigValueColorMode.BACKGROUND if spot.steps else common.BigValueColorMode.NONE)


def _legend() -> Any:
    legend = common_builders.VizLegendOptions().display_mode(common.LegendDisplayMode.LIST).show_legend(True)
    return legend.placement(common.LegendPlacement.BOTTOM).calcs([])


def _tooltip() -> Any:
    shown = common_builders.VizTooltipOptions().mode(common.TooltipDisplayMode.MULTI)
    return shown.sort(common.SortOrder.DESCENDING)


def _timeseries(spot: Spot) -> Any:
    made = timeseries.Panel().legend(_legend()).tooltip(_tooltip())
    made.line_width(1).fill_opacity(60 if spot.stacked else 0).axis_soft_min(0)
    # What a window left is there for two minutes; a lonely sample is a point.
    made.show_points(common.VisibilityMode.AUTO)
    if spot.stacked:
        made.stacking(common_builders.StackingConfig().mode(common.StackingMode.NORMAL))
    for name, colour in spot.colours.items():
        made.override_by_name(name, [_property("color", {"mode": "fixed", "fixedColor": colour})])
    return made


def _timeline(spot: Spot) -> Any:
    made = statetimeline.Panel().legend(_legend()).tooltip(_tooltip()).merge_values(True).row_height(0.8)
    return made.show_value(common.VisibilityMode.AUTO).fill_opacity(80).line_width(0)


def _heatmap(spot: Spot) -> Any:
    """Return a heat map of rows that the query has made: one series for each row, in the order of their names."""
    colour = heatmap.HeatmapColorOptions().mode(HeatmapColorMode.SCHEME).scheme("Oranges").steps(64)
    axis = heatmap.YAxisConfig().axis_label(spot.axis).axis_placement(common.AxisPlacement.LEFT)
    rows = heatmap.RowsHeatmapOptions().layout(common.HeatmapCellLayout.GE).value("workers")
    made = heatmap.Panel().calculate(False).color(colour.fill("dark-orange").exponent(0.5)).y_axis(axis)
    # Counting thousands of ranks for each pixel would take seconds.
    made.max_data_points(60)
    made.rows_frame(rows).cell_values(heatmap.CellValues().unit(spot.unit)).cell_gap(1).show_legend()
    return made.mode(common.TooltipDisplayMode.SINGLE).show_y_histogram()


def _table(spot: Spot) -> Any:
    letters = "ABCDEFGHIJ"[: len(spot.queries)]
    names = {spot.value_column(key) if key in letters else key: title for key, title in spot.columns.items()}
    order = {old: index for index, old in enumerate(names)}
    hidden = {"Time": True} | dict.fromkeys(spot.hidden, True)
    organize = {"indexByName": order, "renameByName": names, "excludeByName": hidden}
    made = table.Panel()
    made.with_transformation(dashboard.DataTransformerConfig(id_val="merge", options={}))
    made.with_transformation(dashboard.DataTransformerConfig(id_val="organize", options=organize))
    least_first = spot.queries[0].expr.startswith("bottomk")
    by = common_builders.TableSortByFieldState().display_name(spot.columns["A"])
    made.sort_by([by.desc(not least_first)])
    # What is missing in one row is no reason for the whole table.
    made.override_by_regexp(".*", [_property("noValue", "-")])
    # A unit on the whole panel would format ranks, which look like numbers.
    for column in spot.columns.values():
        if properties := list(_properties(spot, column)):
            made.override_by_name(column, properties)
    return made


def _properties(spot: Spot, column: str) -> Iterator[Any]:
    if column in spot.units:
        yield _property("unit", spot.units[column])
    if column in spot.links:
        link = spot.links[column]
        yield _property("links", [{"title": link.title, "url": link.url(), "targetBlank": False}])
    if column in WIDTHS:
        yield _property("custom.width", WIDTHS[column])
    if column in WRAPPED:
        yield _property("custom.cellOptions", {"type": "auto", "wrapText": True})
    if column == STATE and spot.states:
        yield _property("mappings", [_words(spot)])
        yield _property("custom.cellOptions", {"type": "color-text"})


def _property(name: str, value: object) -> Any:
    return dashboard.DynamicConfigValue(id_val=name, value=value)


_MAKERS = {"stat": _stat, "table": _table, "timeseries": _timeseries, "timeline": _timeline, "heatmap": _heatmap}
