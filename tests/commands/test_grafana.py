"""The command ``grafana push``: its options, where the token comes from, and the files for who provisions instead."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from eroica_otel import assets
from eroica_otel.boards import board as boards
from eroica_otel.boards.push import FOLDER_TITLE, FOLDER_UID, SOURCE_UID
from eroica_otel.commands.main import main
from eroica_otel.errors import ConfigError
from grafana_api import TOKEN, FakeGrafana


@pytest.fixture(autouse=True)
def _no_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GRAFANA_TOKEN", raising=False)


def test_a_push_with_the_token_of_a_file(
    grafana: FakeGrafana, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    assert main(["grafana", "push", "--url", f"{grafana.url}/", "--token-file", str(tmp_path / "token")]) == 0
    assert set(grafana.boards) == {each.uid for each in boards.read(assets.path("grafana") / "dashboards")}
    said = capsys.readouterr().out
    assert said.startswith(f"Grafana 11.6.0 at {grafana.url}\n")
    assert TOKEN not in said


def test_a_push_with_the_token_of_the_environment_that_left_something(
    grafana: FakeGrafana, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GRAFANA_TOKEN", TOKEN)
    assert main(["grafana", "push", "--url", grafana.url]) == 0
    uid = next(iter(grafana.boards))
    grafana.edit(uid, refresh="7s")
    assert main(["grafana", "push", "--url", grafana.url]) == 3
    caught = capsys.readouterr()
    assert "left, edited by hand by alice on 2026-05-01T09:30:00" in caught.out
    assert caught.err.startswith(f"eroica-otel: left as they are: {uid}; ")
    assert main(["grafana", "push", "--url", grafana.url, "--force"]) == 0
    assert grafana.boards[uid]["model"]["refresh"] != "7s"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--url", "http://127.0.0.1:1"], "no token: set GRAFANA_TOKEN or give --token-file"),
        (["--url", "grafana"], "--url 'grafana' is no address; give one, for example http://127.0.0.1:3000"),
        (["--url", "http://h", "--token-file", "/no/such"], "--token-file /no/such cannot be read"),
        (["--url", "http://h", "--token-file", "/dev/null"], "--token-file /dev/null holds no token"),
        (["--url", "http://a:b@h", "--data-source-url", "prom"], "--data-source-url 'prom' is no address"),
        (
            ["--url", "http://a:b@h", "--folder-uid", "../admin?x"],
            "--folder-uid '../admin?x' is no uid; give at most",
        ),
        (["--url", "http://a:b@h", "--folder", " "], "--folder is empty; give a title"),
    ],
)
def test_what_cannot_be_used_is_one_line(arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["grafana", "push", *arguments]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert told in line


@pytest.mark.parametrize(
    ("files", "told"),
    [
        ({}, "holds no dashboard"),
        ({"a.json": "{"}, "a.json is no dashboard"),
        ({"a.json": '{"uid": "x"}'}, "a.json is no dashboard"),
        ({"a.json": '{"uid": "x", "title": "X"}', "b.json": '{"uid": "x", "title": "Y"}'}, "have one uid"),
    ],
)
def test_files_that_are_no_dashboards(files: dict[str, str], told: str, tmp_path: Path) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(ConfigError, match=told):
        boards.read(tmp_path)


def _provisioned(name: str) -> dict[str, Any]:
    given: dict[str, Any] = yaml.safe_load(
        (assets.path("grafana") / "provisioning" / name / "eroica.yml").read_text("utf-8")
    )
    return given


def test_what_is_provisioned_is_what_is_pushed() -> None:
    (provider,) = _provisioned("dashboards")["providers"]
    assert (provider["folder"], provider["folderUid"]) == (FOLDER_TITLE, FOLDER_UID)
    assert (provider["type"], provider["allowUiUpdates"]) == ("file", False)
    (source,) = _provisioned("datasources")["datasources"]
    assert (source["uid"], source["type"]) == (SOURCE_UID, "prometheus")
