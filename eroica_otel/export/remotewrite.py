"""Delivery by Prometheus remote write: sends what a scrape of the same worker would show, and ends what disappears.

Samples are taken from the page that pull serves, so both give the same series. ``job`` and ``instance``, which a scrape
adds, are those that OTLP would get: of a worker TEAM/TRAINING_JOB and rank-N.
"""

from __future__ import annotations

import base64
import http.client
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from opentelemetry.sdk.metrics import MetricsTimeoutError

from eroica_otel import __version__
from eroica_otel.config import WorkerConfig
from eroica_otel.export import remotewire
from eroica_otel.export.delivery import Tally
from eroica_otel.export.pull import page
from eroica_otel.export.remotewire import STALE_BITS, Labels, value_bits
from eroica_otel.export.remotewritevec import FRAGMENT, VecLayout, is_refused_as_old, why_not
from eroica_otel.export.servertime import ServerTime
from eroica_otel.model import Identity, Point
from eroica_otel.vectors import Vector
from eroica_otel.wanted import REMOTE_WRITE

TIMEOUT_SECONDS = 10.0
PAUSES_SECONDS = (1.0, 2.0)
"""Before the second and the third try; then it has failed. The next delivery carries the same totals anyway."""
LONGEST_PAUSE_SECONDS = 5.0
"""Of a server's Retry-After at most."""
_ANSWERED = "answered"
_NOBODY: Mapping[str, str] = MappingProxyType({})
_PERMANENT = {
    "Content-Type": "application/x-protobuf",
    "Content-Encoding": "snappy",
    "X-Prometheus-Remote-Write-Version": "0.1.0",
    "User-Agent": f"eroica_otel/{__version__}",
}


@dataclass(frozen=True, slots=True)
class Target:
    """Where to and with which credentials; files are read at each delivery, because tokens are renewed."""

    url: str
    headers: str = ""
    token_file: str = ""
    user: str = ""
    password_file: str = ""
    vec: bool = False

    @classmethod
    def of(cls, config: WorkerConfig) -> Target:
        """Return the target that the options name."""
        url, _, layout = config.remote_write_url.partition("#")
        return cls(
            url,
            config.remote_write_headers,
            config.remote_write_token_file,
            config.remote_write_user,
            config.remote_write_password_file,
            layout == FRAGMENT,
        )

    def all_headers(self) -> dict[str, str]:
        """Return every header of a request; what the user gives wins. Raises OSError when a file cannot be read."""
        found = dict(_PERMANENT)
        if self.token_file:
            found["Authorization"] = f"Bearer {_secret(self.token_file)}"
        elif self.user and self.password_file:
            pair = f"{self.user}:{_secret(self.password_file)}".encode()
            found["Authorization"] = f"Basic {base64.b64encode(pair).decode()}"
        for item in self.headers.split(","):
            name, equals, value = item.partition("=")
            if equals:
                found[name.strip()] = urllib.parse.unquote(value.strip())
        return found


def _secret(path: str) -> str:
    return Path(path).read_text(encoding="utf-8").strip()


class _Straight(urllib.request.HTTPRedirectHandler):
    """Follows no redirection: of a POST it would make a GET, whose success says nothing."""

    def redirect_request(self, *arguments: object) -> None:
        return None


def job_and_instance(identity: Identity) -> tuple[str, str]:
    """Return what a worker's series carry as ``job`` and ``instance``."""
    job = f"{identity.team}/{identity.training_job}" if identity.team else identity.training_job
    return job, f"rank-{identity.rank}"


