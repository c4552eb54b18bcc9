"""Who we are to a backend: files and options in, headers and TLS settings out. Secrets are read anew each time."""

from __future__ import annotations

import base64
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import SplitResult, unquote

from eroica_otel import __version__
from eroica_otel.errors import ConfigError, QueryError


class QueryFailed(QueryError):
    """A question without a usable answer; ``outcome`` is one of client.OUTCOMES."""

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
        password_file: File with the password of the user in ``url``, read as ``token_file`` is; "" for none.
        certificate: PEM file with the certificate that we show (mTLS); "" for none.
        key: PEM file with its key; "" where it is in the same file.
        api: How windows are read: one of APIS.
    """

    url: str
    token_file: str = ""
    ca: str = ""
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    match: str = ""
    interval_seconds: float = 5.0
    timeout_seconds: float = 30.0
    password_file: str = ""
    certificate: str = ""
    key: str = ""
    api: str = "auto"


APIS = ("auto", "prometheus", "victoriametrics")
"""Which API hands windows over: auto asks once whether /api/v1/export is there, the stream of VictoriaMetrics."""


def headers_for(backend: Backend, parts: SplitResult) -> dict[str, str]:
    """Return the headers of one question to ``parts``, the address of ``backend``.

    Raises:
        QueryFailed: a file with a secret cannot be used.
    """
    given = {
        "Content-Type": "application/x-www-form-urlencoded",
        "Accept-Encoding": "gzip",
        "User-Agent": f"eroica_otel/{__version__}",
        "Connection": "close",
    }
    if parts.username is not None:
        kept = backend.password_file
        password = _secret(kept, "--prometheus-password-file") if kept else unquote(parts.password or "")
        pair = f"{unquote(parts.username)}:{password}"
        given["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
    if backend.token_file:
        given["Authorization"] = f"Bearer {_secret(backend.token_file, '--prometheus-token-file')}"
    return given | dict(backend.headers)


def context_for(backend: Backend, parts: SplitResult) -> ssl.SSLContext | None:
    """Return how TLS is spoken with ``parts``; None without it.

    Raises:
        ConfigError: a file cannot be loaded.
    """
    if parts.scheme != "https":
        return None
    try:
        context = ssl.create_default_context(cafile=backend.ca or None)
    except (OSError, ssl.SSLError) as error:
        reason = error.strerror or str(error)
        raise ConfigError(f"--prometheus-ca {backend.ca} cannot be loaded: {reason}; give a PEM file") from error
    if backend.certificate:
        try:
            context.load_cert_chain(backend.certificate, backend.key or None, _no_password)
        except (OSError, ssl.SSLError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            what = f"--prometheus-certificate {backend.certificate}" + (backend.key and f" with {backend.key}")
            raise ConfigError(
                f"{what} cannot be loaded: {reason}; give the PEM files of a certificate and of its key"
            ) from error
    return context


def _no_password() -> str:
    """Stand where OpenSSL would ask at the terminal."""
    raise ValueError("the key has a password; give one without")


def _secret(file: str, flag: str) -> str:
    what = "password" if "password" in flag else "token"
    try:
        secret = Path(file).read_text(encoding="ascii").strip()
    except OSError as error:
        why = f"{error.strerror or error}; give a file that can be read"
        raise QueryFailed("unauthorized", f"{flag} {file}: {why}") from error
    except UnicodeDecodeError as error:
        why = f"it is not ASCII; write one line with the {what} into it"
        raise QueryFailed("unauthorized", f"{flag} {file}: {why}") from error
    if not secret or not secret.isprintable():
        raise QueryFailed("unauthorized", f"{flag} {file} holds no {what}; write one line into it")
    return secret
