"""A push against the contract of Grafana's API: what it makes, what it leaves, and how each refusal is told."""

from __future__ import annotations

import gzip
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from eroica_otel import assets
from eroica_otel.boards import access as accesses
from eroica_otel.boards import board as boards
from eroica_otel.boards.access import Access
from eroica_otel.boards.api import Grafana
from eroica_otel.boards.board import Board
from eroica_otel.boards.push import SOURCE_UID, Wish, push
from eroica_otel.errors import ConfigError, DeliveryError
from eroica_otel.webserver import Address, BoundedServer, Handler
from grafana_api import SOURCE, TOKEN, FakeGrafana

SHIPPED = boards.read(assets.path("grafana") / "dashboards")
ONE, TWO = (Board(uid, uid.title(), {"uid": uid, "title": uid.title(), "panels": []}) for uid in ("one", "two"))


def pushed(grafana: FakeGrafana, *given: Board, access: dict[str, Any] | None = None, **wish: Any) -> list[str]:
    said: list[str] = []
    push(
        Grafana(Access(**{"url": grafana.url, "token": TOKEN} | (access or {}))),
        given or (ONE,),
        Wish(**wish),
        said.append,
    )
    return [line.replace(grafana.url, "URL") for line in said]


def refused(grafana: FakeGrafana, *given: Board, kind: type[Exception] = DeliveryError, **wish: Any) -> str:
    with pytest.raises(kind) as caught:
        pushed(grafana, *given, **wish)
    assert "\n" not in str(caught.value)
    return str(caught.value).replace(grafana.url, "URL")


def test_every_dashboard_that_ships_arrives_as_it_is_in_a_folder_of_its_own(grafana: FakeGrafana) -> None:
    said = pushed(grafana, *SHIPPED)
    assert said[:3] == ["Grafana 11.6.0 at URL", "data source: Prometheus", "folder EROICA: created"]
    assert said[3:] == [f"dashboard {each.title}: created, URL/d/{each.uid}" for each in SHIPPED]
    assert grafana.folders == {"eroica": "EROICA"}
    assert set(grafana.boards) == {each.uid for each in SHIPPED}
    for each in SHIPPED:
        held = grafana.boards[each.uid]
        assert held["folderUid"] == "eroica"
        assert {**held["model"], "id": None} == {**each.model, "id": None, "version": 1}


@pytest.mark.parametrize("listed", [False, True], ids=["11.4 and newer", "older"])
def test_a_second_push_writes_nothing(grafana: FakeGrafana, listed: bool) -> None:
    grafana.listed = listed
    pushed(grafana, ONE, TWO)
    del grafana.writes[:]
    assert [line.split(": ")[1].split(",")[0] for line in pushed(grafana, ONE, TWO)[2:]] == ["unchanged"] * 3
    assert grafana.writes == []


def test_a_second_push_writes_nothing_where_grafana_rewrites_what_it_is_given(grafana: FakeGrafana) -> None:
    pushed(grafana)
    grafana.boards["one"]["model"]["schemaVersion"] = 42
    assert pushed(grafana)[-1] == "dashboard One: unchanged, URL/d/one"


def test_a_later_release_updates_what_the_last_one_wrote_where_it_lies(grafana: FakeGrafana) -> None:
    pushed(grafana)
    grafana.boards["one"]["folderUid"] = "elsewhere"
    grafana.folders["elsewhere"] = "Elsewhere"
    later = Board("one", "One", {**ONE.model, "refresh": "1m"})
    assert pushed(grafana, later)[-1] == "dashboard One: updated, URL/d/one"
    held = grafana.boards["one"]
    assert (held["model"]["refresh"], held["model"]["version"], held["folderUid"]) == ("1m", 2, "elsewhere")


def test_what_was_edited_by_hand_stays_and_the_others_are_pushed(grafana: FakeGrafana) -> None:
    pushed(grafana, ONE, TWO)
    grafana.edit("one", refresh="5s")
    later = [Board(each.uid, each.title, {**each.model, "tags": ["new"]}) for each in (ONE, TWO)]
    said = refused(grafana, *later)
    assert said.startswith("left as they are: one; ")
    assert "give --force to overwrite" in said
    assert grafana.boards["one"]["model"]["refresh"] == "5s"
    assert "tags" not in grafana.boards["one"]["model"]
    assert grafana.boards["two"]["model"]["tags"] == ["new"]


