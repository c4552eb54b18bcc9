"""Options of a worker: precedence, and what a wrong value does."""

from __future__ import annotations

import os
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from eroica_otel.config import OPTIONS, WorkerConfig, default_directory
from eroica_otel.errors import ConfigError


def test_an_argument_wins_over_the_environment_and_that_over_the_default() -> None:
    environment = {"EROICA_WINDOW_SECONDS": "7", "EROICA_ROLE": "encoder"}
    config = WorkerConfig.from_env(environment, window_seconds=3)
    assert (config.window_seconds, config.role, config.capture) == (3.0, "encoder", "light")
    assert config.problems == ()


def test_an_argument_of_none_is_not_given() -> None:
    assert WorkerConfig.from_env({"EROICA_ROLE": "a"}, role=None).role == "a"


@pytest.mark.parametrize("text", ["1", "true", "YES", " on "])
def test_yes_is_spelled_in_many_ways(text: str) -> None:
    assert WorkerConfig.from_env({"EROICA_DISABLED": text}).disabled is True


@pytest.mark.parametrize("text", ["0", "false", "No", "off", ""])
def test_so_is_no(text: str) -> None:
    assert WorkerConfig.from_env({"EROICA_REFERENCE": text}).reference is False


@pytest.mark.parametrize(
    ("variable", "text", "remedy"),
    [
        ("EROICA_WINDOW_SECONDS", "ten", "a number from 0.5 to 600"),
        ("EROICA_WINDOW_SECONDS", "nan", "a number from 0.5 to 600"),
        ("EROICA_WINDOW_SECONDS", "-1", "a number from 0.5 to 600"),
        ("EROICA_RECENT_ITERATIONS", "50.5", "a whole number from 10 to 1000"),
        ("EROICA_RECENT_ITERATIONS", "9", "a whole number from 10 to 1000"),
        ("EROICA_CAPTURE", "LIGHT", "light or exact or stacks"),
        ("EROICA_REFERENCE", "maybe", "1 or 0"),
    ],
)
def test_a_malformed_variable_is_ignored_and_said_with_its_remedy(variable: str, text: str, remedy: str) -> None:
    config = WorkerConfig.from_env({variable: text, "EROICA_ROLE": "a"})
    default = WorkerConfig.from_env({"EROICA_ROLE": "a"})
    (problem,) = config.problems
    assert problem == f"{variable}={text!r} is not usable: give {remedy}; it is ignored"
    assert all(getattr(config, name) == getattr(default, name) for name in OPTIONS)


def test_a_kill_switch_that_is_not_understood_is_on_and_that_is_said() -> None:
    config = WorkerConfig.from_env({"EROICA_DISABLED": "maybe"})
    assert config.disabled is True
    assert config.problems == ("EROICA_DISABLED='maybe' is not usable: give 1 or 0; nothing is watched",)
    assert WorkerConfig.from_env({"EROICA_DISABLED": "maybe"}, disabled=False).disabled is False
    assert WorkerConfig.from_env({}, disabled="x").disabled is True


@pytest.mark.parametrize(
    ("argument", "value"),
    [("window_seconds", -5), ("window_seconds", "soon"), ("recent_iterations", 3.7), ("capture", 7), ("reference", [])],
)
def test_a_malformed_argument_is_ignored_like_a_malformed_variable(argument: str, value: Any) -> None:
    config = WorkerConfig.from_env({}, **{argument: value})
    assert getattr(config, argument) == getattr(WorkerConfig.from_env({}), argument)
    assert config.problems[0].startswith(f"{argument}={value!r} is not usable: give ")


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({"EROICA_REDACT_KEY_FILE": "key"}, ["names leave as they are: set EROICA_REDACT=paths or names"]),
        ({"EROICA_REDACT_KEY_FILE": "key", "EROICA_REDACT": "names"}, []),
        ({"EROICA_HARDWARE_WAIT_SECONDS": "5", "EROICA_HARDWARE_DIR": ""}, ["EROICA_HARDWARE_DIR is empty: set it"]),
        ({"EROICA_HARDWARE_WAIT_SECONDS": "5"}, []),
    ],
)
def test_what_is_set_and_has_no_effect_is_said(environment: dict[str, str], said: list[str]) -> None:
    problems = WorkerConfig.from_env(environment).problems
    assert len(problems) == len(said)
    assert all(words in problem for words, problem in zip(said, problems, strict=True))


