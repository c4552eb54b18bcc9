from __future__ import annotations

import pytest

from eroica_otel.errors import ConfigError
from eroica_otel.webserver import Address, BoundedServer, Handler, is_loopback, parse_address
from factories_central import fetch


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:4318", ("127.0.0.1", 4318)),
        ("localhost:0", ("localhost", 0)),
        ("[::1]:9465", ("::1", 9465)),
        (":4318", ("127.0.0.1", 4318)),
        ("4318", ("127.0.0.1", 4318)),
    ],
)
def test_an_address_is_host_and_port(text: str, address: tuple[str, int]) -> None:
    assert parse_address(text, "--listen") == address


@pytest.mark.parametrize("text", ["", "localhost", "localhost:", "localhost:-1", "localhost:65536", "host:٣"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="--listen"):
        parse_address(text, "--listen")


def test_loopback_is_what_only_this_machine_reaches() -> None:
    assert all(map(is_loopback, ("127.0.0.1", "127.8.8.8", "::1", "localhost")))
    assert not any(map(is_loopback, ("0.0.0.0", "::", "10.0.0.1", "example.com", "")))


class Echo(Handler):
    def do_GET(self) -> None:
        self.answer(200, self.path.encode())


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1"])
def test_it_serves_on_either_family_and_ends(host: str) -> None:
    server = BoundedServer(Address(host, 0), Echo)
    server.start("echo")
    assert fetch(f"{server.url}/x") == (200, b"/x")
    server.stop()
    again = BoundedServer(Address(host, server.port), Echo)
    again.stop()
