"""An HTTP server with bounds: threads, one deadline per request, one request per connection. Knows no series.

The receiver and the metrics endpoint are handlers on it. A connection is closed after its answer: thousands of workers
would otherwise hold a thread each between two deliveries.
"""

from __future__ import annotations

import hmac
import io
import ipaddress
import os
import socket
import socketserver
import ssl
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any, ClassVar

from eroica_otel import ports
from eroica_otel.errors import ConfigError, DeliveryError

_BUSY = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 5\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server listens and how it is protected.

    Attributes:
        host: Name or address of one interface.
        port: 0 takes any free port.
        flag: Command-line option that changes it, for messages.
        certificate: PEM file; "" serves plain HTTP.
        key: PEM file of its key; "" when it is in the certificate's file.
        token: Bearer token that each request must carry; "" asks for none.
    """

    host: str
    port: int
    flag: str = ""
    certificate: str = ""
    key: str = ""
    token: str = field(default="", repr=False)

    def __str__(self) -> str:
        """Return the address as a URL without a path."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.certificate else 'http'}://{host}:{self.port}"


def parse_address(text: str, flag: str) -> tuple[str, int]:
    """Return host and port of "HOST:PORT", "[IPv6]:PORT" or "PORT" (loopback).

    Raises:
        ConfigError: the text has another form.
    """
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]") or "127.0.0.1"
    if not (port.isascii() and port.isdigit() and int(port) <= 65535):
        raise ConfigError(f"{flag} {text!r} is not an address; give HOST:PORT, for example 127.0.0.1:4318")
    return host, int(port)


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach a server that listens on ``host``."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def check_host(address: Address) -> None:
    """Say what is wrong with the host before anything else is asked of its user.

    Raises:
        ConfigError: nobody knows the host, or it is not this machine.
    """
    remedy = f"give a name or address of this machine, for example {address.flag} 127.0.0.1:{address.port}"
    given = f"{address.flag} {address.host}:{address.port}".strip()
    try:
        with socket.socket(_family(address)) as probe:
            probe.bind((address.host, 0))
    except (socket.gaierror, UnicodeError) as error:
        raise ConfigError(f"{given}: the host {address.host!r} is not known ({_reason(error)}); {remedy}") from error
    except OSError as error:
        raise ConfigError(f"{given} is no address of this machine ({_reason(error)}); {remedy}") from error


def _family(address: Address) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in address.host else socket.AF_INET


def _reason(error: OSError | UnicodeError) -> str:
    return (isinstance(error, OSError) and error.strerror) or str(error)


class _Deadline(io.RawIOBase):
    """Reading side of a socket that ends at one point in time, however slowly bytes drip in."""

    def __init__(self, connection: socket.socket, end: float, clock: Callable[[], float]) -> None:
        self._connection, self._end, self._clock = connection, end, clock

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        left = self._end - self._clock()
        if left <= 0:
            raise TimeoutError("the request took too long")
        self._connection.settimeout(left)
        return self._connection.recv_into(buffer)


