"""Questions to a PromQL API over HTTP: form fields in, the body of the answer out, bounded in time and size.

POST and gzip; redirects are not followed, so that a token never reaches another host; proxy variables are not read.
"""

from __future__ import annotations

import http.client
import json
import math
import socket
import ssl
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from urllib.parse import urlencode, urlsplit

from eroica_otel.errors import ConfigError, one_line
from eroica_otel.query.credentials import Backend as Backend
from eroica_otel.query.credentials import QueryFailed as QueryFailed
from eroica_otel.query.credentials import context_for, headers_for

ANSWER_BYTES = 64 * 2**20
"""Largest answer after decompression: 200,000 series of 300 bytes."""
OUTCOMES = (
    "ok", "refused", "unauthorized", "redirected", "not_found", "unreachable", "timeout", "malformed", "too_large",
)  # fmt: skip
"""Label ``outcome`` of eroica_localizer_queries_total."""
LINE_BYTES = 16 * 2**20
"""Longest line of an answer that is read line by line."""
STREAM_TIMES = 20
"""An answer that is read line by line may take this many times as long as another."""
PAUSES_SECONDS = (0.5, 1.5)
"""Before the second and the third try where the server is busy (BUSY); then the question has failed."""
LONGEST_PAUSE_SECONDS = 5.0
"""Of a server's Retry-After at most."""
BUSY = (429, 502, 503, 504)
_WANTED = "does it want a certificate of ours (--prometheus-certificate)?"
_WANTS_OURS = ("CERTIFICATE_REQUIRED", "ALERT_BAD_CERTIFICATE", "ALERT_UNKNOWN_CA", "ALERT_HANDSHAKE_FAILURE")
"""Alerts of a server that wants a certificate of its clients, and another than it was shown."""
_ERROR_BYTES = 65536
_SAID = 300
"""Longest reason of a server that is passed on."""
_CHUNK = 65536
_PLAIN_CHUNK = 2**20


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

    def __init__(self, backend: Backend, pause: Callable[[float], object] = time.sleep) -> None:
        """Load the certificates; ``pause`` waits before another try.

        Raises:
            ConfigError: they cannot be loaded, or the token cannot be read.
        """
        self._backend, self._pause = backend, pause
        self._parts = urlsplit(backend.url)
        self.url = shown_url(backend.url)
        self._tls = context_for(backend, self._parts)
        try:
            headers_for(backend, self._parts)
        except QueryFailed as error:
            raise ConfigError(str(error)) from error

    def post(self, path: str, fields: Mapping[str, str]) -> bytes:
        """Return the body of a good answer.

        Raises:
            QueryFailed: there is none; says why and what helps.
        """
        plain = b"".join(self._pieces(path, fields, self._backend.timeout_seconds, ANSWER_BYTES))
        if len(plain) > ANSWER_BYTES:
            raise QueryFailed("too_large", f"the answer has more than {ANSWER_BYTES >> 20} MB; restrict it by --match")
        return plain

    def lines(self, path: str, fields: Mapping[str, str]) -> Iterator[bytes]:
        """Yield the lines of a good answer as they come; however many there are, one is held at a time.

        Raises:
            QueryFailed: as post, also after some lines.
        """
        rest = b""
        for piece in self._pieces(path, fields, self._backend.timeout_seconds * STREAM_TIMES, None):
            *whole, rest = (rest + piece).split(b"\n")
            yield from whole
            if len(rest) > LINE_BYTES:
                raise QueryFailed("too_large", f"a line of the answer has more than {LINE_BYTES >> 20} MB")
        if rest:
            yield rest

    def _pieces(self, path: str, fields: Mapping[str, str], seconds: float, limit: int | None) -> Iterator[bytes]:
        """Yield the plain body in pieces, at most a little more than ``limit`` bytes of it."""
        body = urlencode(fields).encode()
        for wait in (*PAUSES_SECONDS, None):
            headers = headers_for(self._backend, self._parts)
            watch = _Watch(self._connection(), seconds)
            try:
                with watch:
                    answer = self._answer(watch, path, body, headers)
                    if answer.status == 200:
                        yield from _read(answer, limit)
                        return
                    refusal = _refusal(answer, b"".join(_read(answer, _ERROR_BYTES)), path)
            except (OSError, http.client.HTTPException, zlib.error) as error:
                raise self._explained(error, seconds, expired=watch.expired) from error
            if wait is None or answer.status not in BUSY or refusal.outcome == "too_large":
                raise refusal
            self._pause(min(max(wait, _wanted_seconds(answer)), LONGEST_PAUSE_SECONDS))

    def _answer(self, watch: _Watch, path: str, body: bytes, headers: Mapping[str, str]) -> http.client.HTTPResponse:
        watch.connection.request("POST", self._parts.path + path, body, dict(headers))
        return watch.connection.getresponse()

    def _connection(self) -> http.client.HTTPConnection:
        host, port, seconds = self._parts.hostname or "", self._parts.port, self._backend.timeout_seconds
        if self._tls is not None:
            return http.client.HTTPSConnection(host, port, timeout=seconds, context=self._tls)
        return http.client.HTTPConnection(host, port, timeout=seconds)

    def _explained(self, error: Exception, seconds: float, *, expired: bool) -> QueryFailed:
        if expired or isinstance(error, TimeoutError):
            late = seconds if expired else self._backend.timeout_seconds
            return QueryFailed("timeout", f"no answer within {late:g} s; is it overloaded?")
        if isinstance(error, ssl.SSLCertVerificationError):
            return QueryFailed("unreachable", f"{error.verify_message}; give its authority by --prometheus-ca")
        if isinstance(error, ssl.SSLError) and any(words in (error.reason or "") for words in _WANTS_OURS):
            remedy = "give one that it trusts by --prometheus-certificate and --prometheus-key"
            return QueryFailed("unauthorized", f"it refuses our certificate ({error.reason}); {remedy}")
        if isinstance(error, ssl.SSLError):
            return QueryFailed("unreachable", f"no TLS there ({error.reason or error}); is it http://, or {_WANTED}")
        if isinstance(error, socket.gaierror):
            return QueryFailed("unreachable", f"the host is not known ({error.strerror}); correct the address")
        if isinstance(error, http.client.HTTPException | zlib.error | ConnectionResetError):
            # With TLS 1.3 a server may refuse a client's certificate so late that its reset overtakes its reason.
            ours = f"; {_WANTED}" if self._tls is not None and isinstance(error, ConnectionResetError) else ""
            return QueryFailed(
                "malformed", f"the answer broke off or is no HTTP ({type(error).__name__}: {error}){ours}"
            )
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


