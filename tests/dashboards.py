"""The dashboard as tests see it: its file, its panels, its queries, and these as Grafana would fill them in."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType
from typing import Any

from loaded import module_of

GRAFANA = Path(__file__).parents[1] / "grafana"
FILE = GRAFANA / "dashboards" / "eroica-overview.json"
FILLED_IN = {"$training_job": ".+", "$team": ".*", "$__rate_interval": "30s", "$__range": "15m"}


def board() -> dict[str, Any]:
    """Return the dashboard."""
    data: dict[str, Any] = json.loads(FILE.read_text("utf-8"))
    return data


def panels() -> list[dict[str, Any]]:
    """Return its panels."""
    return list(board()["panels"])


def queries() -> list[tuple[str, str]]:
    """Return every query with the title of its panel, those of annotations too."""
    found = [(panel["title"], target["expr"]) for panel in panels() for target in panel["targets"]]
    return found + [(one["name"], one["expr"]) for one in board()["annotations"]["list"]]


def filled_in(query: str) -> str:
    """Return the query with its variables filled in, all jobs chosen."""
    for name, value in FILLED_IN.items():
        query = query.replace(name, value)
    return query


def generator() -> ModuleType:
    """Return grafana/generate.py as a module; it is on no path."""
    return module_of(GRAFANA / "generate.py")
