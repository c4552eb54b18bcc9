"""Users of /metrics: lines for the file, files that cannot be used, and who is let in how often."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path

import pytest

from eroica_hardware import passwords
from eroica_hardware.passwords import Doorkeeper, Hashed
from eroica_otel.errors import ConfigError
from factories_hardware import Turned


def cheap(password: str) -> Hashed:
    """A hash that takes no time."""
    digest = hashlib.scrypt(password.encode(), salt=b"salt", n=2, r=1, p=1, dklen=32)
    return Hashed(2, 1, 1, b"salt", digest)


def basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def test_the_line_of_a_user_lets_in_who_has_the_password(tmp_path: Path) -> None:
    file = tmp_path / "users"
    file.write_text("# of Prometheus\n" + passwords.line("prom", "pässword:with colon") + "\n")
    users = passwords.read(str(file))
    assert users.keys() == {"prom"}
    assert users["prom"].matches("pässword:with colon".encode())
    assert not users["prom"].matches(b"another")


def test_two_lines_of_one_password_differ() -> None:
    assert passwords.line("a", "b") != passwords.line("a", "b")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "has no user"),
        ("# only this\n\n", "has no user"),
        ("prom:secret", "user 1 is no line"),
        ("prom:scrypt:16384:8:1:zz:00", "user 1 is no line"),
        (f"prom:scrypt:16384:8:1:00:{'00' * 31}", "user 1 is no line"),
        (f"prom:scrypt:3:8:1:00:{'00' * 32}", "user 1 is no line"),  # no power of 2
        (f"prom:scrypt:{1 << 30}:8:1:00:{'00' * 32}", "user 1 is no line"),  # a GiB for every check
        (f"prom:scrypt:131072:64:1:00:{'00' * 32}", "user 1 is no line"),
        (f":scrypt:2:8:1:00:{'00' * 32}", "user 1 is no line"),
        ("prom:$2y$10$mDwo.lAisC94iLAyP81MCesa29IzH37oigHC/42V2pdJlUprsJPze", "user 1 is no line"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_at_the_start(text: str, complaint: str, tmp_path: Path) -> None:
    file = tmp_path / "users"
    file.write_text(text)
    with pytest.raises(ConfigError, match=complaint):
        passwords.read(str(file))


def test_no_file_and_no_text(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        passwords.read(str(tmp_path / "missing"))
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="not UTF-8"):
        passwords.read(str(tmp_path / "binary"))


@pytest.mark.parametrize(("user", "password"), [("", "a"), ("a:b", "a"), ("a\n", "a"), ("a", "")])
def test_what_basic_authentication_cannot_carry(user: str, password: str) -> None:
    with pytest.raises(ConfigError):
        passwords.line(user, password)


def test_without_users_everybody_may() -> None:
    assert Doorkeeper({}).admits("")


@pytest.mark.parametrize(
    "header",
    ["", "Basic", "Basic !", "Basic " + "QQ" * 2000, "Bearer right", basic("prom", "wrong"), basic("other", "right")],
)
def test_who_is_kept_out(header: str) -> None:
    assert not Doorkeeper({"prom": cheap("right")}, Turned()).admits(header)


def test_after_a_wrong_password_the_next_guess_waits_and_those_known_do_not() -> None:
    clock = Turned()
    keeper = Doorkeeper({"prom": cheap("right"), "other": cheap("also right")}, clock)
    assert keeper.admits(basic("prom", "right"))
    assert not keeper.admits(basic("prom", "wrong"))
    assert keeper.admits(basic("prom", "right"))
    assert not keeper.admits(basic("other", "also right"))
    clock.now += 1.1
    assert keeper.admits(basic("other", "also right"))


def test_who_guesses_locks_out_nobody_else() -> None:
    keeper = Doorkeeper({"prom": cheap("right")}, Turned())
    for client in map(str, range(3000)):
        assert not keeper.admits(basic("prom", "wrong"), client)
    assert not keeper.admits(basic("prom", "right"), "0")
    assert keeper.admits(basic("prom", "right"), "10.0.0.1")
