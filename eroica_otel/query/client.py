"""Questions to a PromQL API over HTTP: form fields in, the body of the answer out, bounded in time and size.

POST and gzip; redirects are not followed, so that a token never reaches another host; proxy variables are not read.
"""

from __future__ import annotations

import base64
import http.client
import json
import socket
import ssl
import threading
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import SplitResult, unquote, urlencode, urlsplit

from eroica_otel import __version__
from eroica_otel.errors import ConfigError, QueryError, one_line

ANSWER_BYTES = 64 * 2**20
"""Largest answer after decompression: 200,000 series of 300 bytes."""
OUTCOMES = (
    "ok", "refused", "unauthorized", "redirected", "not_found", "unreachable", "timeout", "malformed", "too_large",
)  # fmt: skip
"""Label ``outcome`` of eroica_localizer_queries_total."""
_ERROR_BYTES = 65536
_CHUNK = 65536


class QueryFailed(QueryError):
    """A question without a usable answer; ``outcome`` is one of OUTCOMES."""

    def __init__(self, outcome: str, text: str) -> None:
        super().__init__(text)
        self.outcome = outcome


@dataclass(frozen=True, slots=True)
class Backend:
    """A PromQL API and how to ask it.

    Attributes:
        url: Address up to before /api/v1; may hold user and password.
        token_file: File with a bearer token, read anew for each question; "" for none.
        ca: PEM file with the authority that signed its certificate; "" trusts those of the system.
        headers: Further headers, for example X-Scope-OrgID.
        match: PromQL label matchers that restrict the jobs, without braces; "" for all.
        interval_seconds: Time between two looks.
        timeout_seconds: Longest time for one question.
    """

    url: str
    token_file: str = ""
    ca: str = ""
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    match: str = ""
    interval_seconds: float = 5.0
    timeout_seconds: float = 30.0


def checked_url(text: str, flag: str, example: str = "http://127.0.0.1:9090") -> str:
    """Return the address without what follows the API's root.

    Raises:
        ConfigError: it is no address of an HTTP server.
    """
    url = text.strip().rstrip("/").removesuffix("/api/v1")
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable or parts.query or parts.fragment or any(ord(sign) <= 32 for sign in url):
        raise ConfigError(f"{flag} {text!r} is no address; give one, for example {example}")
    return url


def shown_url(url: str) -> str:
    """Return an address without user and password, for people."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


class Client:
    """Asks one backend.

    Attributes:
        url: Its address without user and password, for people.
    """

    def __init__(self, backend: Backend) -> None:
        """Load the certificates.

        Raises:
            ConfigError: they cannot be loaded, or the token cannot be read.
        """
        self._backend = backend
        self._parts = urlsplit(backend.url)
        self.url = shown_url(backend.url)
        self._tls = _context(backend, self._parts)
        try:
            self._headers()
        except QueryFailed as error:
            raise ConfigError(str(error)) from error

    def post(self, path: str, fields: Mapping[str, str]) -> bytes:
        """Return the body of a good answer.

        Raises:
            QueryFailed: there is none; says why and what helps.
        """
        headers = self._headers()
        watch = _Watch(self._connection(), self._backend.timeout_seconds)
        try:
            with watch:
                return self._exchange(watch, path, urlencode(fields).encode(), headers)
        except QueryFailed:
            raise
        except (OSError, http.client.HTTPException, zlib.error) as error:
            raise self._explained(error, expired=watch.expired) from error

    def _exchange(self, watch: _Watch, path: str, body: bytes, headers: Mapping[str, str]) -> bytes:
        connection = watch.connection
        connection.request("POST", self._parts.path + path, body, dict(headers))
        answer = connection.getresponse()
        if answer.status != 200:
            raise _refusal(answer, _read(answer, _ERROR_BYTES), path)
        plain = _read(answer, ANSWER_BYTES)
        if len(plain) > ANSWER_BYTES:
            raise QueryFailed("too_large", f"the answer has more than {ANSWER_BYTES >> 20} MB; restrict it by --match")
        return plain

    def _connection(self) -> http.client.HTTPConnection:
        host, port, seconds = self._parts.hostname or "", self._parts.port, self._backend.timeout_seconds
        if self._tls is not None:
            return http.client.HTTPSConnection(host, port, timeout=seconds, context=self._tls)
        return http.client.HTTPConnection(host, port, timeout=seconds)

    def _headers(self) -> dict[str, str]:
        given = {
            "Content-Type": "application/x-www-form-urlencoded",
            "Accept-Encoding": "gzip",
            "User-Agent": f"eroica_otel/{__version__}",
            "Connection": "close",
        }
        if self._parts.username is not None:
            user = f"{unquote(self._parts.username)}:{unquote(self._parts.password or '')}"
            given["Authorization"] = f"Basic {base64.b64encode(user.encode()).decode()}"
        if self._backend.token_file:
            given["Authorization"] = f"Bearer {_token(self._backend.token_file)}"
        return given | dict(self._backend.headers)

    def _explained(self, error: Exception, *, expired: bool) -> QueryFailed:
        if expired or isinstance(error, TimeoutError):
            return QueryFailed("timeout", f"no answer within {self._backend.timeout_seconds:g} s; is it overloaded?")
        if isinstance(error, ssl.SSLCertVerificationError):
            return QueryFailed("unreachable", f"{error.verify_message}; give its authority by --prometheus-ca")
        if isinstance(error, ssl.SSLError):
            return QueryFailed("unreachable", f"no TLS there ({error.reason or error}); is it http://?")
        if isinstance(error, socket.gaierror):
            return QueryFailed("unreachable", f"the host is not known ({error.strerror}); correct the address")
        if isinstance(error, http.client.HTTPException | zlib.error | ConnectionResetError):
            return QueryFailed("malformed", f"the answer broke off or is no HTTP ({type(error).__name__}: {error})")
        reason = (isinstance(error, OSError) and error.strerror) or str(error)
        return QueryFailed("unreachable", f"{reason}; is it running, and is the address right?")


class _Watch:
    """Ends a connection at its deadline, however slowly bytes drip in: a socket's own time-out begins with each."""

    def __init__(self, connection: http.client.HTTPConnection, seconds: float) -> None:
        self.connection, self.expired = connection, False
        self._socket: socket.socket | None = None
        self._timer = threading.Timer(seconds, self._cut)
        self._timer.daemon = True

    def __enter__(self) -> _Watch:
        self.connection.connect()
        # http.client forgets its socket once the answer begins.
        self._socket = self.connection.sock
        self._timer.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._timer.cancel()
        self.connection.close()
        if self._socket is not None:
            self._socket.close()

    def _cut(self) -> None:
        self.expired = True
        if self._socket is not None:
            try:
                self._socket.shutdown(socket.SHUT_RDWR)
            except OSError:  # it has ended in this moment
                return