def test_every_problem_is_said() -> None:
    assert (
        len(WorkerConfig.from_env({"EROICA_DISABLED": "x", "EROICA_CAPTURE": "y", "EROICA_NO_SUCH": "z"}).problems) == 3
    )


def test_a_variable_that_is_no_option_is_named() -> None:
    (problem,) = WorkerConfig.from_env({"EROICA_WINDOW": "5", "OTHER": "1"}).problems
    assert problem == "EROICA_WINDOW is not an option of this version and does nothing"


def test_an_unknown_argument_is_an_error_that_lists_the_known_ones() -> None:
    with pytest.raises(ConfigError, match=r"no option unknown; it has disabled, .*directory"):
        WorkerConfig.from_env({}, unknown=1)


def test_the_folder_is_absolute_so_that_a_training_may_change_its_own() -> None:
    assert WorkerConfig.from_env({"EROICA_DIR": "here"}).directory == os.path.join(os.getcwd(), "here")
    assert WorkerConfig.from_env({"EROICA_DIR": "~/x"}).directory == os.path.expanduser("~/x")
    assert WorkerConfig.from_env({}).directory == default_directory()


def test_every_field_is_an_option_with_help_and_a_variable_of_its_own() -> None:
    assert {field.name for field in fields(WorkerConfig)} - set(OPTIONS) == {"problems", "own_provider"}
    variables = [option.metadata["variable"] for option in OPTIONS.values()]
    assert len(set(variables)) == len(variables)
    assert all(option.metadata["help"] for option in OPTIONS.values())


def test_every_default_is_a_value_that_may_be_given() -> None:
    environment = {
        option.metadata["variable"]: str(option.default) for option in OPTIONS.values() if option.default != ""
    }
    config = WorkerConfig.from_env(environment)
    assert config == WorkerConfig.from_env({})


def test_the_agents_folder_is_absolute_and_may_be_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert WorkerConfig.from_env({}).hardware_dir == "/run/eroica-hardware"
    assert WorkerConfig.from_env({"EROICA_HARDWARE_DIR": "shared"}).hardware_dir == str(tmp_path / "shared")
    assert WorkerConfig.from_env({"EROICA_HARDWARE_DIR": ""}).hardware_dir == ""


def test_order_and_hold_are_checked_and_read() -> None:
    config = WorkerConfig.from_env({"EROICA_ORDER": " communication , compute", "EROICA_HOLD": "nic=0.9, cpu=1"})
    assert config.problems == ()
    assert config.charge_order() == ("communication", "compute")
    assert config.held_shares() == {"nic": 0.9, "cpu": 1.0}
    assert WorkerConfig().charge_order() == ()
    assert WorkerConfig().held_shares() == {}


@pytest.mark.parametrize(
    ("variable", "text"),
    [
        ("EROICA_ORDER", "compute,compute"), ("EROICA_ORDER", "gpu"), ("EROICA_HOLD", "nic"), ("EROICA_HOLD", "nic=0"),
        ("EROICA_HOLD", "nic=1.1"), ("EROICA_HOLD", "disk=0.5"), ("EROICA_HOLD", "nic=x"), ("EROICA_HOLD", "nic=nan"),
    ],
)  # fmt: skip
def test_a_wrong_order_or_hold_is_told(variable: str, text: str) -> None:
    config = WorkerConfig.from_env({variable: text})
    assert config.problems[0].startswith(f"{variable}={text!r} is not usable")
    assert (config.order, config.hold) == ("", "")
