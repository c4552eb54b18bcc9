"""Tables that follow from code are what the code says."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import yaml

from loaded import module_of

ROOT = Path(__file__).parents[1]
QUIET = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
"""Without mkdocs-material's notice about its successor."""


@pytest.fixture(scope="module")
def generate() -> ModuleType:
    return module_of(ROOT / "docs" / "generate.py")


def test_the_page_of_series_is_current(generate: ModuleType) -> None:
    assert (ROOT / "docs" / "series.md").read_text("utf-8") == generate.series_page(), "make docs renews it"


def test_the_page_of_what_is_supported_is_current(generate: ModuleType) -> None:
    assert (ROOT / "docs" / "support.md").read_text("utf-8") == generate.support_page(), "make docs renews it"


def test_the_causes_of_the_method_are_current(generate: ModuleType) -> None:
    text = (ROOT / "docs" / "method.md").read_text("utf-8")
    assert text == generate.method(text), "make docs renews it"


def test_the_page_of_the_configuration_is_current(generate: ModuleType) -> None:
    assert (ROOT / "docs" / "configuration.md").read_text("utf-8") == generate.configuration_page(), (
        "make docs renews it"
    )


def test_the_readmes_options_are_current(generate: ModuleType) -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    assert text == generate.readme(text), "make docs renews it"


def test_the_site_shows_every_page_once() -> None:
    nav = yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8"))["nav"]
    first, *groups = nav
    shown = [first] + [page for group in groups for pages in group.values() for one in pages for page in one.values()]
    assert sorted(shown) == sorted(path.name for path in (ROOT / "docs").glob("*.md"))


def test_pages_name_dashboards_that_there_are() -> None:
    boards = [json.loads(path.read_text("utf-8")) for path in (ROOT / "grafana" / "dashboards").glob("*.json")]
    pages = [path.read_text("utf-8") for path in (ROOT / "README.md", *(ROOT / "docs").glob("*.md"))]
    named = {name for page in pages for name in re.findall(r"Eroica / \w+(?: itself)?|(?<=/d/)eroica-\w+", page)}
    assert named
    assert named <= {name for board in boards for name in (board["title"], board["uid"])}


def test_both_commands_stand_on_the_first_screen() -> None:
    screen = (ROOT / "README.md").read_text("utf-8").splitlines()[:24]
    assert any(line.startswith("$ make demo") for line in screen)
    assert any(line.startswith("$ make test") for line in screen)


def site(root: Path, out: Path) -> subprocess.CompletedProcess[str]:
    """Build the site as make site does."""
    command: list[str | Path] = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--strict",
        "-f",
        root / "mkdocs.yml",
        "-d",
        out,
    ]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=QUIET)


def test_the_site_builds_without_a_warning_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    done = site(ROOT, tmp_path)
    assert done.returncode == 0, done.stderr
    pages = [path.read_text("utf-8") for path in tmp_path.rglob("*.html")]
    written = [path for kind in ("md", "html") for path in (ROOT / "docs").glob(f"*.{kind}")]
    assert len(pages) == len(written) + 1, "every page, and 404"
    loads = re.compile(r"<(?:script|link|img)[^>]* (?:src|href)=\"?([^\" >]+)")
    loaded = {found for page in pages for found in loads.findall(page)}
    assert not {found for found in loaded if found.startswith(("http:", "https:", "//"))}
    pictures = {path.name for kind in ("png", "svg") for path in (ROOT / "docs").glob(f"*.{kind}")}
    assert pictures <= {path.name for path in tmp_path.iterdir()}
    assert all(any(f"/{name}" in page or f'"{name}"' in page for page in pages) for name in pictures)


def test_a_broken_link_breaks_the_site(tmp_path: Path) -> None:
    for name in ("docs", ".ci"):
        shutil.copytree(ROOT / name, tmp_path / name)
    shutil.copy(ROOT / "mkdocs.yml", tmp_path)
    with (tmp_path / "docs" / "sizing.md").open("a") as page:
        page.write("\n[a](nowhere.md) [b](runbook.md#no-such-heading) [c](../no/such.md)\n")
    done = site(tmp_path, tmp_path / "site")
    assert done.returncode != 0
    for target in ("nowhere.md", "#no-such-heading", "../no/such.md"):
        assert target in done.stderr, done.stderr