def test_force_overwrites_what_was_edited_by_hand(grafana: FakeGrafana) -> None:
    pushed(grafana)
    grafana.edit("one", refresh="5s")
    assert pushed(grafana, force=True)[-1] == "dashboard One: overwritten, URL/d/one"
    assert "refresh" not in grafana.boards["one"]["model"]
    assert pushed(grafana)[-1] == "dashboard One: unchanged, URL/d/one"


def test_a_dashboard_that_was_imported_by_hand_is_taken_for_ours_only_where_it_is_the_same(
    grafana: FakeGrafana,
) -> None:
    grafana._store(ONE.model, "", "", "alice")
    assert pushed(grafana)[-1] == "dashboard One: unchanged, URL/d/one"
    grafana._store({**TWO.model, "panels": [{"id": 1}]}, "", "", "alice")
    assert "left as they are: two" in refused(grafana, TWO)


def test_what_comes_from_a_file_is_left_even_by_force(grafana: FakeGrafana) -> None:
    pushed(grafana)
    grafana.edit("one", refresh="5s")
    grafana.boards["one"]["provisioned"] = True
    assert "left as they are: one" in refused(grafana, force=True)


def test_a_dry_run_shows_the_difference_and_writes_nothing(grafana: FakeGrafana) -> None:
    pushed(grafana)
    grafana.edit("one", refresh="5s")
    del grafana.writes[:]
    said = pushed(grafana, ONE, TWO, dry_run=True, force=True)
    assert grafana.writes == []
    assert said[3] == "dashboard One: would be overwritten, URL/d/one"
    changed = [line for line in said[4:-1] if line.startswith(("+", "-"))]
    assert changed[0].startswith("--- one in Grafana")
    assert changed[2:] == ['- "refresh": "5s",']
    assert said[-1] == "dashboard Two: would be created, URL/d/two"


def test_a_dry_run_on_an_empty_grafana_names_all_that_would_be_made(grafana: FakeGrafana) -> None:
    del grafana.sources[:]
    said = pushed(grafana, dry_run=True, source_url="http://prom:9090")
    assert said[1:] == [
        "data source Prometheus (eroica): would be created",
        "folder EROICA: would be created",
        "dashboard One: would be created, URL/d/one",
    ]
    assert (grafana.writes, grafana.folders, grafana.boards, grafana.sources) == ([], {}, {}, [])


def test_somebody_who_saves_in_between_is_not_overwritten(
    grafana: FakeGrafana, monkeypatch: pytest.MonkeyPatch
) -> None:
    pushed(grafana)
    real = Grafana.board

    def then_alice_saves(self: Grafana, uid: str) -> Any:
        held = real(self, uid)
        grafana.edit("one", refresh="5s")
        return held

    monkeypatch.setattr(Grafana, "board", then_alice_saves)
    said = refused(grafana, Board("one", "One", {**ONE.model, "tags": ["new"]}))
    assert "(412: The dashboard has been changed by someone else); look there, then run it again" in said
    assert grafana.boards["one"]["model"]["refresh"] == "5s"


def test_no_data_source_is_told_with_the_remedy_before_anything_is_written(grafana: FakeGrafana) -> None:
    grafana.sources = [{**SOURCE, "type": "loki"}]
    said = refused(grafana, kind=ConfigError)
    assert "has no Prometheus data source" in said
    assert "--data-source-url" in said
    assert grafana.writes == []


def test_a_data_source_of_our_own_is_made_once_and_follows_its_address(grafana: FakeGrafana) -> None:
    assert "data source Prometheus (eroica): created" in pushed(grafana, source_url="http://new:9090")
    (made,) = [source for source in grafana.sources if source["uid"] == SOURCE_UID]
    assert (made["url"], made["type"], made["access"], made["isDefault"]) == (
        "http://new:9090",
        "prometheus",
        "proxy",
        False,
    )
    assert "data source Prometheus (eroica): unchanged" in pushed(grafana, source_url="http://new:9090")
    moved = "data source Prometheus (eroica): updated, http://new:9090 is replaced"
    assert moved in pushed(grafana, source_url="http://newer:9090")
    assert [source["url"] for source in grafana.sources] == ["http://prom:9090", "http://newer:9090"]


def test_a_data_source_that_leads_there_already_is_used(grafana: FakeGrafana) -> None:
    assert "data source Prometheus: unchanged" in pushed(grafana, source_url="http://prom:9090")
    assert len(grafana.sources) == 1


