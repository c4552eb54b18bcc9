from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from backends import backend
from eroica_otel.commands import localize, main, sources
from eroica_otel.commands.settings import effective
from eroica_otel.query.client import Backend
from eroica_otel.webserver import Address

URL = "http://127.0.0.1:9090"


def parsed(*options: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    localize.configure(parser)
    given = parser.parse_args(options)
    settings = effective(given.table, given, {})
    return argparse.Namespace(**{dest: setting.value for dest, setting in settings.items()})


def test_the_receiver_is_off_where_a_prometheus_is_read_unless_it_is_asked_for() -> None:
    default, given = Address("127.0.0.1", 4318, "--listen"), Address("127.0.0.1", 4444, "--listen")
    for options, address in (
        ((), default),
        (("--prometheus", URL), None),
        (("--prometheus", URL, "--listen", "127.0.0.1:4444"), given),
        (("--listen", "127.0.0.1:4444"), given),
    ):
        assert sources.listen(parsed(*options), "", "", "") == address


def test_the_options_of_the_backend() -> None:
    options = ("--prometheus-header", "X-Scope-OrgID: a b", "--prometheus-header", "X-A:b", "--match", 'team="x"')
    made = sources.backend(parsed("--prometheus", f"{URL}/api/v1", *options, "--prometheus-interval", "2"))
    assert made == Backend(URL, headers=(("X-Scope-OrgID", "a b"), ("X-A", "b")), match='team="x"', interval_seconds=2)
    assert sources.backend(parsed()) is None
    assert sources.backend(parsed("--prometheus", URL)) == Backend(URL)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--prometheus", "localhost:9090"], "--prometheus 'localhost:9090' is no address"),
        (["--prometheus", URL, "--metrics", "127.0.0.1:9090"], "is this localizer's own --metrics"),
        (["--prometheus", URL, "--listen", "127.0.0.1:9090"], "is this localizer's own --listen"),
        (["--prometheus", URL, "--match", "team=x"], "--match 'team=x' is no list of label matchers"),
        (["--prometheus", URL, "--prometheus-interval", "0"], "--prometheus-interval '0': give 0.5 to 600"),
        (["--prometheus", URL, "--prometheus-interval", "nan"], "give 0.5 to 600 seconds"),
        (["--prometheus", URL, "--prometheus-ca", "/x"], "--prometheus-ca /x is for https://"),
        (["--prometheus", "https://h", "--prometheus-ca", "/gone"], "--prometheus-ca /gone cannot be loaded"),
        (["--prometheus", URL, "--prometheus-token-file", "/gone"], "-file /gone: No such file or directory; give a"),
        (["--prometheus", URL, "--prometheus-header", "no colon"], "--prometheus-header 'no colon' is none"),
        (["--prometheus", URL, "--prometheus-header", "a: b\nc: d"], "give NAME: VALUE"),
        (["--prometheus", URL, "--prometheus-header", "Authorization: x"], "give --prometheus-token-file"),
        (["--prometheus", URL, "--prometheus-header", "Host: x"], "leave it out"),
        (["--match", 'team="x"'], "--match says how to read a Prometheus; give --prometheus URL too"),
        (["--prometheus-token-file", "/x"], "--prometheus-token-file says how to read a Prometheus"),
        (["--prometheus-interval", "5"], "--prometheus-interval says how"),
        (["--prometheus-header", "a: b"], "--prometheus-header says how"),
    ],
)
def test_wrong_usage_is_2_with_the_remedy(
    options: list[str], text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main(["localize", "--state", str(tmp_path), *options]) == 2
    error = capsys.readouterr().err
    assert text in error
    assert error.count("\n") == 1


def test_credentials_over_plain_http_to_another_machine_are_warned_of(capsys: pytest.CaptureFixture[str]) -> None:
    for url, warned in (("http://me:pw@h:9090", 1), ("https://me:pw@h", 0), ("http://me:pw@127.0.0.1:9090", 0)):
        sources.backend(parsed("--prometheus", url))
        error = capsys.readouterr().err
        assert error.count("unencrypted") == warned
        assert "pw" not in error


def test_once_without_a_verdict_tells_how_many_workers_are_in_the_backend(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with backend() as server:
        options = ["--once", "--timeout", "1", "--metrics", "127.0.0.1:0", "--state", str(tmp_path)]
        assert main.main(["localize", "--prometheus", server.url, *options]) == 3
        lines = capsys.readouterr().err.splitlines()
    assert f"waiting for patterns in {server.url} (PromQL)" in lines[0]
    assert f"{server.url} answers, but holds no eroica_iterations_total of the last minutes" in lines[1]
    assert f"no verdict came, 0 workers are in {server.url}" in lines[-1]


def test_once_with_a_backend_that_refuses_repeats_the_refusal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with backend() as server:
        url = server.url  # nobody listens there any more
    options = ["--once", "--timeout", "1", "--metrics", "127.0.0.1:0", "--state", str(tmp_path)]
    assert main.main(["localize", "--prometheus", url, *options]) == 3
    last = capsys.readouterr().err.splitlines()[-1]
    assert f"no verdict came, 0 workers were seen and {url} cannot be read: Connection refused; is it running" in last
    assert "ask them for a window" not in last
