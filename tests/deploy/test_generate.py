"""The base for Kubernetes: every object fits its schema, and says what files and programs say that it follows from."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

import eroica_otel
from alert_rules import ALERTS, RULES, read
from eroica_otel.boards.push import FOLDER_TITLE
from eroica_otel.commands import localize
from eroica_otel.webserver import parse_address
from loaded import module_of
from manifests import containers, ports, validate

ROOT = Path(__file__).parents[2]
BOARDS = sorted((ROOT / "grafana" / "dashboards").glob("*.json"))


def generator() -> ModuleType:
    return module_of(ROOT / "deploy" / "generate.py")


FILES: dict[str, str] = generator().files((ALERTS / "config.ini").read_text("utf-8"), "mine")
KUSTOMIZATION: dict[str, Any] = yaml.safe_load(FILES["kustomization.yaml"])
OBJECTS: dict[str, dict[str, Any]] = {
    f"{given['kind']} {given['metadata']['name']}": given
    for name, text in FILES.items()
    if name != "kustomization.yaml"
    for given in yaml.safe_load_all(text)
}
LOCALIZER = OBJECTS["Deployment eroica-localizer"]["spec"]["template"]


@pytest.mark.parametrize("name", OBJECTS)
def test_an_object_is_valid(name: str) -> None:
    validate(OBJECTS[name])


def test_a_mistake_in_a_rule_or_in_the_localizer_would_be_told() -> None:
    for name, path, key in (
        ("PrometheusRule eroica-otel", ("spec", "groups", 0, "rules", 0), "labls"),
        ("Deployment eroica-localizer", ("spec", "template", "spec", "containers", 0), "arguments"),
        ("Service eroica-localizer", ("spec",), "port"),
    ):
        place = given = json.loads(json.dumps(OBJECTS[name]))
        for step in path:
            place = place[step]
        place[key] = {"x": "y"}
        with pytest.raises(ValueError, match=key):
            validate(given)


def test_kustomize_takes_every_file() -> None:
    assert KUSTOMIZATION["resources"] == sorted(set(FILES) - {"kustomization.yaml"})
    assert (KUSTOMIZATION["kind"], KUSTOMIZATION["apiVersion"]) == ("Kustomization", "kustomize.config.k8s.io/v1beta1")


def test_all_that_prometheus_selects_has_the_label_that_was_asked_for() -> None:
    selected = [each for each in OBJECTS.values() if each["kind"] in ("PodMonitor", "PrometheusRule")]
    assert len(selected) == 4
    assert {each["metadata"]["labels"]["release"] for each in selected} == {"mine"}


def test_the_rules_are_those_that_prometheus_loads_from_files() -> None:
    groups = {group["name"]: group for group in OBJECTS["PrometheusRule eroica-otel"]["spec"]["groups"]}
    assert groups == {group["name"]: group for path in RULES for group in read(path)["groups"]}


@pytest.mark.parametrize("path", BOARDS, ids=lambda path: path.stem)
def test_a_dashboard_is_a_config_map_that_the_sidecar_collects(path: Path) -> None:
    board = json.loads(path.read_text("utf-8"))
    given = OBJECTS[f"ConfigMap dashboard-{board['uid']}"]
    assert given["metadata"]["labels"] == {"grafana_dashboard": "1"}
    assert given["metadata"]["annotations"] == {"grafana_folder": FOLDER_TITLE}
    ((name, text),) = given["data"].items()
    assert name == f"{board['uid']}.json"
    assert json.loads(text) == board
    assert len(text) < 1 << 20, "more does not fit into a ConfigMap"


def test_the_localizer_is_started_with_options_that_it_knows() -> None:
    (container,) = containers(LOCALIZER).values()
    program, command = container["command"]
    assert (program, command) == ("eroica-otel", "localize")
    assert container["image"] == f"registry.example.com/eroica-otel:{eroica_otel.__version__}"
    parser = argparse.ArgumentParser()
    localize.configure(parser)
    given = parser.parse_args(container["args"])
    assert parse_address(given.metrics, "--metrics") == ("0.0.0.0", dict(ports(LOCALIZER))["metrics"])
    assert given.state in {mount["mountPath"] for mount in container["volumeMounts"]}
    assert given.prometheus
    assert "listen" not in given


def test_what_is_scraped_and_served_is_the_localizers_port() -> None:
    labels = LOCALIZER["metadata"]["labels"]
    monitor, service = OBJECTS["PodMonitor eroica-localizer"]["spec"], OBJECTS["Service eroica-localizer"]["spec"]
    for wanted in (monitor["selector"]["matchLabels"], service["selector"]):
        assert wanted.items() <= labels.items()
    names = set(dict(ports(LOCALIZER)))
    assert {endpoint["port"] for endpoint in monitor["podMetricsEndpoints"]} <= names
    assert {port["targetPort"] for port in service["ports"]} <= names


def test_the_localizer_may_do_no_more_than_it_has_to() -> None:
    (container,) = containers(LOCALIZER).values()
    assert LOCALIZER["spec"]["automountServiceAccountToken"] is False
    assert LOCALIZER["spec"]["securityContext"]["runAsNonRoot"] is True
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    (claimed,) = (each for each in LOCALIZER["spec"]["volumes"] if "persistentVolumeClaim" in each)
    claim = claimed["persistentVolumeClaim"]["claimName"]
    assert f"PersistentVolumeClaim {claim}" in OBJECTS
    assert OBJECTS["Deployment eroica-localizer"]["spec"]["strategy"] == {"type": "Recreate"}


def test_the_image_holds_this_version_and_no_root() -> None:
    lines = (ROOT / "deploy" / "Dockerfile").read_text("utf-8")
    assert f"eroica_otel-{eroica_otel.__version__}-py3-none-any.whl" in lines
    assert 'USER 65532:65532\nENTRYPOINT ["eroica-otel"]' in lines


def test_the_folder_is_written(tmp_path: Path) -> None:
    assert generator().main(["--out", str(tmp_path / "base"), "--release", "mine"]) == 0
    assert {path.name: path.read_text("utf-8") for path in (tmp_path / "base").iterdir()} == FILES


def test_a_release_is_a_word_also_where_yaml_would_take_it_for_none() -> None:
    told = generator().files("", "true")["rules.yaml"]
    assert yaml.safe_load(told)["metadata"]["labels"] == {"release": "true"}


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (
            ["--release", "my stack"],
            "generate.py: --release 'my stack' is no value of a label; give letters",
        ),
        (["--config", "/no/such.ini"], "generate.py: --config /no/such.ini cannot be read: No such file or directory;"),
    ],
)
def test_what_cannot_be_used_is_one_line_and_writes_nothing(
    arguments: list[str], told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert generator().main([*arguments, "--out", str(tmp_path / "base")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(told)
    assert not (tmp_path / "base").exists()
