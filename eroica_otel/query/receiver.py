"""OTLP/HTTP receiver: requests of workers (or of a Collector) -> deliveries, bad requests answered and counted.

POST /v1/metrics, protobuf or JSON, plain or gzip. Only loopback, unless TLS and a token protect it.
"""

from __future__ import annotations

import json
import threading
import zlib
from collections import Counter
from collections.abc import Callable, Mapping

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse

from eroica_otel.errors import ConfigError, QueryError
from eroica_otel.query import otlp
from eroica_otel.query.otlp import Delivery
from eroica_otel.webserver import Address, BoundedServer, Handler, check_host, is_loopback

PATH = "/v1/metrics"
PROTOBUF, JSON = "application/x-protobuf", "application/json"
BODY_BYTES = 8 * 2**20
"""Largest request as sent: a Collector's batch of 8,192 points is 2 MB."""
PLAIN_BYTES = 16 * 2**20
"""Largest request after decompression."""
_CHUNK = 65536
_DRAIN_BYTES = 8 * BODY_BYTES

OUTCOMES = {
    200: "accepted",
    400: "malformed",
    401: "unauthorized",
    404: "not_found",
    405: "wrong_method",
    408: "timeout",
    411: "no_length",
    413: "too_large",
    415: "unsupported_type",
    503: "busy",
}
"""Label ``outcome`` of eroica_localizer_requests_total by status code."""


