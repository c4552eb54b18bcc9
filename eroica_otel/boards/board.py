"""Dashboards as they ship and as a Grafana holds them, and what there is to do about each. Pure but for the files.

The version history tells who wrote a dashboard last: what we send carries a message with the digest of what was sent.
Its content does not tell it, since a Grafana may rewrite that when it saves or reads.
"""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from eroica_otel import __version__
from eroica_otel.errors import ConfigError

CREATE, UPDATE, SAME, EDITED, PROVISIONED = "create", "update", "same", "edited", "provisioned"
_WRITER = "eroica-otel"
_ITS_OWN = ("id", "version")
"""Keys of a dashboard that belong to the Grafana that holds it."""


@dataclass(frozen=True, slots=True)
class Board:
    """One dashboard as it ships."""

    uid: str
    title: str
    model: Mapping[str, Any] = field(repr=False)

    @property
    def digest(self) -> str:
        """Return what stands for its content."""
        return hashlib.sha256("\n".join(_lines(self.model)).encode()).hexdigest()[:16]

    @property
    def message(self) -> str:
        """Return what the version history is to say of it."""
        return f"{_WRITER} {__version__} {self.digest}"


@dataclass(frozen=True, slots=True)
class Held:
    """A dashboard as a Grafana holds it.

    Attributes:
        model: Its content, with the Grafana's own id and version.
        folder_uid: Folder in which it lies; "" for the top.
        provisioned: True where it comes from a file, which the API may not overwrite.
        message: What the newest entry of its version history says; "" where there is none.
        writer: Who wrote that entry, and when; "" where unknown.
    """

    model: Mapping[str, Any] = field(repr=False)
    folder_uid: str = ""
    provisioned: bool = False
    message: str = ""
    writer: str = ""


def read(folder: Path) -> list[Board]:
    """Return every dashboard of a folder, by file name.

    Raises:
        ConfigError: there is none, one is no dashboard with uid and title, or two have one uid.
    """
    boards = [_board(path) for path in sorted(folder.glob("*.json"))]
    if not boards:
        raise ConfigError(f"{folder} holds no dashboard (*.json); install eroica-otel again from its wheel")
    if len({board.uid for board in boards}) < len(boards):
        raise ConfigError(f"two dashboards of {folder} have one uid; give each its own")
    return boards


def _board(path: Path) -> Board:
    try:
        model = json.loads(path.read_text("utf-8"))
        return Board(str(model["uid"]), str(model["title"]), model)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{path} is no dashboard (JSON with uid and title): {error}; restore the file") from error


def judge(board: Board, held: Held | None) -> str:
    """Return what there is to do: CREATE, UPDATE or nothing (SAME), or why it must not be (EDITED, PROVISIONED)."""
    if held is None:
        return CREATE
    if held.message.split()[-1:] == [board.digest] or _lines(held.model) == _lines(board.model):
        return SAME
    if held.provisioned:
        return PROVISIONED
    return UPDATE if held.message.startswith(f"{_WRITER} ") else EDITED


def difference(board: Board, held: Held) -> list[str]:
    """Return the lines of a unified diff from what is held to what ships."""
    names = (f"{board.uid} in Grafana", f"{board.uid} of eroica-otel {__version__}")
    return list(difflib.unified_diff(_lines(held.model), _lines(board.model), *names, lineterm=""))


def _lines(model: Mapping[str, Any]) -> list[str]:
    own = {key: value for key, value in model.items() if key not in _ITS_OWN}
    return json.dumps(own, indent=1, sort_keys=True, ensure_ascii=False).splitlines()
