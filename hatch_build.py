"""Build hook: puts dashboards and rules into the wheel. Editable installs read them from the checkout instead."""

from __future__ import annotations

from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

WANTED = (
    "grafana/dashboards", "grafana/provisioning", "alerts/rules", "alerts/alertmanager.example.yml",
    "alerts/receivers.example.yml", "alerts/notifications.tmpl",
)  # fmt: skip
ASSETS = {path: f"eroica_otel/_assets/{path}" for path in WANTED}


class AssetsHook(BuildHookInterface[Any]):
    """Copies what ASSETS names into the wheel; one that is missing fails the build."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the folders, except in an editable build, where a copy would go stale."""
        if version != "editable":
            build_data["force_include"].update(ASSETS)
