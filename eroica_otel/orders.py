"""What a running worker is told from outside, and what it says to that: two small files in its private folder.

``eroica-otel set`` and ``disable`` write the order, the worker's 1 Hz thread reads it, acts and answers. Whoever may
write the private folder is the training's user.
"""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from eroica_otel.config import OPTIONS
from eroica_otel.errors import ConfigError
from eroica_otel.status import ANSWER_FILE, ORDER_FILE

CHANGEABLE = (
    "window_seconds", "periodic_seconds", "degraded_ratio", "cooldown_seconds", "event_budget", "sampler_hertz",
)  # fmt: skip
"""Options that may change while a training runs: none of them changes what has been learned or who compares whom."""
DISABLE = "disable"
ANSWER_SECONDS = 10.0
_LOOK_SECONDS = 0.1


def parse(assignments: Iterable[str]) -> dict[str, Any]:
    """Return option -> value of "window_seconds=10" and its like; names of variables are understood too.

    Raises:
        ConfigError: an option is unknown, cannot change while a training runs, or its value is not usable.
    """
    values: dict[str, Any] = {}
    for item in assignments:
        given, equals, text = item.partition("=")
        name = given.strip().lower().removeprefix("eroica_")
        can = ", ".join(CHANGEABLE)
        if name not in OPTIONS:
            raise ConfigError(f"{given!r} is no option; those that can change are {can}")
        if name not in CHANGEABLE:
            raise ConfigError(f"{name} cannot change while a training runs, only {can}; set it and start again")
        try:
            values[name] = OPTIONS[name].metadata["parse"](text)
        except ValueError as error:
            raise ConfigError(f"{item!r} is not usable: give {error}{'' if equals else f' as {name}=VALUE'}") from None
    return values


@dataclass(frozen=True, slots=True)
class Order:
    """One order: options to change, or ``disable``."""

    options: Mapping[str, Any] = field(default_factory=dict)
    disable: bool = False
    id: str = field(default_factory=lambda: uuid.uuid4().hex)

    def give(self, folder: Path) -> None:
        """Leave the order with the worker whose private folder this is; one not yet read is replaced."""
        _write(folder / ORDER_FILE, {"id": self.id, "disable": self.disable, "options": dict(self.options)})

    def answer(self, folder: Path, patience_seconds: float = ANSWER_SECONDS) -> str | None:
        """Return what the worker says; None when it says nothing, or has gone away meanwhile."""
        end = time.monotonic() + patience_seconds
        while folder.exists():
            found = _read(folder / ANSWER_FILE)
            if found is not None and found.get("id") == self.id:
                return str(found.get("said"))
            if time.monotonic() > end:
                return None
            time.sleep(_LOOK_SECONDS)
        return "detached" if self.disable else None


class Orders:
    """The worker's side; ``look`` is called once a second."""

    def __init__(
        self,
        folder: Path,
        change: Callable[[Mapping[str, Any]], None],
        disable: Callable[[], None],
        busy: Callable[[], bool] = lambda: False,
    ) -> None:
        """Args:
        change: Takes new values by option.
        disable: Takes the hooks off; the folder goes with it.
        busy: Whether a window is agreed or running: its profiler can only be stopped by the thread that trains.
        """
        self._folder = folder
        self._change = change
        self._disable = disable
        self._busy = busy
        self._disabling = False

    def look(self) -> None:
        """Do what is ordered, if something is, and answer."""
        order = _read(self._folder / ORDER_FILE)
        if order is not None:
            (self._folder / ORDER_FILE).unlink(missing_ok=True)
            self._disabling = self._disabling or order.get("disable") is True
            _write(self._folder / ANSWER_FILE, {"id": order.get("id"), "said": self._answer(order)})
        if self._disabling and not self._busy():
            self._disabling = False
            self._disable()

    def _answer(self, order: Mapping[str, Any]) -> str:
        if self._disabling:
            return "detaches when the window that runs is over" if self._busy() else "detached"
        return self._try(order.get("options"))

    def _try(self, options: object) -> str:
        if not isinstance(options, dict):
            return "refused: not an order of this version"
        try:
            # Once more, because the command may be of another version.
            values = parse(f"{name}={value}" for name, value in options.items())
        except ConfigError as error:
            return f"refused: {error}"
        self._change(values)
        return ", ".join(f"{name}={value:.12g}" for name, value in values.items())


def _read(path: Path) -> dict[str, Any] | None:
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def _write(path: Path, content: Mapping[str, Any]) -> None:
    """Put the file there in one piece, 0600."""
    made = path.with_name(f"{path.name}.{os.getpid()}")
    descriptor = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(content, file)
    made.replace(path)