def _read(answer: http.client.HTTPResponse, limit: int | None) -> Iterator[bytes]:
    """Yield the plain body in pieces of at most a megabyte, at most a little more than ``limit`` bytes of it."""
    packed = answer.headers.get("Content-Encoding", "").strip().lower() == "gzip"
    unpack = zlib.decompressobj(wbits=31) if packed else None
    left = math.inf if limit is None else limit + 1
    while left > 0 and (piece := answer.read(_CHUNK)):
        for plain in _unpacked(unpack, piece):
            yield plain
            left -= len(plain)
            if left <= 0:
                return
    if left > 0 and unpack is not None and not unpack.eof:
        raise zlib.error("the compressed body is cut off")
    if left > 0 and answer.length:
        raise http.client.IncompleteRead(b"", answer.length)


def _unpacked(unpack: zlib._Decompress | None, piece: bytes) -> Iterator[bytes]:
    """Yield what a piece of the body holds; a small one may unpack to gigabytes."""
    if unpack is None:
        yield piece
        return
    while piece:
        yield unpack.decompress(piece, _PLAIN_CHUNK)
        piece = unpack.unconsumed_tail


def _wanted_seconds(answer: http.client.HTTPResponse) -> float:
    text = answer.headers.get("Retry-After", "").strip()
    return float(text) if text.isdecimal() and len(text) < 9 else 0.0


def _refusal(answer: http.client.HTTPResponse, body: bytes, path: str) -> QueryFailed:
    code = answer.status
    if 300 <= code < 400:
        target = answer.headers.get("Location", "elsewhere").partition("?")[0].removesuffix(path)
        return QueryFailed("redirected", f"it redirects to {one_line(target)}; give the address it redirects to")
    if code in (401, 403):
        remedy = "give --prometheus-token-file, --prometheus-password-file or --prometheus-header 'NAME: VALUE'"
        return QueryFailed("unauthorized", f"it refuses the credentials ({code}: {_said(body)}); {remedy}")
    if code in (404, 405):
        return QueryFailed("not_found", f"no PromQL API at {path} ({code}); give the address up to before /api/v1")
    said = _said(body)
    if code in (413, 422) or (code in BUSY and "timed out" in said) or _TOO_MANY in said:
        return QueryFailed("too_large", f"it answers {code}: {said}; {_limit(said)}")
    return QueryFailed("refused", f"it answers {code}: {said}")


_TOO_MANY = "number of matching timeseries exceeds"
_LIMITS = (
    ("too many samples", "raise --query.max-samples of Prometheus"),
    ("timed out", "raise --query.timeout of Prometheus"),
    ("maxSamplesPerQuery", "raise -search.maxSamplesPerQuery of VictoriaMetrics"),
    (_TOO_MANY, "raise -search.maxExportSeries and -search.maxUniqueTimeseries of VictoriaMetrics"),
    ("maxQueryLen", "raise -search.maxQueryLen of VictoriaMetrics"),
    ("maxQueryDuration", "raise -search.maxQueryDuration of VictoriaMetrics"),
)
"""What a server says where a limit of its own is reached, and which option of it that is."""


def _limit(said: str) -> str:
    remedy = next((remedy for words, remedy in _LIMITS if words in said), "raise the limit that it names")
    return f"{remedy}, or restrict the question (--match, --rank)"


def _said(body: bytes) -> str:
    """Return what an error answer says: the field "error" of the API, else its first words."""
    text = body.decode("utf-8", "replace")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if isinstance(found, dict) and isinstance(found.get("error"), str):
        text = found["error"]
    if len(text) > _SAID:
        text = text.rstrip().rsplit(": ", 1)[-1]  # VictoriaMetrics tells all it was doing before it says why
    return one_line(text, _SAID) or "no reason given"
