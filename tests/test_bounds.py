""".ci/bounds, by which make oldest pins: every bound of pyproject.toml, with or without a marker or an upper bound."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from packaging.requirements import Requirement

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parent.parent
OF_NO_USER = ("dev", "instruments")


def test_make_oldest_pins_the_lower_bound_of_everything_that_a_user_may_install() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project["optional-dependencies"]
    texts = project["dependencies"] + [one for name in extras if name not in OF_NO_USER for one in extras[name]]
    wanted = set()
    for requirement in map(Requirement, texts):
        (lowest,) = (bound.version for bound in requirement.specifier if bound.operator == ">=")
        wanted.add(f"{requirement.name}=={lowest}")
    assert {"tomli==2.0", "grafana-client==3.11"} <= wanted, "one with a marker, one with an upper bound"
    said = subprocess.run([ROOT / ".ci" / "bounds"], capture_output=True, text=True, check=True).stdout
    assert set(said.split()) == wanted
