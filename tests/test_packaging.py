"""Wheel and sdist, as built and as installed: what they hold, what they need, what they bring along."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Sequence
from email.message import Message
from email.parser import Parser
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

import eroica_otel
from eroica_otel import assets
from eroica_otel.errors import ConfigError

ROOT = Path(__file__).resolve().parent.parent
STEM = f"eroica_otel-{eroica_otel.__version__}"

SDIST_TOP = {
    ".ci",
    ".gitignore",  # hatchling takes it along: it decides what a build from the sdist leaves out
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "LICENSE",
    "Makefile",
    "NOTICE",
    "PKG-INFO",
    "README.md",
    "alerts",
    "bench",
    "deploy",
    "docs",
    "eroica_otel",
    "exporters",
    "grafana",
    "hatch_build.py",
    "mkdocs.yml",
    "pyproject.toml",
    "requirements-dev.lock",
    "requirements-support.lock",
    "tests",
}


def run(command: Sequence[str | Path], folder: Path) -> str:
    """Run a command away from the checkout and return its output."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the sdist, and the wheel from it, as a release would; return the folder."""
    folder = tmp_path_factory.mktemp("dist")
    run([sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT], folder)
    return folder


@pytest.fixture(scope="module")
def wheel(built: Path) -> Path:
    """Return the path of the wheel."""
    return built / f"{STEM}-py3-none-any.whl"


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the wheel with its core dependencies, nothing else, into a new environment; return its interpreter."""
    folder = tmp_path_factory.mktemp("clean")
    run([sys.executable, "-m", "venv", folder / "venv"], folder)
    interpreter = folder / "venv" / "bin" / "python"
    constraint = ROOT / "requirements-dev.lock"
    run([interpreter, "-m", "pip", "install", "-q", "--no-compile", "-c", constraint, wheel], folder)
    return interpreter


@pytest.fixture(scope="module")
def metadata(wheel: Path) -> Message:
    """Return the metadata of the wheel."""
    with zipfile.ZipFile(wheel) as archive:
        return Parser().parsestr(archive.read(f"{STEM}.dist-info/METADATA").decode())


def requirements(metadata: Message, extra: str = "") -> dict[str, Requirement]:
    """Return by name what ``extra`` adds, or what the core needs."""
    found = [Requirement(text) for text in metadata.get_all("Requires-Dist", [])]
    return {item.name: item for item in found if (item.marker.evaluate({"extra": extra}) if item.marker else not extra)}


def tracked(folder: str) -> set[str]:
    """Return the files of a folder of the checkout that belong to it."""
    files = (path for path in (ROOT / folder).rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {path.relative_to(ROOT).as_posix() for path in files}


def test_the_sdist_holds_everything_that_a_build_and_a_test_run_need(built: Path) -> None:
    with tarfile.open(built / f"{STEM}.tar.gz") as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {name.partition("/")[0] for name in names} == SDIST_TOP
    for folder in ("eroica_otel", "exporters", "grafana", "alerts", "tests"):
        assert tracked(folder) <= names


def test_the_wheel_holds_two_packages_and_the_data_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    expected = tracked("eroica_otel")
    expected |= {name.removeprefix("exporters/") for name in tracked("exporters/eroica_hardware")}
    data = (
        tracked("grafana/dashboards")
        | tracked("grafana/provisioning")
        | tracked("alerts/rules")
        | {f"alerts/{name}" for name in ("alertmanager.example.yml", "receivers.example.yml", "notifications.tmpl")}
    )
    expected |= {f"eroica_otel/_assets/{name}" for name in data}
    expected |= {f"{STEM}.dist-info/{name}" for name in ("METADATA", "RECORD", "WHEEL", "entry_points.txt")}
    expected |= {f"{STEM}.dist-info/licenses/{name}" for name in ("LICENSE", "NOTICE")}
    assert names == expected


def test_both_packages_tell_type_checkers_that_they_are_typed(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    assert {"eroica_otel/py.typed", "eroica_hardware/py.typed"} <= names


def test_one_version_everywhere(metadata: Message) -> None:
    assert metadata["Version"] == eroica_otel.__version__
    assert str(Version(eroica_otel.__version__)) == eroica_otel.__version__


def test_the_metadata_names_licence_python_and_extras(metadata: Message) -> None:
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Requires-Python"] == ">=3.10"
    assert set(metadata.get_all("Provides-Extra", [])) == {
        "torch",
        "hardware",
        "fast",
        "grafana",
        "dev",
        "instruments",
        "zero-code",
    }


def test_the_core_needs_these_and_no_more(metadata: Message) -> None:
    assert set(requirements(metadata)) == {
        "numpy",
        "msgspec",
        "wrapt",
        "opentelemetry-sdk",
        "opentelemetry-proto",
        "opentelemetry-exporter-otlp",
        "opentelemetry-exporter-prometheus",
        "prometheus-client",
    } | ({"tomli"} if sys.version_info < (3, 11) else set())


def test_the_extras_add_what_they_are_named_after(metadata: Message) -> None:
    extras = {
        "torch": {"torch"},
        "hardware": {"nvidia-ml-py"},
        "fast": {"isal"},
        "grafana": {"grafana-client"},
        "zero-code": {"opentelemetry-distro"},
    }
    assert {extra: set(requirements(metadata, extra)) for extra in extras} == extras
    instruments = requirements(metadata, "instruments")
    assert str(instruments["torch"].specifier) == ">=2.4"


PINNED = {"grafana-foundation-sdk"}
"""Its versions are ordered by an epoch, and the highest is not the newest: a bound would take the wrong one."""
BELOW = {"grafana-client": ["4"]}
"""From this version on it replaces another package of the environment, urllib3."""


def test_every_bound_is_one_lower_bound_that_the_lock_satisfies(metadata: Message) -> None:
    lock = (ROOT / "requirements-dev.lock").read_text(encoding="utf-8")
    pins: dict[str, list[Version]] = {}
    for name, version in re.findall(r"^([a-z0-9-]+)==([^ \n]+)", lock, flags=re.MULTILINE):
        pins.setdefault(name, []).append(Version(version))
    for extra in ("", "dev", "torch", "hardware", "grafana"):
        for name, item in requirements(metadata, extra).items():
            assert [one.version for one in item.specifier if one.operator == "<"] == BELOW.get(name, [])
            bounds = [(bound.operator, Version(bound.version)) for bound in item.specifier if bound.operator != "<"]
            allowed = [["=="]] if name in PINNED else [[">="], []]
            assert [operator for operator, _ in bounds] in allowed, f"{name}: no upper bounds, no pins"
            assert name in pins, f"{name} is not locked: make lock"
            assert all(pin >= bound for pin in pins[name] for _, bound in bounds)


def test_the_lock_pins_every_line_and_names_no_place_to_download_from() -> None:
    lines = (ROOT / "requirements-dev.lock").read_text(encoding="utf-8").splitlines()
    pins = [line for line in lines if not line.startswith("#")]
    form = re.compile(r"[a-z0-9-]+==[^\s;+]+( ; python_version (>=|<) \"3\.\d+\")?")
    assert [line for line in pins if not form.fullmatch(line)] == []
    assert "torch==2.13.0" in pins


def test_a_clean_install_brings_neither_torch_nor_a_grafana_client(python: Path, tmp_path: Path) -> None:
    listed = run([python, "-m", "pip", "list", "--format=freeze"], tmp_path)
    names = {line.partition("==")[0].lower().replace("_", "-") for line in listed.split()}
    assert {"eroica-otel", "numpy", "opentelemetry-sdk"} <= names
    assert not {"torch", "grafana-client", "isal", "nvidia-ml-py"} & names


def test_a_clean_install_has_a_command_that_works(python: Path, tmp_path: Path) -> None:
    command = python.with_name("eroica-otel")
    assert run([command, "--version"], tmp_path) == f"eroica-otel {eroica_otel.__version__}\n"
    assert run([command, "--help"], tmp_path).startswith("usage: eroica-otel ")


def test_an_install_with_grafana_leaves_urllib3_as_it_was(wheel: Path, tmp_path: Path) -> None:
    run([sys.executable, "-m", "venv", tmp_path / "venv"], tmp_path)
    there = tmp_path / "venv" / "bin"
    pip: list[str | Path] = [there / "python", "-m", "pip"]
    run([*pip, "install", "-q", "--no-compile", "-c", ROOT / "requirements-dev.lock", f"{wheel}[grafana]"], tmp_path)
    names = {line.partition("==")[0].lower() for line in run([*pip, "list", "--format=freeze"], tmp_path).split()}
    assert {"grafana-client", "requests", "urllib3"} <= names
    assert not {"urllib3-future", "niquests", "torch"} & names
    told = "import importlib.metadata as m, urllib3; print(urllib3.__version__ == m.version('urllib3'))"
    assert run([there / "python", "-c", told], tmp_path) == "True\n"
    assert pushed(there / "python") == (
        "eroica-otel: Grafana at http://127.0.0.1:1 cannot be asked: Connection refused; start it or correct --url\n"
    )


def test_a_clean_install_says_what_a_push_needs(python: Path) -> None:
    needs = "--url needs grafana-client; install it: pip install 'eroica-otel[grafana]'"
    assert pushed(python) == f"eroica-otel: {needs}\n"


def pushed(python: Path) -> str:
    """Push where nobody listens; return what is said."""
    command: list[str | Path] = [python.with_name("eroica-otel"), "grafana", "push", "--url", "http://a:b@127.0.0.1:1"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stderr


def test_the_agents_install_brings_a_working_command_and_no_torch(wheel: Path, tmp_path: Path) -> None:
    run([sys.executable, "-m", "venv", tmp_path / "venv"], tmp_path)
    there = tmp_path / "venv" / "bin"
    constraint = ROOT / "requirements-dev.lock"
    pip: list[str | Path] = [there / "python", "-m", "pip"]
    run([*pip, "install", "-q", "--no-compile", "-c", constraint, f"{wheel}[hardware]"], tmp_path)
    listed = run([*pip, "list", "--format=freeze"], tmp_path)
    names = {line.partition("==")[0].lower().replace("_", "-") for line in listed.split()}
    assert {"eroica-otel", "nvidia-ml-py"} <= names
    assert not {"torch", "triton", "grafana-client", "isal"} & names
    assert run([there / "eroica-hardware", "--version"], tmp_path) == f"eroica-hardware {eroica_otel.__version__}\n"
    found = run([there / "eroica-hardware", "check", "--dir", tmp_path / "shared"], tmp_path)
    table = found.partition("\n\n")[0].splitlines()[1:]
    assert {line.split()[0] for line in table} >= {"nvml", "gpm", "net", "pressure"}


@pytest.mark.parametrize(
    "module", ["eroica_otel", "eroica_otel.auto", "eroica_otel.helper", "eroica_otel.job", "eroica_hardware"]
)
def test_a_clean_install_imports_without_torch(module: str, python: Path, tmp_path: Path) -> None:
    code = f"import sys, {module}; print({module}.__file__); assert 'torch' not in sys.modules"
    assert run([python, "-c", code], tmp_path).startswith(str(python.parent.parent))


def test_a_clean_install_finds_its_data(python: Path, tmp_path: Path) -> None:
    code = "from eroica_otel import assets; print(assets.path('grafana'), assets.path('alerts') / 'rules', sep='\\n')"
    for folder in map(Path, run([python, "-c", code], tmp_path).split()):
        assert folder.is_dir()
        assert folder.is_relative_to(python.parent.parent)


@pytest.mark.parametrize("name", assets.FOLDERS)
def test_a_checkout_finds_its_own_data(name: str) -> None:
    assert assets.path(name, ROOT / "eroica_otel") == ROOT / name


def test_the_copy_in_the_wheel_wins(tmp_path: Path) -> None:
    package = tmp_path / "eroica_otel"
    for folder in (tmp_path / "grafana", package / "_assets" / "grafana"):
        folder.mkdir(parents=True)
    assert assets.path("grafana", package) == package / "_assets" / "grafana"


def test_data_that_is_missing_or_unknown_is_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no data folder 'tests'; give one of grafana, alerts"):
        assets.path("tests")
    with pytest.raises(ConfigError, match=r"'grafana' is missing beside .*; install eroica-otel again"):
        assets.path("grafana", tmp_path / "eroica_otel")


def test_the_checkout_has_these_files_at_the_top() -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:  # an unpacked sdist: the test of its contents says the same
        return
    top = {line.partition("/")[0] for line in listed.stdout.splitlines()}
    assert top == SDIST_TOP - {"PKG-INFO"} | {".ci", ".pre-commit-config.yaml"}
