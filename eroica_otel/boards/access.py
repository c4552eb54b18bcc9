"""Where a Grafana is and who asks it -> grafana-client's connection to it, and what went wrong with it in one line.

Only the given address is asked: redirects are not followed, so that the token never reaches another host, and neither
proxy variables nor .netrc are read. The extra ``grafana`` brings grafana-client 3, since from 4 on it needs a fork of
urllib3 that puts itself in the place of urllib3 in the whole environment (docs/grafana.md).
"""

from __future__ import annotations

import importlib.util
import ssl
from collections.abc import Iterator
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any
from urllib.parse import unquote, urlsplit

from eroica_otel import __version__
from eroica_otel.errors import ConfigError, DeliveryError, one_line

MOST_BYTES = 16 << 20
"""Largest answer after decompression; the dashboards that ship have some 50 kB each, a folder list less."""


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
        certificate: PEM certificate to show to it; "" for none.
        key: PEM key of that certificate, "" where it is in the same file.
        timeout_seconds: Longest wait for a connection, and for each part of an answer.
        flag: Option that gave the address, for messages.
    """

    url: str = field(repr=False)
    token: str = field(default="", repr=False)
    ca: str = ""
    certificate: str = ""
    key: str = ""
    timeout_seconds: float = 30.0
    flag: str = "--url"

    @property
    def shown(self) -> str:
        """The address without user and password, for people."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}".rstrip("/")

    def option(self, name: str) -> str:
        """Return the option of that name which stands beside the one with the address."""
        return f"--{name}" if self.flag == "--url" else f"{self.flag}-{name}"


def check(access: Access) -> None:
    """Say what is wrong before anybody is asked.

    Raises:
        ConfigError: grafana-client is missing, a file cannot be loaded, or options contradict one another.
    """
    if importlib.util.find_spec("grafana_client") is None:
        raise ConfigError(f"{access.flag} needs grafana-client; install it: pip install 'eroica-otel[grafana]'")
    if not access.token and not urlsplit(access.url).username:
        give = f"set GRAFANA_TOKEN or give {access.option('token-file')}"
        raise ConfigError(f"no token: {give}, with the token of a service account")
    for name, file in (("ca", access.ca), ("certificate", access.certificate), ("key", access.key)):
        if file and access.url.startswith("http:"):
            raise ConfigError(f"{access.option(name)} {file} is for https://, but {access.flag} is http://")
    if access.key and not access.certificate:
        raise ConfigError(f"{access.option('key')} is for a certificate; give {access.option('certificate')} too")
    _load(access)


def _load(access: Access) -> None:
    context = ssl.create_default_context()
    for name, file in (("ca", access.ca), ("certificate", access.certificate)):
        try:
            if file and name == "ca":
                context.load_verify_locations(file)
            elif file:
                # The password of an encrypted key would be asked for at a terminal.
                context.load_cert_chain(file, access.key or None, password=lambda: b"")
        except (OSError, ValueError) as error:
            what = f"{access.option(name)} {file}"
            why = (isinstance(error, OSError) and error.strerror) or str(error)
            raise ConfigError(
                f"{what} cannot be loaded: {one_line(why)}; give a PEM file, its key unencrypted"
            ) from error


def connect(access: Access) -> Any:
    """Return grafana-client's GrafanaApi for this Grafana; nothing is asked yet.

    Raises:
        ConfigError: as ``check``.
    """
    check(access)
    from grafana_client import GrafanaApi  # late: only who asks a Grafana needs it

    parts = urlsplit(access.url)
    host, path = parts.hostname or "", parts.path.strip("/")
    api = GrafanaApi(
        access.token or (unquote(parts.username or "").encode(), unquote(parts.password or "").encode()),
        host=f"[{host}]" if ":" in host else host,
        port=parts.port,
        url_path_prefix=f"{path}/" if path else "",
        protocol=parts.scheme,
        verify=access.ca or _usual_authorities(),
        timeout=access.timeout_seconds,
        user_agent=f"eroica-otel/{__version__}",
    )
    session = api.client.s
    session.trust_env = False
    session.headers["Accept"] = "application/json"
    if access.certificate:
        session.cert = (access.certificate, access.key or access.certificate)

    def refuse_redirects(answer: Any, *_: Any, **__: Any) -> None:
        if answer.is_redirect:
            raise ConfigError(f"{access.flag} {access.shown} redirects to another address; give that one")

    def bound(answer: Any, *_: Any, **__: Any) -> None:
        answer.raw = _Bounded(answer.raw, access)

    session.hooks["response"] += [refuse_redirects, bound]
    return api