class Handler(BaseHTTPRequestHandler):
    """Base of both endpoints: one deadline, bearer token, short answers, no log line per request."""

    protocol_version = "HTTP/1.1"
    server_version = "eroica_otel"
    sys_version = ""
    server: BoundedServer
    read_seconds: ClassVar[float] = 10.0

    def setup(self) -> None:
        """Open the reading side with a deadline; a TLS handshake happens here, in the request's own thread."""
        self.request.settimeout(self.read_seconds)
        if isinstance(self.request, ssl.SSLSocket):
            self.request.do_handshake()
        super().setup()
        end = time.monotonic() + self.read_seconds
        self.rfile = io.BufferedReader(_Deadline(self.request, end, time.monotonic))

    def authorized(self) -> bool:
        """Return whether the request carries the server's token, or the server asks for none."""
        token = self.server.address.token
        given = self.headers.get("Authorization", "")
        return not token or hmac.compare_digest(given.encode(), f"Bearer {token}".encode())

    def answer(self, code: int, body: bytes, kind: str = "text/plain; charset=utf-8", **headers: str) -> None:
        """Send one answer; the connection ends with it."""
        self.close_connection = True
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: requests are counted, not logged."""


class BoundedServer(HTTPServer):
    """HTTP server with at most ``threads`` requests at a time; what comes beyond is answered 503 after a wait."""

    request_queue_size = 512
    allow_reuse_address = True
    look_seconds = 0.1
    """How often it looks whether it is to stop."""

    def __init__(self, address: Address, handler: type[Handler], *, threads: int = 16, wait_seconds: float = 5) -> None:
        """Bind and listen; ``start`` serves.

        Raises:
            DeliveryError: the port is taken.
            ConfigError: the host is not this machine, or the certificate or its key cannot be loaded.
        """
        check_host(address)
        self.address = address
        self.address_family = _family(address)
        self._tls = _context(address)
        self._threads = threads
        self._slots = threading.BoundedSemaphore(threads)
        self._wait = wait_seconds
        self._thread: threading.Thread | None = None
        self.refused = 0
        try:
            super().__init__((address.host, address.port), handler)
        except OSError as error:
            raise DeliveryError(_why(address, error)) from error
        self.port = int(self.server_address[1])
        self.url = str(replace(address, port=self.port))

    def server_bind(self) -> None:
        """Bind without the look-up of a host name that the base class does."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.address.host), int(self.server_address[1])

    def start(self, name: str) -> None:
        """Serve in a thread of its own until ``stop``."""
        self._thread = threading.Thread(target=self.serve_forever, args=(self.look_seconds,), name=name, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop serving and free the port; requests that are being answered get a second to end."""
        if self._thread is not None:
            self.shutdown()
        self.server_close()
        end = time.monotonic() + 1
        for _ in range(self._threads):
            self._slots.acquire(timeout=max(0.0, end - time.monotonic()))

    def process_request(self, request: Any, client_address: Any) -> None:
        """Hand a connection to a thread, or refuse it when all threads stay busy."""
        if not self._slots.acquire(timeout=self._wait):
            self.refused += 1
            self._refuse(request)
            return
        threading.Thread(target=self._serve, args=(request, client_address), daemon=True).start()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Drop the connection: a client that vanishes or fails its handshake is no failure of ours."""

    def _serve(self, request: socket.socket, client_address: Any) -> None:
        connection = request
        try:
            if self._tls is not None:
                connection = self._tls.wrap_socket(request, server_side=True, do_handshake_on_connect=False)
            self.finish_request(connection, client_address)
        except OSError:
            self.handle_error(connection, client_address)
        finally:
            self.shutdown_request(connection)
            self._slots.release()

    def _refuse(self, request: socket.socket) -> None:
        try:
            if self._tls is None:
                request.sendall(_BUSY)
        except OSError:
            self.handle_error(request, None)
        finally:
            self.shutdown_request(request)


def _context(address: Address) -> ssl.SSLContext | None:
    if not address.certificate:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(address.certificate, address.key or None)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(_why_not_loaded(address, error)) from error
    return context


def _why_not_loaded(address: Address, error: OSError) -> str:
    reason = _reason(error)
    for flag, path in (("--tls-certificate", address.certificate), ("--tls-key", address.key)):
        if path and not os.path.isfile(path):
            return f"{flag} {path} cannot be loaded: there is no such file; give a PEM file"
    if not address.key:
        return (
            f"--tls-certificate {address.certificate} cannot be loaded without a key: {reason}; "
            "give its key by --tls-key, or both in one PEM file"
        )
    files = f"--tls-certificate {address.certificate} and --tls-key {address.key}"
    return f"{files} cannot be loaded: {reason}; give a PEM certificate and the key that belongs to it"


def _why(address: Address, error: OSError) -> str:
    owner = ports.holder(address.port) if address.port else None
    taken = f"is taken by {owner}" if owner else f"cannot be opened ({error.strerror or error})"
    return f"port {address.port} on {address.host} {taken}; choose another with {address.flag} HOST:PORT"
