"""Takes where a Grafana is, gives the questions to it that a push and annotations ask; each failure is one line.

grafana-client knows paths and credentials; here is what each answer must be, and what a refusal means.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import quote

import msgspec

from eroica_otel.boards.access import Access, Forbidden, NotFound, connect, refused, unreached
from eroica_otel.boards.board import Board, Held
from eroica_otel.errors import ConfigError, one_line


class _Health(msgspec.Struct):
    version: str = ""


class _Folder(msgspec.Struct):
    uid: str
    title: str


class _Meta(msgspec.Struct):
    folderUid: str | None = None
    provisioned: bool = False


class _Held(msgspec.Struct):
    dashboard: dict[str, Any]
    meta: _Meta


class _Version(msgspec.Struct):
    version: int
    message: str = ""
    createdBy: str = ""
    created: str = ""


class _Versions(msgspec.Struct):
    versions: list[_Version]


class Noted(msgspec.Struct, frozen=True):
    """An annotation as a Grafana holds it; times in milliseconds since 1970, the end 0 or the start of what is open."""

    id: int
    time: int = 0
    timeEnd: int = 0
    tags: list[str] = []
    text: str = ""

    @property
    def is_open(self) -> bool:
        """Whether it has no end."""
        return self.timeEnd <= self.time


_MOST_NOTES = 100


class Grafana:
    """Asks one Grafana.

    Attributes:
        url: Its address without user and password, for people.
    """

    def __init__(self, access: Access) -> None:
        """Prepare; nothing is asked yet.

        Raises:
            ConfigError: grafana-client is missing, or something of the access cannot be used.
        """
        self._access, self._api, self.url = access, connect(access), access.shown

    def version(self) -> str:
        """Return its version; "" where it does not say."""
        try:
            found: _Health = self._ask("say its version", self._api.client.GET, "/health", kind=_Health)
        except (NotFound, Forbidden):
            return ""
        return found.version

    def folder(self, uid: str) -> str | None:
        """Return the title of a folder; None where there is none of that uid."""
        try:
            found: _Folder = self._ask("read folders", self._api.folder.get_folder, uid, kind=_Folder)
        except NotFound:
            return None
        return found.title

    def folders(self) -> dict[str, str]:
        """Return the folders at the top, uid -> title."""
        found = self._ask("read folders", self._api.folder.get_all_folders, kind=list[_Folder])
        return {each.uid: each.title for each in found}

    def create_folder(self, uid: str, title: str) -> None:
        """Make a folder at the top."""
        self._ask("create folders", self._api.folder.create_folder, title, uid)

    def board(self, uid: str) -> Held | None:
        """Return a dashboard and who wrote it last; None where there is none."""
        try:
            found = self._ask("read dashboards", self._api.dashboard.get_dashboard, uid, kind=_Held)
        except NotFound:
            return None
        last = self._last_version(uid)
        writer = one_line(" on ".join(part for part in (last.createdBy, last.created[:19]) if part))
        return Held(found.dashboard, found.meta.folderUid or "", found.meta.provisioned, last.message, writer)

    def _last_version(self, uid: str) -> _Version:
        # Its own method for it puts the limit into the body, which Grafana does not read.
        path = f"/dashboards/uid/{uid}/versions?limit=1"
        try:
            # Which of the two goes by its release.
            kind = _Versions | list[_Version]
            found: Any = self._ask("read version histories", self._api.client.GET, path, kind=kind)
        except NotFound:
            return _Version(0)
        versions = found.versions if isinstance(found, _Versions) else found
        return max(versions, key=lambda each: int(each.version), default=_Version(0))

    def save_board(self, board: Board, held: Held | None, folder_uid: str, *, force: bool) -> None:
        """Write a dashboard, over what is held unless somebody changed that in between (``force``: even then)."""
        # Given the version that was judged, Grafana refuses (412) where there is a newer one.
        own = {key: held.model[key] for key in ("id", "version") if key in held.model} if held else {"id": None}
        body = {
            "dashboard": {**board.model, **own},
            "folderUid": held.folder_uid if held else folder_uid,
            "message": board.message,
            "overwrite": force,
        }
        self._ask("write dashboards", self._api.dashboard.update_dashboard, body)

    def sources(self) -> list[dict[str, Any]]:
        """Return all data sources."""
        ask = self._api.datasource.list_datasources
        found: list[dict[str, Any]] = self._ask("read data sources", ask, kind=list[dict[str, Any]])
        return found

    def create_source(self, source: Mapping[str, Any]) -> None:
        """Make a data source."""
        self._ask("create data sources", self._api.datasource.create_datasource, dict(source))

    def update_source(self, source: Mapping[str, Any]) -> None:
        """Write a data source over the one of the same uid."""
        self._ask("write data sources", self._api.datasource.update_datasource_by_uid, source["uid"], dict(source))

    def notes(self, tags: Sequence[str]) -> list[Noted]:
        """Return the annotations that have all of these tags, at most 100, the newest first."""
        quoted = [quote(tag, safe="") for tag in tags]  # which grafana-client leaves to us
        found: list[Noted] = self._ask(
            "read annotations", self._api.annotations.get_annotation, tags=quoted, limit=_MOST_NOTES, kind=list[Noted]
        )
        return found

    def add_note(self, start: int, end: int, tags: Sequence[str], text: str) -> None:
        """Make an annotation from ``start`` to ``end`` (milliseconds), which is for all dashboards."""
        add = self._api.annotations.add_annotation
        self._ask("write annotations", add, time_from=start, time_to=end, tags=list(tags), text=text)

    def change_note(self, note: Noted) -> None:
        """Write an annotation over the one of the same id."""
        change = self._api.annotations.update_annotation
        self._ask("write annotations", change, note.id, note.time, note.timeEnd, note.tags, note.text)

    def delete_note(self, number: int) -> None:
        """Delete an annotation; one that is gone already is no error."""
        with suppress(NotFound):
            self._ask("delete annotations", self._api.annotations.delete_annotations_by_id, number)

    def _ask(
        self, doing: str, ask: Callable[..., Any], *arguments: Any, kind: Any = dict[str, Any], **options: Any
    ) -> Any:  # fmt: skip
        from grafana_client.client import GrafanaException  # late, as in access.py

        try:
            return msgspec.convert(ask(*arguments, **options), type=kind)
        except GrafanaException as error:
            raise refused(self._access, doing, error.status_code, error.response) from error
        except (json.JSONDecodeError, msgspec.ValidationError, RecursionError) as error:
            how = "give the address of a Grafana"
            raise ConfigError(f"{self._access.flag} {self.url} answers, but not as a Grafana does; {how}") from error
        except (
            OSError,
            ValueError,
        ) as error:  # what requests raises is one of them, for TLS too
            raise unreached(self._access, error) from error
