"""The Kubernetes manifests as tests see them: their documents, their containers, and the schemas they have to fit."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "exporters" / "kubernetes"
SCHEMAS = ("core.json.gz", "deployment.json.gz", "podmonitor.json.gz", "prometheusrule.json.gz")
NODE, POD = "node-7", "training"


def documents() -> dict[str, dict[str, Any]]:
    """Return every object by file, kind and name."""
    found = {}
    for path in sorted(FOLDER.glob("*.yaml")):
        for given in yaml.safe_load_all(path.read_text("utf-8")):
            found[f"{path.stem} {given['kind']} {given['metadata']['name']}"] = given
    return found


@cache
def _validator(kind: str) -> Any:
    import fastjsonschema  # here, so that an older environment of a developer lacks only what needs it

    for name in SCHEMAS:
        given = json.loads(gzip.decompress((ROOT / "tests" / "golden" / "kubernetes" / name).read_bytes()))
        if kind in given["roots"]:
            schema = {"$schema": "http://json-schema.org/draft-07/schema#", "definitions": given["definitions"]}
            return fastjsonschema.compile(schema | {"$ref": given["roots"][kind]})
    raise LookupError(f"no schema of {kind}")


def validate(given: Mapping[str, Any]) -> None:
    """Raise ValueError where the object is none of its kind."""
    _validator(given["kind"])(given)


def pod(name: str) -> dict[str, Any]:
    """Return what ``name`` makes: metadata and spec of a pod."""
    given = next(each for key, each in documents().items() if key.startswith(f"{name} "))
    return dict(given["spec"]["template"] if given["kind"] == "DaemonSet" else given)


def containers(given: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the containers of a pod by name, those that run before or beside the others among them."""
    spec = given["spec"]
    return {each["name"]: each for each in (*spec.get("initContainers", ()), *spec["containers"])}


def environment(container: Mapping[str, Any]) -> dict[str, str]:
    """Return the variables as the process sees them in POD on NODE; $(NAME) stands for what comes before it."""
    found: dict[str, str] = {}
    for each in container.get("env", ()):
        value = each["value"] if "value" in each else _told(each["valueFrom"])
        for name, known in found.items():
            value = value.replace(f"$({name})", known)
        found[each["name"]] = value
    return found


def _told(source: Mapping[str, Any]) -> str:
    return {"spec.nodeName": NODE, "metadata.name": POD}[source["fieldRef"]["fieldPath"]]


def ports(given: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    """Yield the named ports of a pod."""
    for container in containers(given).values():
        for port in container.get("ports", ()):
            yield port["name"], port["containerPort"]
