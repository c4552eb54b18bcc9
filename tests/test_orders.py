"""What a worker is told while it runs: which options, which values, who answers, and when it detaches."""

from __future__ import annotations

import json
import shutil
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from eroica_otel.errors import ConfigError
from eroica_otel.orders import CHANGEABLE, Order, Orders, parse
from eroica_otel.status import ANSWER_FILE, ORDER_FILE


class Told:
    """A worker's side with what it was told."""

    def __init__(self, folder: Path) -> None:
        self.values: list[dict[str, Any]] = []
        self.disabled = 0
        self.busy = False
        self.orders = Orders(folder, self._change, self._disable, lambda: self.busy)

    def _change(self, values: Mapping[str, Any]) -> None:
        self.values.append(dict(values))

    def _disable(self) -> None:
        self.disabled += 1


def test_values_are_read_as_the_configuration_reads_them() -> None:
    given = ["window_seconds=10", "periodic_seconds=3600", "EROICA_DEGRADED_RATIO=0.1", "event_budget=2000"]
    assert parse(given) == {
        "window_seconds": 10.0,
        "periodic_seconds": 3600.0,
        "degraded_ratio": 0.1,
        "event_budget": 2000,
    }


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("windows=3", "'windows' is no option; those that can change are window_seconds, "),
        ("capture=exact", "capture cannot change while a training runs, only window_seconds, .*; set it and start"),
        ("window_seconds=0", "'window_seconds=0' is not usable: give a number from 0.5 to 600"),
        ("window_seconds", "give a number from 0.5 to 600 as window_seconds=VALUE"),
    ],
)
def test_what_cannot_be_set_is_said_with_what_can(text: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        parse([text])


def test_the_worker_takes_the_values_and_answers(tmp_path: Path) -> None:
    told, order = Told(tmp_path), Order(options={"window_seconds": 10.0, "degraded_ratio": 0.1})
    told.orders.look()
    order.give(tmp_path)
    assert stat.S_IMODE((tmp_path / ORDER_FILE).stat().st_mode) == 0o600
    told.orders.look()
    told.orders.look()
    assert told.values == [{"window_seconds": 10.0, "degraded_ratio": 0.1}]
    assert order.answer(tmp_path, 0) == "window_seconds=10, degraded_ratio=0.1"
    large = Order(options={"event_budget": 1_234_567})
    large.give(tmp_path)
    told.orders.look()
    assert large.answer(tmp_path, 0) == "event_budget=1234567"
    assert Order().answer(tmp_path, 0) is None, "an answer to another order is none"


@pytest.mark.parametrize("options", [{"capture": "exact"}, {"window_seconds": -1}, {"future": 1}, "nonsense"])
def test_an_order_that_this_version_cannot_follow_is_refused(options: Any, tmp_path: Path) -> None:
    told = Told(tmp_path)
    (tmp_path / ORDER_FILE).write_text(json.dumps({"id": "1", "options": options}))
    told.orders.look()
    assert told.values == []
    assert json.loads((tmp_path / ANSWER_FILE).read_text())["said"].startswith("refused: ")


@pytest.mark.parametrize("text", ["", "{", "[1]", "\x00"])
def test_a_file_that_is_no_order_changes_nothing(text: str, tmp_path: Path) -> None:
    told = Told(tmp_path)
    (tmp_path / ORDER_FILE).write_text(text)
    told.orders.look()
    assert (told.values, told.disabled) == ([], 0)


def test_it_detaches_at_once_outside_a_window_and_after_it_inside(tmp_path: Path) -> None:
    told, order = Told(tmp_path), Order(disable=True)
    told.busy = True
    order.give(tmp_path)
    told.orders.look()
    assert told.disabled == 0
    assert order.answer(tmp_path, 0) == "detaches when the window that runs is over"
    told.busy = False
    told.orders.look()
    assert told.disabled == 1
    again = Order(disable=True)
    again.give(tmp_path)
    told.orders.look()
    assert told.disabled == 2
    assert again.answer(tmp_path, 0) == "detached"


def test_a_folder_that_is_gone_means_that_it_has_detached(tmp_path: Path) -> None:
    order = Order(disable=True)
    order.give(tmp_path)
    shutil.rmtree(tmp_path)
    assert order.answer(tmp_path, 0) == "detached"
    assert Order().answer(tmp_path, 0) is None


def test_no_option_that_can_change_decides_what_is_learned() -> None:
    assert not {"learn_repeats", "recent_iterations", "training_job", "team", "role", "capture"} & set(CHANGEABLE)
