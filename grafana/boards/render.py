"""A Board -> Grafana's JSON: variables, links, annotations, and its panels laid out from left to right."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from grafana_foundation_sdk.builders import dashboard as board_builders
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import dashboard

from boards.panels import SOURCE, panel
from boards.promql import once
from boards.spec import Board, Section, Spot, Variable

COLUMNS = 24
ANNOTATIONS = (
    ("Windows", "blue", "window of {{training_job}}", "{{reason}}"),
    ("Findings", "red", "{{cause}} in {{training_job}}", "rank {{rank}} on {{host}}: {{function}}"),
)
"""Name, colour, title and text."""


def render(board: Board) -> dict[str, Any]:
    """Return the dashboard as JSON data, without the nulls that Grafana does not take everywhere."""
    made = board_builders.Dashboard(board.title).uid(board.uid).tags(["eroica"]).readonly().refresh("30s")
    made.tooltip(dashboard.DashboardCursorSync.CROSSHAIR).time(board.since, "now").timezone("browser")
    made.description(board.description)
    link = board_builders.DashboardLink("Eroica").type(dashboard.DashboardLinkType.DASHBOARDS).tags(["eroica"])
    made.link(link.as_dropdown(True).include_vars(True).keep_time(True))
    made.with_variable(board_builders.DatasourceVariable("datasource").label("Data source").type("prometheus"))
    for variable in board.variables:
        made.with_variable(_variable(variable))
    for expr, (name, colour, _, _) in zip(_events(board.jobs), ANNOTATIONS, strict=True):
        asked = board_builders.AnnotationQuery().name(name).datasource(SOURCE).enable(True).icon_color(colour)
        made.annotation(asked.expr(expr))
    for one in _laid_out(board):
        made.with_panel(one)
    data: dict[str, Any] = _without_nulls(json.loads(JSONEncoder().encode(made.build())))
    return _finished(data)


def _events(jobs: str) -> tuple[str, str]:
    window = f"max by (training_job, team, reason) (eroica_localizer_window_id{{{jobs}}})"
    earlier = f"max by (training_job, team, reason) (eroica_localizer_window_id{{{jobs}}} offset 1m)"
    return f"({window} > {earlier}) or ({window} unless {earlier})", once(jobs)


def _laid_out(board: Board) -> Iterator[Any]:
    number, y = 1, 0
    for section in board.sections:
        if section.title:
            row = board_builders.Row(section.title).id(number)
            yield row.grid_pos(dashboard.GridPos(x=0, y=y, w=COLUMNS, h=1))
            number, y = number + 1, y + 1
        for x, line, spot in _flow(section):
            yield panel(number, spot, x, y + line)
            number += 1
        y += max(line + spot.size[1] for _, line, spot in _flow(section))


def _flow(section: Section) -> Iterator[tuple[int, int, Spot]]:
    """Yield column, line and panel; a line ends where the next panel does not fit."""
    x = line = tallest = 0
    for spot in section.spots:
        width, height = spot.size
        if x + width > COLUMNS:
            x, line, tallest = 0, line + tallest, 0
        yield x, line, spot
        x, tallest = x + width, max(tallest, height)


def _variable(variable: Variable) -> Any:
    made = board_builders.QueryVariable(variable.name).label(variable.title).datasource(SOURCE)
    made.query(f"label_values({variable.series}, {variable.label})")
    made.refresh(dashboard.VariableRefresh.ON_TIME_RANGE_CHANGED)
    numeric, words = dashboard.VariableSort.NUMERICAL_ASC, dashboard.VariableSort.ALPHABETICAL_ASC
    made.sort(numeric if variable.numeric else words)
    if variable.everything:
        made.multi(True).include_all(True).all_value(variable.everything)
        made.current(dashboard.VariableOption(selected=True, text="All", value="$__all"))
    if not variable.shown:
        # Several at once where a worker moved in the time range.
        made.hide(dashboard.VariableHide.HIDE_VARIABLE).multi(True).include_all(True)
        made.current(dashboard.VariableOption(selected=True, text="All", value="$__all"))
    return made


def _finished(data: dict[str, Any]) -> dict[str, Any]:
    data["id"] = None
    for variable in data["templating"]["list"]:
        # The SDK writes these for every variable; they belong to those of type interval.
        for key in ("auto", "auto_min", "auto_count"):
            variable.pop(key, None)
    for annotation, (_, _, title, text) in zip(data["annotations"]["list"], ANNOTATIONS, strict=True):
        annotation |= {"titleFormat": title, "textFormat": text, "step": "1m"}
    return data


def _without_nulls(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    if isinstance(value, dict):
        # The lowest step of a threshold is null on purpose.
        kept = {key: item for key, item in value.items() if item is not None or (key == "value" and "color" in value)}
        return {key: _without_nulls(item) for key, item in kept.items()}
    return value
