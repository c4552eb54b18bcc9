"""Takes an address and credentials, gives the questions to a Grafana that a push asks; each failure is one line.

The standard library's HTTP serves: grafana-client, as of 5.1, brings a fork of urllib3 that puts itself in the place of
urllib3 in the whole environment, and this one is that of a training. Only the given address is asked: redirects are not
followed, so that the token never reaches another host, and no proxy variables are read.
"""

from __future__ import annotations

import base64
import http.client
import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, urlsplit

import msgspec

from eroica_otel import __version__
from eroica_otel.boards.board import Board, Held
from eroica_otel.errors import ConfigError, DeliveryError, one_line

_ANSWER_BYTES = 64 * 2**20


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


class NotFound(DeliveryError):
    """What was asked for does not exist, or nobody may know that it does (404)."""


class Forbidden(DeliveryError):
    """The token has not the right (403)."""


@dataclass(frozen=True, slots=True)
class Access:
    """Where a Grafana is and who asks it.

    Attributes:
        url: Its address, with the path where it is served below one; may hold user and password.
        token: Token of a service account; "" where user and password are given.
        ca: PEM file with the authority that signed its certificate; "" trusts the usual ones.
        timeout_seconds: Longest time for one question.
    """

    url: str
    token: str = field(default="", repr=False)
    ca: str = ""
    timeout_seconds: float = 30.0


class Grafana:
    """Asks one Grafana.

    Attributes:
        url: Its address without user and password, for people.
    """

    def __init__(self, access: Access) -> None:
        """Prepare; nothing is asked yet.

        Raises:
            ConfigError: the authority of the certificate cannot be loaded.
        """
        parts = urlsplit(access.url)
        self.url = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}".rstrip("/")
        self._timeout = access.timeout_seconds
        self._authorization = f"Bearer {access.token}"
        if parts.username and not access.token:
            pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            self._authorization = f"Basic {base64.b64encode(pair.encode()).decode()}"
        secure = urllib.request.HTTPSHandler(context=_context(access.ca))
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), _NoRedirects, secure)

    def version(self) -> str:
        """Return its version; "" where it does not say."""
        try:
            found: _Health = self._ask("say its version", "GET", "/health", kind=_Health)
        except (NotFound, Forbidden):
            return ""
        return found.version

    def folder(self, uid: str) -> str | None:
        """Return the title of a folder; None where there is none of that uid."""
        try:
            found: _Folder = self._ask("read folders", "GET", f"/folders/{uid}", kind=_Folder)
        except NotFound:
            return None
        return found.title

    def folders(self) -> dict[str, str]:
        """Return the folders at the top, uid -> title."""
        found = self._ask("read folders", "GET", "/folders", kind=list[_Folder])
        return {each.uid: each.title for each in found}

    def create_folder(self, uid: str, title: str) -> None:
        """Make a folder at the top."""
        self._ask("create folders", "POST", "/folders", {"uid": uid, "title": title})

    def board(self, uid: str) -> Held | None:
        """Return a dashboard and who wrote it last; None where there is none."""
        try:
            found = self._ask("read dashboards", "GET", f"/dashboards/uid/{uid}", kind=_Held)
        except NotFound:
            return None
        last = self._last_version(uid)
        writer = one_line(" on ".join(part for part in (last.createdBy, last.created[:19]) if part))
        return Held(found.dashboard, found.meta.folderUid or "", found.meta.provisioned, last.message, writer)

    def _last_version(self, uid: str) -> _Version:
        path = f"/dashboards/uid/{uid}/versions?limit=1"
        try:
            # Which of the two goes by its release.
            found: Any = self._ask("read version histories", "GET", path, kind=_Versions | list[_Version])
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
        self._ask("write dashboards", "POST", "/dashboards/db", body)

    def sources(self) -> list[dict[str, Any]]:
        """Return all data sources."""
        found: list[dict[str, Any]] = self._ask("read data sources", "GET", "/datasources", kind=list[dict[str, Any]])
        return found

    def create_source(self, source: Mapping[str, Any]) -> None:
        """Make a data source."""
        self._ask("create data sources", "POST", "/datasources", source)

    def update_source(self, source: Mapping[str, Any]) -> None:
        """Write a data source over the one of the same uid."""
        self._ask("write data sources", "PUT", f"/datasources/uid/{source['uid']}", source)

    def _ask(
        self,
        doing: str,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        kind: Any = dict[str, Any],
    ) -> Any:
        request = urllib.request.Request(f"{self.url}/api{path}", method=method)
        request.add_header("Authorization", self._authorization)
        request.add_header("Accept", "application/json")
        request.add_header("User-Agent", f"eroica-otel/{__version__}")
        if body is not None:
            request.add_header("Content-Type", "application/json")
            request.data = json.dumps(body).encode()
        try:
            return msgspec.json.decode(self._exchange(request), type=kind)
        except urllib.error.HTTPError as error:
            with error:
                raise self._refused(doing, error.code, _said(error)) from error
        except (msgspec.DecodeError, RecursionError) as error:
            how = "give the address of a Grafana"
            raise ConfigError(f"--url {self.url} answers, but not as a Grafana does; {how}") from error
        except (OSError, ValueError, http.client.HTTPException) as error:  # also a certificate that is not trusted
            raise self._unreached(error) from error

    def _exchange(self, request: urllib.request.Request) -> bytes:
        with self._opener.open(request, timeout=self._timeout) as answer:
            body: bytes = answer.read(_ANSWER_BYTES)
            return body

    def _unreached(self, error: Exception) -> DeliveryError:
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        if isinstance(reason, ssl.SSLError):
            how = "give the authority of its certificate by --ca, or http:// where it has none"
            why = getattr(reason, "verify_message", "") or str(reason.reason or reason)
            return DeliveryError(f"no TLS with Grafana at {self.url}: {one_line(why)}; {how}")
        why = (isinstance(reason, OSError) and reason.strerror) or str(reason)
        return DeliveryError(f"Grafana at {self.url} cannot be asked: {one_line(why)}; start it or correct --url")

    def _refused(self, doing: str, status: int, said: str) -> ConfigError | DeliveryError:
        at = f"Grafana at {self.url}"
        if 300 <= status < 400:
            return ConfigError(f"--url {self.url} redirects to another address; give that one")
        if status == 401:
            how = "give a valid token of a service account by --token-file or GRAFANA_TOKEN"
            return DeliveryError(f"{at} refuses the credentials (401: {said}); {how}")
        if status == 403:
            how = "give its service account the role Editor, for data sources Admin"
            return Forbidden(f"{at} does not let this token {doing} (403: {said}); {how}")
        if status == 404:
            return NotFound(f"{at} does not know what is needed to {doing} (404: {said}); correct --url")
        if status in (409, 412):
            how = "look there, then run it again, or give other names by --folder and --folder-uid"
            return DeliveryError(f"{at} has something else in place and does not {doing} ({status}: {said}); {how}")
        return DeliveryError(f"{at} could not {doing} ({status}: {said}); its log says more")


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        """Follow nothing: the answer becomes an HTTPError."""


def _said(error: urllib.error.HTTPError) -> str:
    body = error.read(65536)
    try:
        return one_line(str(json.loads(body)["message"]))
    except (ValueError, LookupError, TypeError):
        return one_line(error.reason or "no reason given")


def _context(ca: str) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=ca or None)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"--ca {ca} cannot be loaded: {error.strerror or error}; give a PEM file") from error