class _Refusal(Exception):
    """A request that is answered with an error; the reason goes to its sender."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code


class Receiver(BoundedServer):
    """The embedded receiver; ``accept`` gets the deliveries of each good request and may raise QueryError."""

    def __init__(self, address: Address, accept: Callable[[Delivery], None], *, threads: int = 16) -> None:
        """Bind; ``start`` serves.

        Raises:
            ConfigError: the address is reachable from other machines and TLS or the token is missing.
            DeliveryError: the port is taken.
        """
        _check(address)
        super().__init__(address, _Handler, threads=threads)
        self.accept = accept
        self.rejected_points = 0
        # One decoded request at a time: decoding holds the interpreter anyway, and memory stays bounded.
        self.decoding = threading.Lock()
        self._counts: Counter[str] = Counter()
        self._counting = threading.Lock()

    def start(self, name: str = "eroica-otlp") -> None:
        """Serve in a thread of its own until ``stop``."""
        super().start(name)

    def count(self, code: int) -> None:
        """Count one answered request."""
        with self._counting:
            self._counts[OUTCOMES[code]] += 1

    def requests(self) -> Mapping[str, int]:
        """Return the number of requests by outcome; every outcome is present."""
        with self._counting:
            counts = dict.fromkeys(OUTCOMES.values(), 0) | self._counts
        return counts | {"busy": self.refused}


def _check(address: Address) -> None:
    check_host(address)
    if not is_loopback(address.host) and not (address.certificate and address.token):
        raise ConfigError(
            f"{address.flag} {address.host}:{address.port} can be reached from other machines; give --tls-certificate, "
            "--tls-key and --token-file, or listen on 127.0.0.1"
        )


class _Handler(Handler):
    server: Receiver
    _unread = 0

    def do_POST(self) -> None:
        kind = self.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        as_json = kind == JSON
        self._unread = max(self._length(), 0)
        try:
            self._screen(kind)
            message = self._take(_plain(self._body(), self.headers.get("Content-Encoding", "")), as_json)
        except _Refusal as refusal:
            self._refuse(refusal, as_json)
        except TimeoutError:
            self._refuse(_Refusal(408, f"the body did not arrive within {self.read_seconds:g} s"), as_json)
        else:
            self.server.count(200)
            self.answer(200, message, JSON if as_json else PROTOBUF)

    def do_GET(self) -> None:
        code = 405 if self.path.partition("?")[0] == PATH else 404
        self._refuse(_Refusal(code, f"metrics are delivered by POST {PATH}"), as_json=False)

    do_PUT = do_DELETE = do_HEAD = do_GET

    def _screen(self, kind: str) -> None:
        """Refuse what can be refused before the body is read."""
        if self.path.partition("?")[0] != PATH:
            raise _Refusal(404, f"metrics are delivered by POST {PATH}")
        if not self.authorized():
            raise _Refusal(401, "the bearer token is missing or wrong; see --token-file")
        if kind not in (PROTOBUF, JSON):
            raise _Refusal(415, f"content type {kind!r} is not supported; send {PROTOBUF} or {JSON}")

    def _length(self) -> int:
        text = self.headers.get("Content-Length", "")
        return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else -1

    def _body(self) -> bytes:
        length = self._length()
        if length < 0:
            raise _Refusal(411, "the request has no Content-Length")
        if length > BODY_BYTES:
            raise _Refusal(413, f"the body has {length} bytes, the limit is {BODY_BYTES}; send smaller batches")
        self._unread = 0
        body = self.rfile.read(length)
        if len(body) < length:
            raise _Refusal(400, f"the body ended after {len(body)} of {length} bytes")
        return body

    def _take(self, body: bytes, as_json: bool) -> bytes:
        problems: list[str] = []
        accepted = 0
        with self.server.decoding:
            try:
                decoded = otlp.deliveries(otlp.parse(body, json=as_json))
            except QueryError as error:
                raise _Refusal(400, str(error)) from error
            rejected = decoded.rejected
            for delivery in decoded.deliveries:
                try:
                    self.server.accept(delivery)
                    accepted += 1
                except QueryError as error:
                    problems.append(str(error))
                    rejected += len(delivery.points)
            self.server.rejected_points += rejected
        if problems and not accepted:
            # A partial success goes unnoticed at most senders; where nothing was taken, it is none.
            raise _Refusal(400, "; ".join(problems[:3]))
        return _response(rejected, problems, as_json)

    def _refuse(self, refusal: _Refusal, as_json: bool) -> None:
        self.server.count(refusal.code)
        self._drain()
        headers = {"WWW_Authenticate": "Bearer"} if refusal.code == 401 else {}
        if refusal.code == 405:
            headers["Allow"] = "POST"
        self.answer(refusal.code, _status(str(refusal), as_json), JSON if as_json else PROTOBUF, **headers)

    def _drain(self) -> None:
        """Read on for a while: a client that is still sending would see a reset instead of the answer."""
        left = min(self._unread, _DRAIN_BYTES)
        try:
            while left > 0 and (piece := self.rfile.read1(min(left, _CHUNK))):
                left -= len(piece)
        except OSError:
            self.close_connection = True


def _plain(body: bytes, encoding: str) -> bytes:
    name = encoding.strip().lower()
    if name in ("", "identity"):
        return body
    if name != "gzip":
        raise _Refusal(415, f"content encoding {name!r} is not supported; send gzip or none")
    decompressor = zlib.decompressobj(wbits=31)
    try:
        plain = decompressor.decompress(body, PLAIN_BYTES + 1)
    except zlib.error as error:
        raise _Refusal(400, f"the body is not gzip: {error}") from error
    if len(plain) > PLAIN_BYTES:
        raise _Refusal(413, f"the body has more than {PLAIN_BYTES} bytes after decompression; send smaller batches")
    if not decompressor.eof or decompressor.unused_data:
        raise _Refusal(400, "the gzip body is cut off or has bytes after its end")
    return plain


def _response(rejected: int, problems: list[str], as_json: bool) -> bytes:
    response = ExportMetricsServiceResponse()
    if rejected:
        response.partial_success.rejected_data_points = rejected
        response.partial_success.error_message = "; ".join(problems[:3]) or "labels training_job and rank are missing"
    if not as_json:
        return response.SerializeToString()
    partial = response.partial_success
    body = {"rejectedDataPoints": str(rejected), "errorMessage": partial.error_message} if rejected else None
    return json.dumps({"partialSuccess": body} if body else {}).encode()


def _status(reason: str, as_json: bool) -> bytes:
    """Return google.rpc.Status with the reason: field 2, a string of at most 127 bytes."""
    if as_json:
        return json.dumps({"message": reason}).encode()
    text = reason.encode("ascii", "replace")[:127]
    return b"\x12" + bytes([len(text)]) + text