class RemoteWrite:
    """Pushes the series of one process to one target."""

    def __init__(
        self,
        target: Target,
        job_instance: tuple[str, str],
        failed: Callable[[str], None],
        wall: Callable[[], float] = time.time,
        pause: Callable[[float], bool] | None = None,
        odd: Callable[[str], None] = lambda text: None,
    ) -> None:
        """Prepare; nothing is sent before ``push``.

        Args:
            failed: Is told why deliveries begin to fail.
            wall: Unix seconds.
            pause: Waits before another try; returns True where there is no time for one any more.
            odd: Is told what is wrong although deliveries arrive (the clock).
        """
        self.tally = Tally(REMOTE_WRITE, failed)
        self.reader, self._registry = page()
        self._target = target
        self._added = tuple(zip(("job", "instance"), job_instance, strict=True))
        self._opener = urllib.request.build_opener(_Straight)
        self._time = ServerTime(odd, wall)
        self._odd, self._asked = odd, False
        self._vec = VecLayout(self._added) if target.vec else None
        self._probed = False
        self._ending = threading.Event()
        self._pause = pause if pause is not None else self._ending.wait
        self._shown: set[Labels] = set()
        self._stamp = 0

    def push(self) -> None:
        """Send one sample of every series, and a stale marker for each that is not there any more."""
        begin = time.perf_counter_ns()
        try:
            page = self._page()
        except MetricsTimeoutError as error:  # as in OtlpDelivery
            self.tally.say(str(error))
            return
        page, found, own = self._arranged(page)
        self._send(self._samples(page), begin, found, own)

    def close(self) -> None:
        """End all series, as a scrape does when its target goes away; without another try."""
        self._ending.set()
        if self._shown:
            self._send({}, time.perf_counter_ns())

    def _arranged(self, page: list[Point]) -> tuple[list[Point], list[Vector], dict[str, str]]:
        """Return what goes as labels, the vectors of a window that is new, and the worker's labels."""
        if self._vec is None:
            return page, [], {}
        plain, found, own = self._vec.split(page)
        if found and not self._probed:
            row = self._vec.probe(own)
            why = self._ask_time() or self._deliver(remotewire.request((), self._next_stamp(), [row]))
            if why and not why.startswith(_ANSWERED):
                return plain, [], {}  # nobody is there: the window waits for the next delivery
            self._probed = True
            why = why or why_not(self._target.url, row[0], self._target.all_headers(), self._pause)
            if why:
                self._vec = None
                self._odd(f"layout vec cannot be used, series have the layout of labels: {why}")
                return page, [], {}
        return plain, found, own

    def _page(self) -> list[Point]:
        return [
            Point(sample.name, sample.labels, sample.value)
            for family in self._registry.collect()
            for sample in family.samples
        ]

    def _samples(self, page: Iterable[Point]) -> dict[Labels, int]:
        return {
            remotewire.labels(point.name, (*point.labels.items(), *self._added)): value_bits(point.value)
            for point in page
        }

    def _send(
        self,
        samples: Mapping[Labels, int],
        begin_ns: int,
        found: Sequence[Vector] = (),
        own: Mapping[str, str] = _NOBODY,
    ) -> None:
        gone = dict.fromkeys(self._shown - samples.keys(), STALE_BITS)
        if not samples and not gone:
            return
        why = self._ask_time() or self._tell(found, own)
        if not why:
            rows = self._vec.rows(found, own) if self._vec is not None else ()
            why = self._deliver(remotewire.request(sorted({**samples, **gone}.items()), self._next_stamp(), rows))
        if why:
            self._shown |= samples.keys()  # some may have arrived: all are to be ended one day
            self.tally.failed(why)
            return
        self._shown = set(samples)
        self.tally.sent(begin_ns)
        if self._vec is not None:
            self._vec.sent(found)

    def _tell(self, found: Sequence[Vector], own: Mapping[str, str]) -> str:
        """Send the dictionaries that were not told lately; return why that failed, "" if it did not."""
        if self._vec is None or not found:
            return ""
        now = self._time.now()
        told = self._vec.dictionary(found, own, now)
        why = self._deliver(remotewire.request((), self._next_stamp(), told)) if told else ""
        if why and not is_refused_as_old(why):
            return why
        self._vec.told(found, now)
        return ""

    def _next_stamp(self) -> int:
        """Return the time of a request in ms. Never backwards: a sample before its series' latest would be refused."""
        self._stamp = max(self._stamp + 1, int(self._time.now() * 1000))
        return self._stamp

    def _ask_time(self) -> str:
        """Ask for nothing but the server's time, before the first sample; return why nobody answers, "" if one does.

        Whatever a server says to HEAD on the address for POST (405 of Prometheus), a Date stands over it.
        """
        if self._asked or self._time.known:
            return ""
        try:
            headers = {"Cache-Control": "no-cache", **self._target.all_headers()}
            asked = urllib.request.Request(self._target.url, headers=headers, method="HEAD")
            with self._opener.open(asked, timeout=TIMEOUT_SECONDS) as answer:
                self._time.hear(answer.headers.get("Date"))
        except urllib.error.HTTPError as error:
            with error:
                self._time.hear(error.headers.get("Date"))
        except urllib.error.URLError as error:
            return str(error.reason)
        except (OSError, ValueError, http.client.HTTPException):
            return ""  # it does not know the method: what it says to a POST counts
        self._asked = True
        return ""

    def _deliver(self, body: bytes) -> str:
        """Return why it failed; "" when it did not."""
        for wait in (*PAUSES_SECONDS, None):
            why, again, wanted = self._post(body)
            if not again or wait is None:
                break
            if self._pause(min(max(wait, wanted), LONGEST_PAUSE_SECONDS)):
                break
        return why

    def _post(self, body: bytes) -> tuple[str, bool, float]:
        """Return why one try failed ("" = it did not), whether another may help, and the pause the server asks for."""
        try:
            asked = urllib.request.Request(self._target.url, body, self._target.all_headers(), method="POST")
            with self._opener.open(asked, timeout=TIMEOUT_SECONDS) as answer:
                self._time.hear(answer.headers.get("Date"))
                return "", False, 0.0
        except urllib.error.HTTPError as error:
            with error:
                self._time.hear(error.headers.get("Date"))
                said = " ".join(error.read(300).decode(errors="replace").split())
                wanted = error.headers.get("Retry-After", "")
            busy = error.code == http.client.TOO_MANY_REQUESTS or error.code >= 500
            return f"{_ANSWERED} {error.code}: {said}", busy, float(wanted) if wanted.isdecimal() else 0.0
        except urllib.error.URLError as error:
            return str(error.reason), False, 0.0
        except (OSError, ValueError, http.client.HTTPException) as error:
            return str(error) or type(error).__name__, False, 0.0
