"""Takes a Grafana and the dashboards that ship, gives the Grafana that has them: data source, folder, dashboards.

Everything is found by uid, so a second push changes nothing. What a person edited stays.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from eroica_otel.boards import board as boards
from eroica_otel.boards.access import Forbidden
from eroica_otel.boards.api import Grafana
from eroica_otel.boards.board import Board, Held
from eroica_otel.errors import ConfigError, DeliveryError, one_line

OLDEST = (11, 6)
"""Grafana for which the dashboards are written."""
FOLDER_UID, FOLDER_TITLE = "eroica", "EROICA"
SOURCE_UID, SOURCE_NAME = "eroica-prometheus", "Prometheus (eroica)"
_DONE = {boards.CREATE: "created", boards.UPDATE: "updated", boards.EDITED: "overwritten", boards.SAME: "unchanged"}
_WOULD = _DONE | {key: f"would be {_DONE[key]}" for key in (boards.CREATE, boards.UPDATE, boards.EDITED)}

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Wish:
    """What is wanted of a push.

    Attributes:
        folder_uid: Folder for new dashboards.
        folder_title: Its title, where it has to be made.
        source_url: Address of Prometheus as Grafana reaches it, for a data source of our own; "" uses those there are.
        dry_run: True writes nothing and tells what would be written.
        force: True overwrites dashboards that were edited by hand.
    """

    folder_uid: str = FOLDER_UID
    folder_title: str = FOLDER_TITLE
    source_url: str = ""
    dry_run: bool = False
    force: bool = False


def push(grafana: Grafana, shipped: Sequence[Board], wish: Wish, say: Say) -> None:
    """Bring a Grafana up to date and tell each thing that was done by ``say``.

    Raises:
        ConfigError: it is no Grafana, it has no Prometheus, or another folder has the title.
        DeliveryError: it cannot be asked or refuses, or a dashboard was left because it was edited.
    """

    def tell(line: str) -> None:
        say(one_line(line))  # it may hold names that a person gave

    tell(_greeting(grafana))
    _source(grafana, wish, tell)
    _folder(grafana, wish, tell)
    left = [board.uid for board in shipped if not _pushed(grafana, board, wish, say)]
    if left:
        raise DeliveryError(
            f"left as they are: {', '.join(left)}; look at the difference by --dry-run, then give --force to overwrite "
            "what was edited by hand; what comes from a file can be changed there only"
        )


def _greeting(grafana: Grafana) -> str:
    version = grafana.version()
    numbers = re.match(r"([0-9]{1,4})\.([0-9]{1,4})\b", version)
    old = numbers is not None and (int(numbers[1]), int(numbers[2])) < OLDEST
    older = f": older than {'.'.join(map(str, OLDEST))}, for which the dashboards are written" if old else ""
    return f"Grafana {version}".strip() + f" at {grafana.url}{older}"


def _source(grafana: Grafana, wish: Wish, say: Say) -> None:
    try:
        found = [source for source in grafana.sources() if source.get("type") == "prometheus"]
    except Forbidden as error:
        if wish.source_url:
            raise
        say(f"data source: not looked at, the dashboards need one of type Prometheus ({error})")
        return
    if wish.source_url:
        say(f"data source {_own_source(grafana, found, wish)}")
    elif found:
        say(f"data source: {', '.join(str(source.get('name')) for source in found)}")
    else:
        raise ConfigError(
            f"Grafana at {grafana.url} has no Prometheus data source, so the dashboards would be empty; add one, or "
            "give --data-source-url, the address at which Grafana reaches Prometheus"
        )


def _own_source(grafana: Grafana, found: Sequence[dict[str, Any]], wish: Wish) -> str:
    """Make the data source, or correct its address; return what was done."""
    ours = next((source for source in found if source.get("uid") == SOURCE_UID), None)
    same = next((source for source in found if str(source.get("url", "")).rstrip("/") == wish.source_url), None)
    if same is not None:
        return f"{same.get('name')}: unchanged"
    if ours is None:
        wanted = {"uid": SOURCE_UID, "name": SOURCE_NAME, "type": "prometheus", "access": "proxy"}
        if not wish.dry_run:
            grafana.create_source({**wanted, "url": wish.source_url, "jsonData": {"httpMethod": "POST"}})
        return f"{SOURCE_NAME}: {(_WOULD if wish.dry_run else _DONE)[boards.CREATE]}"
    if not wish.dry_run:
        grafana.update_source({**ours, "url": wish.source_url})
    return f"{ours.get('name')}: {(_WOULD if wish.dry_run else _DONE)[boards.UPDATE]}, {ours.get('url')} is replaced"


def _folder(grafana: Grafana, wish: Wish, say: Say) -> None:
    title = grafana.folder(wish.folder_uid)
    if title is not None:
        say(f"folder {title}: unchanged")
        return
    others = [uid for uid, title in grafana.folders().items() if title == wish.folder_title]
    if others:
        raise ConfigError(
            f"Grafana at {grafana.url} has another folder named {wish.folder_title!r} (uid {others[0]}); "
            f"give --folder-uid {others[0]} to use it, or another name by --folder"
        )
    if not wish.dry_run:
        grafana.create_folder(wish.folder_uid, wish.folder_title)
    say(f"folder {wish.folder_title}: {(_WOULD if wish.dry_run else _DONE)[boards.CREATE]}")


def _pushed(grafana: Grafana, board: Board, wish: Wish, say: Say) -> bool:
    """Bring one dashboard up to date; return False where it was left although it differs."""
    held = grafana.board(board.uid)
    todo = boards.judge(board, held)
    left = todo == boards.PROVISIONED or (todo == boards.EDITED and not wish.force)
    if todo != boards.SAME and not left and not wish.dry_run:
        grafana.save_board(board, held, wish.folder_uid, force=todo == boards.EDITED)
    said = _left(todo, held) if left else (_WOULD if wish.dry_run else _DONE)[todo]
    say(one_line(f"dashboard {board.title}: {said}, {grafana.url}/d/{board.uid}"))
    if wish.dry_run and held is not None and todo != boards.SAME:
        for line in boards.difference(board, held):
            say(line)
    return not left


def _left(todo: str, held: Held | None) -> str:
    if todo == boards.PROVISIONED:
        return "left, it comes from a file (provisioning)"
    by = f" by {held.writer}" if held and held.writer else ""
    return f"left, edited by hand{by}"
