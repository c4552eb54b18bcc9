"""A small HTTP server that behaves as Grafana's API does by its documentation (golden/grafana/api.json).

A request that does not fit is answered 400, and an answer of ours that does not fit is a failure of the test.
"""

from __future__ import annotations

import json
import re
import ssl
import threading
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from eroica_otel.webserver import Address, BoundedServer, Handler

CONTRACT: dict[str, Any] = json.loads((Path(__file__).parent / "golden" / "grafana" / "api.json").read_text("utf-8"))
TOKEN = "glsa_valid"
SOURCE = {
    "uid": "prom", "name": "Prometheus", "type": "prometheus", "access": "proxy", "url": "http://prom:9090",
    "isDefault": True,
}  # fmt: skip
Answer = tuple[int, Any]


@cache
def fits(route: str, part: str) -> Callable[[Any], Any]:
    """Return what raises ValueError where a body is none that the contract knows; ``part`` is "body" or a status."""
    import fastjsonschema  # here, so that an older environment of a developer lacks only what needs it

    known = CONTRACT["paths"][route]
    given: Callable[[Any], Any] = fastjsonschema.compile(known["body"] if part == "body" else known["answers"][part])
    return given


class FakeGrafana(BoundedServer):
    """Serves until ``stop``.

    Attributes:
        folders: uid -> title.
        boards: uid -> model, folder and history of each dashboard.
        sources: Data sources.
        writes: Method and path of each request that changed something.
        forbidden: Paths that are answered 403.
        listed: True where version histories come as a bare list, as before Grafana 11.4.
        broken: What a test found our answers to lack.
        notes: Annotations by id.
        meeting: Where requests for annotations wait for one another; None: they do not.
        unloved: How annotations begin that are refused; "" for none.
        instead: Answers what is asked about annotations in the place of this server; None: it answers itself.
    """

    def __init__(self, certificate: str = "", key: str = "", version: str = "11.6.0", clients: str = "") -> None:
        super().__init__(Address("127.0.0.1", 0, certificate=certificate, key=key, token=TOKEN), _Api)
        if clients:  # the authority of the certificates that who asks must show
            assert self._tls is not None
            self._tls.load_verify_locations(clients)
            self._tls.verify_mode = ssl.CERT_REQUIRED
        self.version = version
        self.folders: dict[str, str] = {}
        self.boards: dict[str, dict[str, Any]] = {}
        self.sources: list[dict[str, Any]] = [dict(SOURCE)]
        self.writes: list[str] = []
        self.forbidden: set[str] = set()
        self.listed = False
        self.broken: list[str] = []
        self.notes: dict[int, dict[str, Any]] = {}
        self.meeting: threading.Barrier | None = None
        self.instead: Callable[[Handler], None] | None = None
        self.unloved = ""
        self._numbers, self._lock = 0, threading.Lock()
        self.start("grafana")

    def edit(self, uid: str, **changes: Any) -> None:
        """Change a dashboard as a person does in the browser."""
        self._store({**self.boards[uid]["model"], **changes}, self.boards[uid]["folderUid"], "", "alice")

    def answer(self, method: str, path: str, body: Any) -> tuple[str, Answer]:
        """Return the route of the contract and what is answered."""
        for pattern, (route, act) in self._routes().items():
            if found := re.fullmatch(pattern, f"{method} {path}"):
                if path in self.forbidden:
                    return route, (403, {"message": "You'll need additional permissions to perform this action."})
                return route, act(*found.groups(), *([body] if method != "GET" or body else []))
        return "", (404, {"message": "Not found"})

    def _routes(self) -> Mapping[str, tuple[str, Callable[..., Answer]]]:
        return {
            "GET /api/health": ("GET /api/health", lambda: (200, {"database": "ok", "version": self.version})),
            "GET /api/folders": ("GET /api/folders", lambda: (200, [self._folder(uid) for uid in self.folders])),
            "GET /api/folders/([^/]+)": ("GET /api/folders/{uid}", self._get_folder),
            "POST /api/folders": ("POST /api/folders", self._make_folder),
            "GET /api/dashboards/uid/([^/]+)": ("GET /api/dashboards/uid/{uid}", self._get_board),
            "GET /api/dashboards/uid/([^/]+)/versions": ("GET /api/dashboards/uid/{uid}/versions", self._history),
            "POST /api/dashboards/db": ("POST /api/dashboards/db", self._save),
            "GET /api/datasources": ("GET /api/datasources", lambda: (200, self.sources)),
            "POST /api/datasources": ("POST /api/datasources", self._make_source),
            "PUT /api/datasources/uid/([^/]+)": ("PUT /api/datasources/uid/{uid}", self._change_source),
            "GET /api/annotations": ("GET /api/annotations", self._find_notes),
            "POST /api/annotations": ("POST /api/annotations", self._make_note),
            "PUT /api/annotations/([0-9]+)": ("PUT /api/annotations/{id}", self._change_note),
            "DELETE /api/annotations/([0-9]+)": ("DELETE /api/annotations/{id}", self._delete_note),
        }

    def _folder(self, uid: str) -> dict[str, Any]:
        return {"id": 1 + list(self.folders).index(uid), "uid": uid, "title": self.folders[uid]}

    def _get_folder(self, uid: str) -> Answer:
        return (200, self._folder(uid)) if uid in self.folders else (404, {"message": "folder not found"})

    def _make_folder(self, body: dict[str, Any]) -> Answer:
        if body["uid"] in self.folders or body["title"] in self.folders.values():
            return 409, {"message": "a folder with the same name already exists in the current location"}
        self.folders[body["uid"]] = body["title"]
        return 200, self._folder(body["uid"])

    def _get_board(self, uid: str) -> Answer:
        if uid not in self.boards:
            return 404, {"message": "Dashboard not found"}
        held = self.boards[uid]
        meta = {"folderUid": held["folderUid"], "provisioned": held["provisioned"]}
        return 200, {"dashboard": held["model"], "meta": meta}

    def _history(self, uid: str) -> Answer:
        if uid not in self.boards:
            return 404, {"message": "Dashboard not found"}
        newest_first = self.boards[uid]["history"][::-1]
        return 200, newest_first if self.listed else {"continueToken": "", "versions": newest_first}

    def _save(self, body: dict[str, Any]) -> Answer:
        model, force = body["dashboard"], body.get("overwrite", False)
        held = self.boards.get(model.get("uid", ""))
        if held is not None and held["provisioned"]:
            return 400, {"message": "Cannot save provisioned dashboard"}
        if held is not None and not force and model.get("id") != held["model"]["id"]:
            why = "A dashboard with the same uid already exists"
            return 412, {"message": why, "status": "name-exists"}
        if held is not None and not force and model.get("version") != held["model"]["version"]:
            why = "The dashboard has been changed by someone else"
            return 412, {"message": why, "status": "version-mismatch"}
        if body.get("folderUid", "") not in {"", *self.folders}:
            return 400, {"message": "folder not found"}
        return 200, self._store(model, body.get("folderUid", ""), body.get("message", ""), "sa-eroica")

    def _store(self, model: Mapping[str, Any], folder: str, message: str, writer: str) -> dict[str, Any]:
        uid = str(model["uid"])
        held = self.boards.setdefault(
            uid, {"model": {"id": len(self.boards) + 1, "version": 0}, "history": [], "provisioned": False}
        )
        number, version = held["model"]["id"], held["model"]["version"] + 1
        held.update(model={**model, "id": number, "version": version}, folderUid=folder)
        held["history"].append(
            {"version": version, "message": message, "createdBy": writer, "created": "2026-05-01T09:30:00+02:00"}
        )
        return {"id": number, "uid": uid, "url": f"/d/{uid}/x", "status": "success", "version": version}

    def _make_source(self, body: dict[str, Any]) -> Answer:
        if any(source["name"] == body["name"] for source in self.sources):
            return 409, {"message": "data source with the same name already exists"}
        self.sources.append({"isDefault": False, **body})
        return 200, {"datasource": self.sources[-1], "id": 9, "message": "Datasource added", "name": body["name"]}

    def _change_source(self, uid: str, body: dict[str, Any]) -> Answer:
        source = next(source for source in self.sources if source["uid"] == uid)
        source.update(body)
        return 200, {"datasource": source, "id": 9, "message": "Datasource updated", "name": source["name"]}

    def _find_notes(self, query: dict[str, list[str]]) -> Answer:
        if self.meeting is not None:
            self.meeting.wait(timeout=20)
        found = [note for note in self.notes.values() if set(query.get("tags", [])) <= set(note["tags"])]
        newest_first = sorted(found, key=lambda note: (note["time"], note["id"]), reverse=True)
        return 200, newest_first[: int(query["limit"][0])]

    def _make_note(self, body: dict[str, Any]) -> Answer:
        if self.unloved and body["text"].startswith(self.unloved):
            return 400, {"message": "bad request data"}
        with self._lock:
            number = self._numbers = self._numbers + 1
        given = {key: value for key, value in body.items() if value is not None}
        self.notes[number] = {"id": number, "timeEnd": body["time"], **given}
        return 200, {"message": "Annotation added", "id": number}

    def _change_note(self, number: str, body: dict[str, Any]) -> Answer:
        if int(number) not in self.notes:
            return 404, {"message": "Annotation not found"}
        self.notes[int(number)].update(body)
        return 200, {"message": "Annotation updated"}

    def _delete_note(self, number: str, _: None) -> Answer:
        if self.notes.pop(int(number), None) is None:
            return 404, {"message": "Annotation not found"}
        return 200, {"message": "Annotation deleted"}


