from __future__ import annotations

import gzip
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from backends import BackendServer, Reply, Request, backend
from eroica_otel.errors import ConfigError
from eroica_otel.query import client
from eroica_otel.query.client import Backend, Client, QueryFailed, checked_url

GOOD = b'{"status":"success"}'


@pytest.fixture
def server() -> Iterator[BackendServer]:
    with backend() as running:
        running.reply = lambda request: request.send(200, GOOD)
        yield running


def ask(url: str, seconds: float = 20, **options: object) -> bytes:
    return Client(Backend(url, timeout_seconds=seconds, **options)).post("/api/v1/query", {"query": "up"})  # type: ignore[arg-type]


def refused(server: BackendServer, reply: Reply, seconds: float = 20) -> tuple[str, str]:
    server.reply = reply
    with pytest.raises(QueryFailed) as failed:
        ask(server.url, seconds)
    assert failed.value.outcome in client.OUTCOMES
    return failed.value.outcome, str(failed.value)


def raw(body: bytes) -> Reply:
    def reply(request: Request) -> None:
        request.wfile.write(body)
        request.close_connection = True

    return reply


HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n"
HEAD_OF_A_STREAM = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n50\r\n"


def test_a_question_is_a_form_and_the_answer_comes_compressed(server: BackendServer) -> None:
    assert ask(f"{server.url}/prometheus", headers=(("X-Scope-OrgID", "team"),)) == GOOD
    ((path, headers),) = server.requests
    assert path == "/prometheus/api/v1/query"
    assert headers["Content-Type"] == "application/x-www-form-urlencoded"
    assert headers["Accept-Encoding"] == "gzip"
    assert headers["X-Scope-OrgID"] == "team"
    assert "Authorization" not in headers


