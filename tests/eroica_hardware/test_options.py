"""Options of the agent: flag before variable before default, and what is refused with which remedy."""

from __future__ import annotations

import argparse
import os
import pwd
import re
from pathlib import Path

import pytest

from eroica_hardware.catalog import CATALOG, FAMILIES, USUAL, groups, slots_of
from eroica_hardware.options import OPTIONS, Options, configure, resolve
from eroica_otel.config import HARDWARE_DIRECTORY
from eroica_otel.errors import ConfigError

ROOT = Path(__file__).parents[2]


def options(*words: str, **variables: str) -> Options:
    parser = argparse.ArgumentParser()
    configure(parser)
    return resolve(parser.parse_args(words), variables)


def test_the_defaults() -> None:
    found = options()
    assert found.folder == Path(HARDWARE_DIRECTORY)
    assert found.sources == USUAL
    assert found.address is not None
    assert str(found.address) == "http://127.0.0.1:9466"
    assert (found.users, found.password_file, found.dcgm, found.required) == (None, "", "", frozenset())
    assert found.host == os.uname().nodename


def test_a_flag_wins_over_a_variable() -> None:
    assert options("--dir", "/a", EROICA_HARDWARE_DIR="/b").folder == Path("/a")
    assert options(EROICA_HARDWARE_DIR="/b").folder == Path("/b")
    assert options("--host", "x", EROICA_HARDWARE_HOST="y").host == "x"
    assert options(OTEL_RESOURCE_ATTRIBUTES="host.name=node-7").host == "node-7"


def test_a_variable_that_is_empty_is_one_that_is_not_set() -> None:
    """As a file of variables has them that somebody left blank."""
    assert options(**{option.metadata["variable"]: " " for option in OPTIONS.values()}) == options()


def test_sources() -> None:
    assert options("--sources", "net,nvml").sources == ("nvml", "net")
    assert options("--sources", "net,nvml").required == frozenset({"net", "nvml"})
    assert options("--skip", "nvml, gpm").sources == tuple(name for name in USUAL if name not in ("nvml", "gpm"))
    assert set(options("--dcgm", "http://a:9400/metrics").sources) == {*USUAL, "dcgm"}


def test_nowhere_to_listen() -> None:
    assert options("--listen", "none").address is None


def test_users_by_name_and_number() -> None:
    assert options("--users", f"{pwd.getpwuid(0).pw_name}, 1234").users == frozenset({0, 1234})


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--sources", "nvlm"], "there is no source nvlm; there are nvml, gpm"),
        (["--skip", "x"], "there is no source x"),
        (["--sources", "net", "--skip", "net"], "no source is left"),
        (["--sources", ""], "name some by --sources"),
        (["--sources", "dcgm"], "give --dcgm"),
        (["--dcgm", "localhost:9400"], "begins with http"),
        (["--listen", "9466x"], "--listen '9466x' is not an address"),
        (["--tls-key", "k"], "give --tls-certificate too"),
        (["--users", "nobody-has-this-name"], "give the number"),
        (["--nic-mbit", "fast"], "give a number"),
        (["--nic-mbit", "nan"], "give a number"),
        (["--nsys-hertz", "5"], "from 10 to 200000"),
    ],
)
def test_what_cannot_be_used_names_what_can(words: list[str], complaint: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(complaint)):
        options(*words)


def test_every_option_is_in_the_readme() -> None:
    text = (ROOT / "exporters" / "README.md").read_text("utf-8")
    for option in OPTIONS.values():
        assert f"`{option.metadata['flag']}`" in text
        assert f"`{option.metadata['variable']}`" in text


def test_what_may_hang_has_a_thread_of_its_own() -> None:
    assert groups(FAMILIES)[0] == [family for family in FAMILIES if CATALOG[family].quick]
    assert sorted(family for group in groups(FAMILIES) for family in group) == sorted(FAMILIES)
    assert ["nvml"] in groups(FAMILIES)
    assert groups(["nvml"]) == [["nvml"]]


def test_a_ring_holds_the_longest_window_at_the_sources_highest_rate() -> None:
    assert slots_of("nvml") >= 60 * 1000
    read = [family for family in FAMILIES if family != "nsys"]  # whose samples come after the window
    assert all(60 * CATALOG[family].most_hertz <= slots_of(family) <= 1 << 16 for family in read)
