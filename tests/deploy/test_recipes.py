"""The recipes for training jobs: pods that fit the schema, are found by the PodMonitor, and say what the page says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from manifests import NODE, POD, containers, documents, environment, ports, validate

ROOT = Path(__file__).parents[2]
RECIPES = sorted((ROOT / "deploy" / "recipes").glob("*.yaml"))
PAGE = (ROOT / "docs" / "kubernetes.md").read_text("utf-8")
MONITOR = documents()["podmonitor PodMonitor eroica-workers"]["spec"]


def templates(given: Any) -> Iterator[dict[str, Any]]:
    """Yield every template of a pod inside an object, wherever its kind keeps it."""
    if isinstance(given, list):
        for each in given:
            yield from templates(each)
    if isinstance(given, dict):
        if "containers" in given.get("spec", {}):
            yield given
        else:
            yield from templates(list(given.values()))


def objects(path: Path) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(path.read_text("utf-8")))


def watched(path: Path) -> dict[str, Any]:
    """Return the one template of a recipe that has the label of watched pods."""
    (found,) = (each for each in templates(objects(path)) if each.get("metadata", {}).get("labels"))
    return found


def told(path: Path) -> dict[str, str]:
    """Return the variables of the training's process, those that a TrainJob adds too."""
    (container,) = containers(watched(path)).values()
    more = [each for given in objects(path) for each in given["spec"].get("trainer", {}).get("env", ())]
    return environment({"env": [*container["env"], *more]})


def test_there_is_one_for_each_that_the_page_links() -> None:
    linked = set(re.findall(r"\]\(\.\./deploy/recipes/([\w-]+\.yaml)\)", PAGE))
    assert {path.name for path in RECIPES} == linked == {"kubeflow-trainer.yaml", "jobset.yaml", "kuberay.yaml"}


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_its_pods_are_pods(path: Path) -> None:
    for template in templates(objects(path)):
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {}, **template}
        validate(pod)
        broken = {**template["spec"]["containers"][0], "commandd": []}
        with pytest.raises(ValueError, match="commandd"):
            validate(pod | {"spec": {"containers": [broken]}})


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_the_pod_monitor_finds_them_and_their_port(path: Path) -> None:
    template = watched(path)
    assert MONITOR["selector"]["matchLabels"].items() <= template["metadata"]["labels"].items()
    (endpoint,) = MONITOR["podMetricsEndpoints"]
    assert dict(ports(template)) == {endpoint["port"]: 9464}


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_the_workers_say_where_they_run_and_whose_they_are(path: Path) -> None:
    given = told(path)
    assert given == {
        "NODE_NAME": NODE,
        "POD_NAME": POD,
        "OTEL_RESOURCE_ATTRIBUTES": f"host.name={NODE},k8s.pod.name={POD}",
        "OTEL_METRICS_EXPORTER": "prometheus",
        "OTEL_EXPORTER_PROMETHEUS_HOST": "0.0.0.0",
        "EROICA_PULL": "node",
        "EROICA_TRAINING_JOB": "llm-7b",
        "EROICA_TEAM": "research",
    }


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_something_watches_the_training(path: Path) -> None:
    text = path.read_text("utf-8")
    assert re.search(r"eroica-otel(, | )run(, | )--(, | )torchrun", text) or "import eroica_otel.auto" in text