def test_a_token_is_read_anew_for_each_question(server: BackendServer, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("one\n")
    asking = Client(Backend(server.url, token_file=str(token)))
    asking.post("/", {})
    token.write_text("two\n")
    asking.post("/", {})
    assert [headers["Authorization"] for _, headers in server.requests] == ["Bearer one", "Bearer two"]
    token.unlink()
    with pytest.raises(QueryFailed, match="--prometheus-token-file"):
        asking.post("/", {})


def test_user_and_password_of_the_address_are_sent_and_never_shown(server: BackendServer) -> None:
    asking = Client(Backend(server.url.replace("//", "//me:p%40ss@")))
    asking.post("/", {})
    assert server.requests[0][1]["Authorization"] == "Basic bWU6cEBzcw=="
    assert asking.url == server.url


def test_the_password_comes_from_a_file_that_is_read_anew(server: BackendServer, tmp_path: Path) -> None:
    (tmp_path / "password").write_text("p@ss\n")
    asking = Client(Backend(server.url.replace("//", "//me@"), password_file=str(tmp_path / "password")))
    asking.post("/", {})
    assert server.requests[0][1]["Authorization"] == "Basic bWU6cEBzcw=="
    (tmp_path / "password").unlink()
    with pytest.raises(QueryFailed, match="--prometheus-password-file"):
        asking.post("/", {})


@pytest.mark.parametrize("content", ["", " \n", "a\x01b", "ä"])
def test_a_token_file_without_a_token_is_refused_at_once(content: str, tmp_path: Path) -> None:
    (tmp_path / "token").write_text(content)
    with pytest.raises(ConfigError, match="--prometheus-token-file"):
        Client(Backend("http://127.0.0.1:1", token_file=str(tmp_path / "token")))


def test_a_ca_that_is_none_is_refused_at_once(tmp_path: Path) -> None:
    for path in (tmp_path / "gone", Path(__file__)):
        with pytest.raises(ConfigError, match=r"--prometheus-ca .* give a PEM file"):
            Client(Backend("https://127.0.0.1:1", ca=str(path)))


@pytest.mark.parametrize(
    ("code", "body", "outcome", "text"),
    [
        (
            422,
            b'{"status":"error","error":"query processing would load too many samples"}',
            "too_large",
            "422: query pr",
        ),
        (422, b"", "too_large", "raise the limit that it names, or restrict the question"),
        (500, b"<h1>broken\n</h1>", "refused", "it answers 500: <h1>broken </h1>"),
        (503, b"query timed out in expression evaluation", "too_large", "raise --query.timeout of Prometheus"),
        (400, b'{"error":"\\u001b[31mred"}', "refused", "it answers 400:  [31mred"),
        (401, b"who?", "unauthorized", "401: who?); give --prometheus-token-file"),
        (403, b"", "unauthorized", "--prometheus-header"),
        (404, b"", "not_found", "give the address up to before /api/v1"),
        (204, b"", "refused", "204"),
    ],
)
def test_an_error_is_shown_with_its_text(
    code: int, body: bytes, outcome: str, text: str, server: BackendServer
) -> None:
    got, said = refused(server, lambda request: request.send(code, body))
    assert got == outcome
    assert text in said
    assert "\n" not in said


@pytest.mark.parametrize("code", client.BUSY)
def test_a_busy_server_is_asked_again_twice(code: int, server: BackendServer) -> None:
    pauses: list[float] = []
    server.reply = lambda request: request.send(code, b"")
    with pytest.raises(QueryFailed, match=f"it answers {code}"):
        Client(Backend(server.url), pauses.append).post("/", {})
    assert pauses == list(client.PAUSES_SECONDS)
    assert len(server.requests) == 3


@pytest.mark.parametrize(("wish", "pause"), [("3", 3.0), ("3600", client.LONGEST_PAUSE_SECONDS), ("soon", 0.5)])
def test_the_servers_wish_for_a_pause_is_heard_up_to_a_limit(wish: str, pause: float, server: BackendServer) -> None:
    pauses: list[float] = []

    def reply(request: Request) -> None:
        request.send(429 if len(server.requests) == 1 else 200, GOOD, Retry_After=wish)

    server.reply = reply
    assert Client(Backend(server.url), pauses.append).post("/", {}) == GOOD
    assert pauses == [pause]


@pytest.mark.parametrize("code", [400, 401, 404, 422, 500])
def test_an_answer_that_will_stay_is_not_asked_for_again(code: int, server: BackendServer) -> None:
    refused(server, lambda request: request.send(code, b""))
    assert len(server.requests) == 1


def lines(server: BackendServer, reply: Reply, seconds: float = 20) -> Iterator[bytes]:
    server.reply = reply
    return Client(Backend(server.url, timeout_seconds=seconds)).lines("/api/v1/export", {})


def test_lines_are_whole_however_the_answer_is_cut(server: BackendServer) -> None:
    server.exports = True
    body = b"a" * 100_000 + b"\n\n" + b"b" * 70_000
    assert list(lines(server, lambda request: request.send(200, body))) == [b"a" * 100_000, b"", b"b" * 70_000]
    assert list(lines(server, raw(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\none\ntwo\n"))) == [b"one", b"two"]


def test_a_stream_is_read_as_it_comes_and_may_be_left_at_any_line(server: BackendServer) -> None:
    server.exports = True

    def endless(request: Request) -> None:
        request.wfile.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
        while True:
            request.wfile.write(b"line\n" * 1000)

    stream = lines(server, endless)
    assert [next(stream) for _ in range(5000)] == [b"line"] * 5000
    stream.close()  # type: ignore[attr-defined]


@pytest.mark.parametrize("body", [HEAD_OF_A_STREAM + b"half", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\na\nb"])
def test_a_stream_that_breaks_off_is_told(body: bytes, server: BackendServer) -> None:
    server.exports = True
    with pytest.raises(QueryFailed) as failed:
        list(lines(server, raw(body)))
    assert failed.value.outcome == "malformed"


def test_an_endless_line_is_cut_off(server: BackendServer, monkeypatch: pytest.MonkeyPatch) -> None:
    server.exports = True
    monkeypatch.setattr(client, "LINE_BYTES", 2**16)
    with pytest.raises(QueryFailed, match="a line of the answer") as failed:
        list(lines(server, lambda request: request.send(200, bytes(2**18))))
    assert failed.value.outcome == "too_large"


def test_a_long_error_is_cut(server: BackendServer) -> None:
    assert len(refused(server, lambda request: request.send(500, b"x" * 10**6))[1]) < 400


def test_a_redirect_is_said_and_not_followed(server: BackendServer) -> None:
    target = "https://elsewhere.invalid/p/api/v1/query?x=1"
    outcome, said = refused(server, lambda request: request.send(302, b"", Location=target))
    assert outcome == "redirected"
    assert "it redirects to https://elsewhere.invalid/p; give the address it redirects to" in said
    assert len(server.requests) == 1


PACKED = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nConnection: close\r\n\r\n"


@pytest.mark.parametrize(
    "body",
    [
        b"nonsense\r\n\r\n", b"", HEAD + GOOD, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n50\r\nhalf",
        PACKED + b"no gzip", PACKED + gzip.compress(GOOD)[:-9], b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 200,
    ],
    ids=["nonsense", "nothing", "half a body", "half a chunk", "no gzip", "half of gzip", "too many headers"],
)  # fmt: skip
def test_an_answer_that_breaks_off_or_is_none(body: bytes, server: BackendServer) -> None:
    outcome, said = refused(server, raw(body))
    assert outcome == "malformed", said


def drip(request: Request) -> None:
    """Send a byte every now and then, for ever: each comes well within a socket's time-out."""
    request.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
    for _ in range(600):
        request.wfile.write(b"x")
        time.sleep(0.1)


def mute(request: Request) -> None:
    """Answer nothing until the client has gone."""
    request.connection.recv(1)


@pytest.mark.parametrize("reply", [drip, mute])
def test_a_backend_that_is_too_slow_is_left(reply: Reply, server: BackendServer) -> None:
    assert refused(server, reply, 0.5) == ("timeout", "no answer within 0.5 s; is it overloaded?")


def test_an_endless_answer_is_cut_off(server: BackendServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "ANSWER_BYTES", 2**20)

    def endless(request: Request) -> None:
        request.wfile.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
        while True:
            request.wfile.write(bytes(65536))

    outcome, said = refused(server, endless)
    assert outcome == "too_large"
    assert "--match" in said


def test_a_small_answer_that_unpacks_to_gigabytes_is_cut_off(server: BackendServer) -> None:
    bomb = gzip.compress(bytes(client.ANSWER_BYTES + 1), 9)
    assert len(bomb) < 2**20
    assert refused(server, raw(PACKED + bomb))[0] == "too_large"


def test_nobody_there_is_said_with_the_remedy() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, not listening
        with pytest.raises(QueryFailed, match=r"Connection refused; is it running, and is the address right\?"):
            ask(f"http://127.0.0.1:{taken.getsockname()[1]}")
    with pytest.raises(QueryFailed, match="the host is not known"):
        ask("http://nohost.invalid:9090")


def test_https_asked_of_a_plain_server_is_told(server: BackendServer) -> None:
    with pytest.raises(QueryFailed, match="is it http://"):
        ask(server.url.replace("http:", "https:"))


def certified(folder: Path, name: str) -> tuple[str, str]:
    """Make a certificate that signs itself, and its key."""
    certificate, key = str(folder / f"{name}.pem"), str(folder / f"{name}.key")
    create = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    named = ["-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run([*create, *named, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    return certificate, key


def behind_tls(server: BackendServer, certificate: str, key: str, client_ca: str = "") -> str:
    """Serve by TLS and return the address; with an authority of clients, only to those that it has signed."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    if client_ca:
        context.load_verify_locations(client_ca)
        context.verify_mode = ssl.CERT_REQUIRED
    server.socket = context.wrap_socket(server.socket, server_side=True)
    return server.url.replace("http:", "https:")


def test_a_certificate_is_checked_against_the_authority_that_is_given(server: BackendServer, tmp_path: Path) -> None:
    certificate, key = certified(tmp_path, "backend")
    url = behind_tls(server, certificate, key)
    assert ask(url, ca=certificate) == GOOD
    with pytest.raises(QueryFailed, match="self-signed certificate; give its authority by --prometheus-ca"):
        ask(url)


def test_a_server_that_wants_to_know_us_is_shown_our_certificate(server: BackendServer, tmp_path: Path) -> None:
    certificate, key = certified(tmp_path, "backend")
    ours, our_key = certified(tmp_path, "localizer")
    url = behind_tls(server, certificate, key, client_ca=ours)
    assert ask(url, ca=certificate, certificate=ours, key=our_key) == GOOD
    both = tmp_path / "both.pem"
    both.write_text(Path(ours).read_text() + Path(our_key).read_text())
    assert ask(url, ca=certificate, certificate=str(both)) == GOOD
    with pytest.raises(QueryFailed, match="--prometheus-certificate"):
        ask(url, ca=certificate)


def test_our_certificate_needs_its_key(tmp_path: Path) -> None:
    ours, _ = certified(tmp_path, "localizer")
    _, other = certified(tmp_path, "other")
    for key in (other, "", str(tmp_path / "gone")):
        with pytest.raises(ConfigError, match=r"--prometheus-certificate .* give the PEM files"):
            Client(Backend("https://127.0.0.1:1", certificate=ours, key=key))


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("http://h:9090/", "http://h:9090"),
        ("https://h/select/0/prometheus", "https://h/select/0/prometheus"),
        ("http://h/api/v1/", "http://h"),
        ("http://[::1]:9090", "http://[::1]:9090"),
    ],
)
def test_an_address_ends_before_the_api(given: str, kept: str) -> None:
    assert checked_url(given, "--prometheus") == kept


@pytest.mark.parametrize(
    "given",
    ["", "h:9090", "ftp://h", "http://", "http://h:x", "http://h:99999", "http://h/?a=1", "http://h/ x", "http://[::1"],
)
def test_what_is_no_address_is_refused_with_an_example(given: str) -> None:
    with pytest.raises(ConfigError, match=r"--prometheus .* for example http://127.0.0.1:9090"):
        checked_url(given, "--prometheus")