def test_another_folder_of_that_name_is_told_with_its_uid_and_can_be_used(grafana: FakeGrafana) -> None:
    grafana.folders["abc"] = "EROICA"
    said = refused(grafana, kind=ConfigError)
    assert "has another folder named 'EROICA' (uid abc); give --folder-uid abc to use it" in said
    assert grafana.writes == []
    assert "folder EROICA: unchanged" in pushed(grafana, folder_uid="abc")
    assert grafana.boards["one"]["folderUid"] == "abc"


def test_a_folder_that_was_renamed_is_still_ours(grafana: FakeGrafana) -> None:
    grafana.folders["eroica"] = "Training"
    assert "folder Training: unchanged" in pushed(grafana)


def test_a_token_that_grafana_does_not_know(grafana: FakeGrafana) -> None:
    said = refused(grafana, access={"token": "old"})
    assert said == (
        "Grafana at URL refuses the credentials (401: Invalid API key); give a valid token of a service account by "
        "--token-file or GRAFANA_TOKEN"
    )


@pytest.mark.parametrize(
    ("path", "doing"),
    [
        ("/api/folders", "create folders"),
        ("/api/folders/eroica", "read folders"),
        ("/api/dashboards/db", "write dashboards"),
    ],
)
def test_a_right_that_is_missing_is_named_with_the_role_that_has_it(
    grafana: FakeGrafana, path: str, doing: str
) -> None:
    if path != "/api/folders":
        grafana.folders["eroica"] = "EROICA"
    else:
        doing = "read folders"
    grafana.forbidden.add(path)
    assert f"does not let this token {doing} (403: " in (said := refused(grafana))
    assert "Editor" in said


def test_data_sources_that_may_not_be_read_are_no_reason_to_stop(grafana: FakeGrafana) -> None:
    grafana.forbidden.add("/api/datasources")
    assert pushed(grafana)[1].startswith("data source: not looked at, the dashboards need one of type Prometheus")
    assert "does not let this token read data sources" in refused(grafana, source_url="http://prom:9090")


def test_an_old_grafana_is_told_so(grafana: FakeGrafana) -> None:
    grafana.version = "10.4.2"
    assert pushed(grafana)[0] == "Grafana 10.4.2 at URL: older than 11.6, for which the dashboards are written"


@pytest.mark.parametrize("version", ["", "9" * 5000, "main", "11.6.0\nx"])
def test_a_version_that_says_nothing_is_no_reason_to_stop(grafana: FakeGrafana, version: str) -> None:
    grafana.version = version
    first = pushed(grafana)[0]
    assert first.startswith("Grafana")
    assert "\n" not in first
    assert "older" not in first


def test_a_name_of_several_lines_stays_one(grafana: FakeGrafana) -> None:
    grafana.folders["eroica"] = "A\nB\x1b[31m"
    assert "folder A B [31m: unchanged" in pushed(grafana)


def test_nobody_there(grafana: FakeGrafana) -> None:
    grafana.stop()
    assert refused(grafana) == ("Grafana at URL cannot be asked: Connection refused; start it or correct --url")


class _Other(Handler):
    def do_GET(self) -> None:
        moved = {"Location": "https://elsewhere.example/login"} if self.path.startswith("/moved") else {}
        self.answer(302 if moved else 200, b"<html>", "text/html", **moved)


@pytest.fixture
def other() -> Iterator[BoundedServer]:
    server = BoundedServer(Address("127.0.0.1", 0), _Other)
    server.start("other")
    yield server
    server.stop()


