"""The dashboards as tests see them: their files, panels, queries, and these as Grafana would fill them in."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from loaded import module_of

GRAFANA = Path(__file__).parents[1] / "grafana"
FILES = sorted((GRAFANA / "dashboards").glob("*.json"))
UIDS = ("eroica-function", "eroica-itself", "eroica-job", "eroica-jobs", "eroica-worker")
CHOSEN = {
    "training_job": ".+", "team": ".*", "role": ".*", "host": ".+", "rank": "2", "function": "augment (data.py:42)",
    "function_id": ".+", "node": ".+", "gpu": ".+", "nic": ".+", "__rate_interval": "1m", "__range": "15m",
}  # fmt: skip
"""What variables stand for where a test chooses nothing."""


@dataclass(frozen=True)
class Asked:
    """One query of a board.

    Attributes:
        board: Uid.
        panel: Title.
        instant: Whether it is asked at one time, not over a range.
        legend: Names of the labels that its legend shows.
        table: Names of the labels that are columns.
        points: Values of one series that Grafana asks for.
    """

    board: str
    panel: str
    letter: str
    expr: str
    instant: bool
    legend: frozenset[str]
    table: frozenset[str] = frozenset()
    points: int = 240

    def __str__(self) -> str:
        return f"{self.board}: {self.panel} {self.letter}"


def board(uid: str) -> dict[str, Any]:
    """Return a dashboard."""
    data: dict[str, Any] = json.loads((GRAFANA / "dashboards" / f"{uid}.json").read_text("utf-8"))
    return data


def boards() -> list[dict[str, Any]]:
    """Return all of them."""
    return [board(uid) for uid in UIDS]


def panels(uid: str) -> list[dict[str, Any]]:
    """Return the panels of a dashboard, its rows apart."""
    return [panel for panel in board(uid)["panels"] if panel["type"] != "row"]


def columns_of(panel: Mapping[str, Any]) -> dict[str, str]:
    """Return title by label, or by "Value #A", of a table."""
    organize = next(one for one in panel["transformations"] if one["id"] == "organize")
    found: dict[str, str] = organize["options"]["renameByName"]
    return found


def queries(uid: str) -> list[Asked]:
    """Return every query of a dashboard, those of its annotations too."""
    found = [_asked(uid, panel, target) for panel in panels(uid) for target in panel["targets"]]
    for one in board(uid)["annotations"]["list"]:
        labels = frozenset(re.findall(r"\{\{(\w+)\}\}", one["titleFormat"] + one["textFormat"]))
        found.append(Asked(uid, one["name"], "", one["expr"], False, labels))
    return found


def all_queries() -> list[Asked]:
    """Return every query of every dashboard."""
    return [asked for uid in UIDS for asked in queries(uid)]


def foreign(asked: Asked) -> bool:
    """Return whether a query asks for what the node agent or another exporter shows."""
    return re.search(r"\b(eroica_hardware|hw|DCGM|node)_", asked.expr) is not None


def _asked(uid: str, panel: Mapping[str, Any], target: Mapping[str, Any]) -> Asked:
    legend = frozenset(re.findall(r"\{\{(\w+)\}\}", target.get("legendFormat", "")))
    columns = columns_of(panel) if panel["type"] == "table" else {}
    table = frozenset(name for name in columns if not name.startswith("Value"))
    return Asked(uid, panel["title"], target["refId"], target["expr"], target.get("instant", False), legend, table,
                 panel.get("maxDataPoints", 240))  # fmt: skip


def filled_in(query: str, **chosen: str) -> str:
    """Return the query with its variables filled in; a job must be chosen where the board is about one."""
    for name, value in sorted((CHOSEN | chosen).items(), key=lambda item: -len(item[0])):
        query = query.replace(f"${name}", value)
    return query


def variables(uid: str) -> list[tuple[str, str, str]]:
    """Return name, selector and label of each variable that asks for the values of a label."""
    found = []
    for one in board(uid)["templating"]["list"]:
        if one["type"] == "query":
            match = re.fullmatch(r"label_values\((.*), (\w+)\)", one["query"])
            assert match is not None, one
            found.append((one["name"], match[1], match[2]))
    return found


def generator() -> ModuleType:
    """Return grafana/generate.py as a module; what it imports lies beside it, on pytest's path."""
    return module_of(GRAFANA / "generate.py")
