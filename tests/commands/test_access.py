"""How a Grafana is named: by options, variables and the file of localize, with the remedy where it cannot be used."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from eroica_otel.boards.access import Access
from eroica_otel.commands import access
from eroica_otel.commands.chosen import choose
from eroica_otel.commands.config import options_of_localize
from eroica_otel.commands.main import main
from eroica_otel.errors import ConfigError

TOKEN = {"GRAFANA_TOKEN": "glsa_x\n"}


def made(*options: str, **environment: str) -> Access | None:
    parser = argparse.ArgumentParser()
    access.configure(parser)
    return access.annotated(parser.parse_args(options), environment)


def test_nothing_is_annotated_unless_it_is_asked_for() -> None:
    assert made(**TOKEN) is None


def test_the_token_is_the_variables_or_the_files(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("glsa_file\n")
    by_variable, by_file = made("--grafana", "http://g:3000/", **TOKEN), made(
        "--grafana", "http://g:3000", "--grafana-token-file", str(tmp_path / "token"), **TOKEN
    )  # fmt: skip
    assert by_variable == Access("http://g:3000", "glsa_x", timeout_seconds=10.0, flag="--grafana")
    assert by_file is not None
    assert by_file.token == "glsa_file"
    assert "glsa" not in repr(by_file)


def test_a_user_in_the_address_needs_no_token() -> None:
    found = made("--grafana", "https://me:secret@g/below")
    assert found is not None
    assert (found.token, found.shown) == ("", "https://g/below")


@pytest.mark.parametrize(
    ("options", "variables", "told"),
    [
        (["--grafana", "g:3000"], TOKEN, "--grafana 'g:3000' is no address; give one"),
        (["--grafana", "http://g"], {}, "no token: set GRAFANA_TOKEN or give --grafana-token-file"),
        (["--grafana", "http://g"], {"GRAFANA_TOKEN": "a\nb"}, "GRAFANA_TOKEN holds no token; write one line"),
        (["--grafana", "http://g", "--grafana-token-file", "/no/such"], {}, "--grafana-token-file /no/such cannot"),
        (["--grafana", "http://g", "--grafana-token-file", "/dev/null"], {}, "--grafana-token-file /dev/null holds no"),
        (["--grafana", "http://g", "--grafana-ca", "x"], TOKEN, "--grafana-ca x is for https://, but --grafana is"),
        (
            ["--grafana", "https://g", "--grafana-key", "x"],
            TOKEN,
            "--grafana-key is for a certificate; give --grafana-",
        ),
        (["--grafana-token-file", "x"], {}, "--grafana-token-file says how to ask a Grafana; give --grafana URL too"),
        (["--grafana-certificate", "x"], {}, "--grafana-certificate says how to ask a Grafana"),
    ],
)
def test_what_cannot_be_used_is_one_line(options: list[str], variables: dict[str, str], told: str) -> None:
    with pytest.raises(ConfigError) as caught:
        made(*options, **variables)
    assert str(caught.value).startswith(told)
    assert "\n" not in str(caught.value)


def test_the_file_and_a_variable_name_it_too(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text('grafana = "http://file:3000"\n')
    given = argparse.Namespace(config=str(tmp_path / "a.toml"))
    for variables, url in (({}, "http://file:3000"), ({"EROICA_LOCALIZE_GRAFANA": "http://v:3000"}, "http://v:3000")):
        found = choose(options_of_localize(), given, TOKEN | variables).job.annotate
        assert found is not None
        assert found.url == url


def test_config_check_tells_what_is_wrong_and_shows_no_password(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GRAFANA_TOKEN", raising=False)
    (tmp_path / "a.toml").write_text('grafana = "https://me:secret@g"\n')
    assert main(["config", "check", str(tmp_path / "a.toml")]) == 0
    said = capsys.readouterr().out
    assert '"https://g"' in said
    assert "secret" not in said
    (tmp_path / "a.toml").write_text('grafana = "https://g"\n')
    assert main(["config", "check", str(tmp_path / "a.toml")]) == 1
    assert "problem: no token: set GRAFANA_TOKEN" in capsys.readouterr().out
