"""The rules as tests see them: takes alerts/, gives alerts, recording rules and the generator."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from types import ModuleType
from typing import Any

import yaml

from loaded import module_of

ROOT = Path(__file__).parents[1]
ALERTS = ROOT / "alerts"
RULES = sorted((ALERTS / "rules").glob("*.yml"))
EXAMPLE = ALERTS / "alertmanager.example.yml"
RECEIVERS = ALERTS / "receivers.example.yml"
CASES = sorted((ROOT / "tests" / "alerts").glob("*.test.yml"))
FINDINGS = (
    "EroicaWorkerSlowsJob",
    "EroicaRoleSlowsJob",
    "EroicaWorkerHangsJob",
    "EroicaLinkSlowsJob",
    "EroicaJobSlowedEverywhere",
    "EroicaJobHangs",
)


def run(program: str, *arguments: str | Path) -> str:
    """Run a tool of the servers and return what it wrote; fail where it fails."""
    path = shutil.which(program)
    assert path is not None, f"{program} is not on PATH; on Debian as root, make test installs it"
    done = subprocess.run([path, *arguments], capture_output=True, text=True, check=False, cwd=ROOT, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def read(path: Path) -> Any:
    """Return a YAML file as data."""
    return yaml.safe_load(path.read_text("utf-8"))


def all_rules() -> list[dict[str, Any]]:
    """Return every rule of alerts/rules."""
    return [rule for path in RULES for group in read(path)["groups"] for rule in group["rules"]]


def alerts() -> dict[str, dict[str, Any]]:
    """Return the alerting rules by name."""
    return {rule["alert"]: rule for rule in all_rules() if "alert" in rule}


def with_mail_and_chat() -> dict[str, Any]:
    """Return the Alertmanager example with the receivers by mail and chat in place of those of the same name."""
    config, other = read(EXAMPLE), read(RECEIVERS)
    instead = {each["name"]: each for each in other["receivers"]}
    config["receivers"] = [instead.get(each["name"], each) for each in config["receivers"]]
    config["templates"] = [str(ALERTS / name) for name in other["templates"]]
    return dict(config)


def generator() -> ModuleType:
    """Return alerts/generate.py as a module; it is on no path."""
    return module_of(ALERTS / "generate.py")