def _read(answer: http.client.HTTPResponse, limit: int) -> bytes:
    """Return the plain body, at most a little more than ``limit`` bytes of it."""
    packed = answer.headers.get("Content-Encoding", "").strip().lower() == "gzip"
    unpack = zlib.decompressobj(wbits=31) if packed else None
    pieces: list[bytes] = []
    size = 0
    while size <= limit and (piece := answer.read(_CHUNK)):
        plain = unpack.decompress(piece, limit + 1 - size) if unpack is not None else piece
        pieces.append(plain)
        size += len(plain)
    if size <= limit and unpack is not None and not unpack.eof:
        raise zlib.error("the compressed body is cut off")
    if size <= limit and answer.length:
        raise http.client.IncompleteRead(b"", answer.length)
    return b"".join(pieces)


def _refusal(answer: http.client.HTTPResponse, body: bytes, path: str) -> QueryFailed:
    code = answer.status
    if 300 <= code < 400:
        target = answer.headers.get("Location", "elsewhere").partition("?")[0].removesuffix(path)
        return QueryFailed("redirected", f"it redirects to {one_line(target)}; give the address it redirects to")
    if code in (401, 403):
        remedy = "give --prometheus-token-file FILE or --prometheus-header 'NAME: VALUE'"
        return QueryFailed("unauthorized", f"it refuses the credentials ({code}: {_said(body)}); {remedy}")
    if code in (404, 405):
        return QueryFailed("not_found", f"no PromQL API at {path} ({code}); give the address up to before /api/v1")
    # 422 is how Prometheus, VictoriaMetrics and Mimir refuse what would read more than their limits allow.
    return QueryFailed("too_large" if code in (413, 422) else "refused", f"it answers {code}: {_said(body)}")


def _said(body: bytes) -> str:
    """Return what an error answer says: the field "error" of the API, else its first words."""
    text = body.decode("utf-8", "replace")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if isinstance(found, dict) and isinstance(found.get("error"), str):
        text = found["error"]
    return one_line(text) or "no reason given"


def _token(file: str) -> str:
    try:
        token = Path(file).read_text(encoding="ascii").strip()
    except OSError as error:
        why = f"{error.strerror or error}; give a file that can be read"
        raise QueryFailed("unauthorized", f"--prometheus-token-file {file}: {why}") from error
    except UnicodeDecodeError as error:
        why = "it is not ASCII; write one line with the token into it"
        raise QueryFailed("unauthorized", f"--prometheus-token-file {file}: {why}") from error
    if not token or not token.isprintable():
        raise QueryFailed("unauthorized", f"--prometheus-token-file {file} holds no token; write one line into it")
    return token


def _context(backend: Backend, parts: SplitResult) -> ssl.SSLContext | None:
    if parts.scheme != "https":
        return None
    try:
        return ssl.create_default_context(cafile=backend.ca or None)
    except (OSError, ssl.SSLError) as error:
        reason = error.strerror or str(error)
        raise ConfigError(f"--prometheus-ca {backend.ca} cannot be loaded: {reason}; give a PEM file") from error