class _Bounded:
    """The body of an answer, of which no more is read than MOST_BYTES: requests itself reads until the end."""

    def __init__(self, raw: Any, access: Access) -> None:
        self._raw, self._access = raw, access

    def stream(self, size: int, decode_content: bool = True) -> Iterator[bytes]:
        """Yield the body in pieces, unpacked.

        Raises:
            ConfigError: there is more than a Grafana answers.
        """
        left = MOST_BYTES
        for piece in self._raw.stream(size, decode_content=decode_content):
            left -= len(piece)
            if left < 0:
                self._raw.close()
                flag, most = self._access.flag, MOST_BYTES >> 20
                raise ConfigError(
                    f"{flag} {self._access.shown} answers more than {most} MiB, which no Grafana does; "
                    "give the address of a Grafana"
                )
            yield piece

    def __getattr__(self, name: str) -> Any:
        return getattr(self._raw, name)


def _usual_authorities() -> str | bool:
    """Return where the system keeps the authorities that it trusts; True for those that the library brings."""
    paths = ssl.get_default_verify_paths()
    return paths.cafile or paths.capath or True


def unreached(access: Access, error: Exception) -> DeliveryError:
    """Return what to say of a Grafana that did not answer."""
    reason = _reason(error)
    ours = f"give a certificate that it knows by {access.option('certificate')}"
    # With TLS 1.3 a server may refuse our certificate so late that the end of the connection overtakes its reason.
    if isinstance(reason, ssl.SSLEOFError) or (
        access.url.startswith("https:") and isinstance(reason, ConnectionResetError | BrokenPipeError)
    ):
        return DeliveryError(f"Grafana at {access.shown} ended the connection; if it asks for a certificate, {ours}")
    if isinstance(reason, ssl.SSLError):
        how = f"give the authority of its certificate by {access.option('ca')}, or http:// where it has none"
        said = str(reason.reason)
        if "_ALERT_" in said and ("CERT" in said or "UNKNOWN_CA" in said):  # said by the server, about ours
            how = ours
        why = getattr(reason, "verify_message", "") or str(reason.reason or reason)
        return DeliveryError(f"no TLS with Grafana at {access.shown}: {one_line(why)}; {how}")
    why = (isinstance(reason, OSError) and reason.strerror) or str(reason)
    return DeliveryError(
        f"Grafana at {access.shown} cannot be asked: {one_line(why)}; start it or correct {access.flag}"
    )


def _reason(error: BaseException) -> BaseException:
    """Return the error of the system or of TLS under those that libraries put around it."""
    found, seen = error, set[int]()
    while id(found) not in seen:
        seen.add(id(found))
        if isinstance(found, ssl.SSLError) or (isinstance(found, OSError) and found.strerror):
            return found
        inner = (found.__cause__, getattr(found, "reason", None), *found.args[:1], found.__context__)
        found = next((each for each in inner if isinstance(each, BaseException)), found)
    return found


def refused(access: Access, doing: str, status: int, answer: Any) -> ConfigError | DeliveryError:
    """Return what to say of a refusal.

    Args:
        access: The Grafana.
        doing: What was asked of it.
        status: Its HTTP status.
        answer: What it said, decoded where it was JSON.
    """
    at, said = f"Grafana at {access.shown}", _said(status, answer)
    if status == 401:
        how = f"give a valid token of a service account by {access.option('token-file')} or GRAFANA_TOKEN"
        return DeliveryError(f"{at} refuses the credentials (401: {said}); {how}")
    if status == 403:
        how = "give its service account the role Editor, for data sources Admin"
        return Forbidden(f"{at} does not let this token {doing} (403: {said}); {how}")
    if status == 404:
        return NotFound(f"{at} does not know what is needed to {doing} (404: {said}); correct {access.flag}")
    if status in (409, 412):
        how = "look there, then run it again, or give other names by --folder and --folder-uid"
        return DeliveryError(f"{at} has something else in place and does not {doing} ({status}: {said}); {how}")
    return DeliveryError(f"{at} could not {doing} ({status}: {said}); its log says more")


def _said(status: int, answer: Any) -> str:
    if isinstance(answer, dict) and isinstance(answer.get("message"), str):
        return one_line(answer["message"])
    known = {int(each) for each in HTTPStatus}
    return HTTPStatus(status).phrase if status in known else "no reason given"
