"""Takes alerts, dashboards and the manifests by hand, gives one folder that kustomize builds: a base for Kubernetes.

``make manifests`` runs it. With choices of your own: ``python deploy/generate.py --config MINE.ini --release LABEL
--out FOLDER``. What it writes is not kept in the repository: it follows from files that are.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import re
import sys
from pathlib import Path
from types import ModuleType

from eroica_otel.errors import ConfigError, EroicaError

ROOT = Path(__file__).parent.parent
BY_HAND = (
    "exporters/kubernetes/daemonset.yaml",
    "exporters/kubernetes/networkpolicy.yaml",
    "exporters/kubernetes/podmonitor.yaml",
    "deploy/localizer.yaml",
)
RELEASE = "release: prometheus"
"""What these and the rules say; kube-prometheus-stack selects by its own release."""
FOLDER = "EROICA"

_CONFIG_MAP = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: {name}
  labels:
    # What the sidecar of Grafana collects; kube-prometheus-stack and the chart of Grafana use this label.
    grafana_dashboard: "1"
  annotations:
    grafana_folder: {folder}
data:
  {uid}.json: |
{text}
"""


def main(argv: list[str] | None = None) -> int:
    """Write the folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "kubernetes", help="folder (default: %(default)s)")
    parser.add_argument(
        "--config",
        type=Path,
        default=ROOT / "alerts" / "config.ini",
        help="choices of the rules (default: %(default)s)",
    )
    parser.add_argument("--release", default="prometheus", help="label by which your Prometheus selects (%(default)s)")
    arguments = parser.parse_args(argv)
    rules = _generator()
    try:
        rules.write(arguments.out, files(rules.read(arguments.config), arguments.release))
    except EroicaError as error:
        sys.stderr.write(f"generate.py: {error}\n")
        return error.exit_code
    return 0


def files(config: str, release: str = "prometheus") -> dict[str, str]:
    """Return the text of each file by name, for the text of a config.ini of the rules.

    Raises:
        ConfigError: ``config`` is none, or ``release`` is no value of a label.
    """
    if re.fullmatch(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?", release) is None:
        raise ConfigError(f"--release {release!r} is no value of a label; give letters and digits, and - _ . between")
    given = {Path(path).name: (ROOT / path).read_text("utf-8") for path in BY_HAND}
    given["rules.yaml"] = _generator().files(config)["prometheusrule.yaml"]
    given["dashboards.yaml"] = "---\n".join(map(_config_map, sorted((ROOT / "grafana" / "dashboards").glob("*.json"))))
    labelled = {name: text.replace(RELEASE, f'release: "{release}"') for name, text in given.items()}
    return labelled | {"kustomization.yaml": _kustomization(sorted(labelled))}


def _config_map(path: Path) -> str:
    text = path.read_text("utf-8").rstrip()
    uid = json.loads(text)["uid"]
    indented = "\n".join(f"    {line}" for line in text.splitlines())
    return _CONFIG_MAP.format(name=f"dashboard-{uid}", folder=FOLDER, uid=uid, text=indented)


def _kustomization(resources: list[str]) -> str:
    lines = [
        "apiVersion: kustomize.config.k8s.io/v1beta1",
        "kind: Kustomization",
        "namespace: monitoring",
        "resources:",
    ]
    return "\n".join([*lines, *(f"  - {name}" for name in resources), ""])


def _generator() -> ModuleType:
    """Return the generator of the rules as a module; it is on no path."""
    path = ROOT / "alerts" / "generate.py"
    spec = importlib.util.spec_from_file_location("alerts_generate", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} cannot be loaded")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    sys.exit(main())