@pytest.mark.parametrize(
    ("path", "told"),
    [("", "answers, but not as a Grafana does"), ("/moved", "redirects to another address; give that one")],
)
def test_what_is_no_grafana_is_told_and_gets_no_token_elsewhere(other: BoundedServer, path: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        push(Grafana(Access(other.url + path, TOKEN)), (ONE,), Wish(), print)


MOST = 1 << 16


class _Large(Handler):
    """An empty object, and as much white space after it as fits, or one more."""

    def do_GET(self) -> None:
        body = b"{}".ljust(MOST + ("more" in self.path))
        packed = {"Content-Encoding": "gzip"} if self.path.startswith("/packed") else {}
        self.answer(200, gzip.compress(body) if packed else body, "application/json", **packed)


@pytest.mark.parametrize("path", ["/plain", "/packed"])
def test_no_more_is_read_of_an_answer_than_a_grafana_gives(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accesses, "MOST_BYTES", MOST)
    server = BoundedServer(Address("127.0.0.1", 0), _Large)
    server.start("large")
    try:
        assert Grafana(Access(server.url + path, TOKEN)).version() == ""
        with pytest.raises(ConfigError, match=r"/more answers more than .* give the address of a Grafana"):
            Grafana(Access(f"{server.url}{path}/more", TOKEN)).version()
    finally:
        server.stop()


def signed(folder: Path, name: str) -> tuple[str, str]:
    """Make a certificate that signs itself; return its file and that of its key."""
    certificate, key = str(folder / f"{name}.pem"), str(folder / f"{name}.key")
    create = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    named = ["-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run([*create, *named, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    return certificate, key


def test_a_certificate_is_checked_against_the_authority_that_is_given(tmp_path: Path) -> None:
    certificate, key = signed(tmp_path, "grafana")
    server = FakeGrafana(certificate, key)
    try:
        assert pushed(server, access={"ca": certificate})[-1] == "dashboard One: created, URL/d/one"
        assert "give the authority of its certificate by --ca" in refused(server)
    finally:
        server.stop()


def test_a_server_that_asks_for_a_certificate_gets_the_one_that_is_given(tmp_path: Path) -> None:
    certificate, key = signed(tmp_path, "grafana")
    ours, our_key = signed(tmp_path, "eroica")
    other, other_key = signed(tmp_path, "other")
    both = tmp_path / "both.pem"
    both.write_text(Path(ours).read_text() + Path(our_key).read_text())
    server = FakeGrafana(certificate, key, clients=ours)
    try:
        for files in ({"certificate": ours, "key": our_key}, {"certificate": str(both)}):
            assert pushed(server, access={"ca": certificate} | files)[1] == "data source: Prometheus"
        assert "give a certificate that it knows by --certificate" in refused(server, access={"ca": certificate})
        wrong = {"ca": certificate, "certificate": other, "key": other_key}
        assert "give a certificate that it knows by --certificate" in refused(server, access=wrong)
    finally:
        server.stop()


@pytest.mark.parametrize(
    ("url", "files", "told"),
    [
        ("http://h", {"ca": "x.pem"}, "--ca x.pem is for https://, but --url is http://"),
        ("http://h", {"certificate": "x.pem"}, "--certificate x.pem is for https://"),
        ("https://h", {"key": "x.key"}, "--key is for a certificate; give --certificate too"),
        ("https://h", {"certificate": "/no/such.pem"}, "--certificate /no/such.pem cannot be loaded: No such file"),
    ],
)
def test_files_that_cannot_be_used_are_told_before_anybody_is_asked(url: str, files: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=f"^{re.escape(told)}"):
        Grafana(Access(url, TOKEN, **files))


def test_a_key_with_a_password_is_told_and_none_is_asked_for(tmp_path: Path) -> None:
    certificate, key = signed(tmp_path, "eroica")
    locked = str(tmp_path / "locked.key")
    lock = ["openssl", "ec", "-in", key, "-aes256", "-passout", "pass:secret", "-out", locked]
    subprocess.run(lock, check=True, capture_output=True)
    with pytest.raises(ConfigError, match=r"cannot be loaded: .*its key unencrypted"):
        Grafana(Access("https://h", TOKEN, certificate=certificate, key=locked))


def test_without_grafana_client_its_install_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "grafana_client", None)
    with pytest.raises(ConfigError) as caught:
        Grafana(Access("http://h", TOKEN))
    assert str(caught.value) == "--url needs grafana-client; install it: pip install 'eroica-otel[grafana]'"


def test_a_proxy_and_a_netrc_are_not_read(
    grafana: FakeGrafana, other: BoundedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login a password b\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, other.url)
    assert pushed(grafana)[-1] == "dashboard One: created, URL/d/one"


@pytest.mark.parametrize(
    ("path", "root"), [("", "/api"), ("/", "/api"), ("/grafana", "/grafana/api"), ("/a/b/", "/a/b/api")]
)
def test_a_grafana_below_a_path_is_asked_there(path: str, root: str) -> None:
    assert Grafana(Access(f"http://[::1]:3000{path}", TOKEN))._api.client.url == f"http://[::1]:3000{root}"


def test_an_authority_that_is_no_pem_file(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("x")
    with pytest.raises(ConfigError, match=r"--ca .*ca\.pem cannot be loaded: .*; give a PEM file"):
        Grafana(Access("https://127.0.0.1:1", TOKEN, str(tmp_path / "ca.pem")))