class _Api(Handler):
    server: FakeGrafana

    def do_DELETE(self) -> None:
        self._do("DELETE")

    def do_GET(self) -> None:
        self._do("GET")

    def do_POST(self) -> None:
        self._do("POST")

    def do_PUT(self) -> None:
        self._do("PUT")

    def _do(self, method: str) -> None:
        path, _, query = self.path.partition("?")
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length)) if length else None
        if path == "/api/annotations" and method == "GET":
            body = parse_qs(query)
        if self.server.instead is not None and path.startswith("/api/annotations"):
            self.server.instead(self)
            return
        if path != "/api/health" and not self.authorized():
            self._give(401, {"message": "Invalid API key"})
            return
        route = f"{method} {path}"
        try:
            pattern = re.sub(r"/annotations/[0-9]+", "/annotations/{id}", re.sub(r"/uid/[^/]+", "/uid/{uid}", route))
            if "body" in CONTRACT["paths"].get(pattern, {}):
                fits(pattern, "body")(body)
        except ValueError as error:
            self._give(400, {"message": f"bad request data: {error}"})
            return
        known, (status, given) = self.server.answer(method, path, body)
        try:
            if known:
                fits(known, str(status))(given)
        except (ValueError, LookupError) as error:
            self.server.broken.append(f"{route}: {error}")
        if method != "GET" and status == 200:
            self.server.writes.append(route)
        self._give(status, given)

    def _give(self, status: int, given: Any) -> None:
        self.answer(status, json.dumps(given).encode(), "application/json")
