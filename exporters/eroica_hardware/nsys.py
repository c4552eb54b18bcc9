"""Source `nsys`: GPU metrics at 10 kHz for a window, by the `nsys` of this machine; UNTESTED ON HARDWARE.

Takes announced windows, runs ``nsys profile --gpu-metrics-devices=all`` over a ``sleep`` as long as the window, reads
its SQLite export, writes rows into a ring once the window is over (Nsight Systems User Guide, CLI profile options). The
counters behind it belong to one program at a time: where a dcgm-exporter shows metrics of DCGM's profiling module
(DCGM_FI_PROF_*) that one holds them, and nsys is not started. Only in use where it was asked for: an export of eight
GPUs takes gigabytes and a core for a while.
"""

from __future__ import annotations

import logging
import math
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from eroica_hardware import nsysexport
from eroica_hardware.dcgm import parse
from eroica_hardware.deadlines import SECOND
from eroica_hardware.rings import KeptRing
from eroica_hardware.sampler import Sampler
from eroica_otel.errors import HardwareError, one_line
from eroica_otel.hardware.ring import MOST_SLOTS, slots_for
from eroica_otel.hardware.source import Resource

LOG = logging.getLogger(__name__)

HERTZ = 10_000
LEAST_SECONDS = 2.0
"""What is left of a window must be worth the start of nsys."""
LONGER = 1.05
"""A window may end a little later than was announced."""
STOP_SECONDS = 120.0
"""For stopping and exporting after the window; then nsys is ended."""
TICK_HERTZ = 10.0
OFF_NS = 10 * SECOND
HELD = (
    "a dcgm-exporter collects DCGM_FI_PROF_* and holds the counters that nsys needs; "
    "pause it by dcgmi profile --pause, or leave these fields out of its list"
)
NO_UUID = "nsys does not tell which GPU this is (no UUID in TARGET_INFO_GPU), so no worker gets its samples"
_PROFILING = frozenset({"gr_engine", "sm", "sm_occupancy", "tensor", "dram"})


class NsysSource:
    """What is known of nsys (source.Source); samples do not come by ``read``."""

    family = "nsys"

    def __init__(self, dcgm: Callable[[], str], program: str = "nsys") -> None:
        """``dcgm`` fetches the text of a dcgm-exporter, raising OSError where there is none."""
        self.resources: tuple[Resource, ...] = ()
        self.missing: dict[str, str] = {}
        self.failed = ""
        """Why the latest session gave nothing, "" where it did."""
        self.unassigned: tuple[str, ...] = ()
        """GPUs of which the latest session does not tell which they are."""
        self._dcgm, self._program = dcgm, program

    def look(self) -> None:
        """Say whether a session could begin; never raises."""
        self.ready()

    def ready(self) -> str:
        """Return the path of nsys, "" with the reason in ``missing`` where a session cannot begin; never raises."""
        path = shutil.which(self._program) or ""
        reason = "Nsight Systems (nsys) is not installed, or not on PATH"
        if path:
            reason = HELD if self._held() else ""
        told = {self.family: reason, "session": self.failed} | dict.fromkeys(self.unassigned, NO_UUID)
        self.missing = {what: why for what, why in told.items() if why}
        return "" if reason else path

    def read(self) -> Sequence[float]:
        """Return nothing known: between windows there are no samples."""
        return [math.nan] * len(self.resources)

    def _held(self) -> bool:
        try:
            return any(resource.name in _PROFILING and not math.isnan(value) for resource, value in parse(self._dcgm()))
        except (OSError, ValueError):  # none there, or nothing that can be understood
            return False


class _Session:
    """One run of nsys, in a folder of its own that goes with it."""

    def __init__(self, program: str, seconds: float, hertz: int) -> None:
        self.began = time.time_ns()
        self.ends_by = time.monotonic() + seconds + STOP_SECONDS
        self._folder = tempfile.TemporaryDirectory(prefix="eroica-nsys-")
        self.export = Path(self._folder.name) / "out.sqlite"
        self._said = Path(self._folder.name) / "said"
        with self._said.open("wb") as said:
            self.process = subprocess.Popen(
                command(program, Path(self._folder.name) / "out", seconds, hertz),
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                cwd=self._folder.name,
                start_new_session=True,
            )

    def complaint(self) -> str:
        """Return the last line that nsys said."""
        lines = self._said.read_text("utf-8", "replace").splitlines()
        return one_line(next((line for line in reversed(lines) if line.strip()), "nothing said"))

    def close(self) -> None:
        """End it, with all that it started."""
        if self.process.poll() is None:
            with suppress(OSError):
                os.killpg(self.process.pid, 9)
            self.process.wait()
        self._folder.cleanup()


def command(program: str, output: Path, seconds: float, hertz: int) -> list[str]:
    """Return the command line of a session: over a sleep, as some versions want an application."""
    return [
        "nice", "-n", "5", program, "profile", "--gpu-metrics-devices=all", f"--gpu-metrics-frequency={hertz}",
        "--trace=none", "--sample=none", "--cpuctxsw=none", "--export=sqlite", "--force-overwrite=true",
        f"--output={output}", "sleep", f"{seconds:.1f}",
    ]  # fmt: skip


class NsysSampler(Sampler):
    """Runs nsys while a window is announced, and gives its samples to the ring afterwards."""

    def __init__(
        self,
        source: NsysSource,
        ring: KeptRing,
        until: Callable[[], int],
        clock: Callable[[], int] = time.monotonic_ns,
        hertz: int = HERTZ,
        least_seconds: float = LEAST_SECONDS,
    ) -> None:
        """``until`` tells when the announced windows end (monotonic ns); shorter ones are left out."""
        super().__init__(source, ring, lambda now: now < until(), clock, TICK_HERTZ)
        self._nsys, self._until, self._now, self._asked_hertz = source, until, clock, hertz
        self._session: _Session | None = None
        self._least_seconds = least_seconds
        self._rests_until = self._seen = -OFF_NS

    def tick(self) -> None:
        """Begin, watch or finish a session; never raises."""
        now = self._now()
        self.deadlines.tick(now)
        stage = "source"
        try:
            if now >= self._rests_until:
                self._step(now)
            stage = "ring"
            self.ring.alive(self._now())
        except Exception:  # the other sources are still wanted
            self.failures[stage] += 1
            self._rests_until = self._now() + OFF_NS
            level = logging.WARNING if self.failures[stage] == 1 else logging.DEBUG
            LOG.log(level, "source nsys: %s failed, again in 10 s", stage, exc_info=True)

    def close(self) -> None:
        """End a session that still runs."""
        if self._session is not None:
            self._session.close()
            self._session = None

    def _step(self, now: int) -> None:
        if self._session is not None:
            self._watch(self._session)
            return
        if now - self._seen >= OFF_NS:
            self._seen = now
            self._nsys.look()
            self.looked = True
        left = (self._until() - now) / SECOND
        if left < self._least_seconds:
            return
        if program := self._nsys.ready():
            self._session = _Session(program, left * LONGER, self._asked_hertz)
        else:  # the exporter's page is not to be read ten times a second
            self._rests_until = now + OFF_NS

    def _watch(self, session: _Session) -> None:
        if session.process.poll() is None and time.monotonic() < session.ends_by:
            return
        try:
            self._finish(session)
        except HardwareError as error:
            self.failures["source"] += 1
            self._nsys.failed = str(error)
            self._rests_until = self._now() + OFF_NS
        finally:
            self.close()

    def _finish(self, session: _Session) -> None:
        if session.process.returncode is None:
            raise HardwareError(f"nsys did not end within {STOP_SECONDS:.0f} s after the window")
        if session.process.returncode or not session.export.exists():
            raise HardwareError(f"nsys ended with {session.process.returncode}: {session.complaint()}")
        found = nsysexport.read(session.export, lambda resources: slots_for(resources, MOST_SLOTS))
        ends = time.time_ns()
        if not len(found.times) or found.times[0] < session.began - 60 * SECOND or found.times[-1] > ends:
            raise HardwareError("the times in the export are not those of the window")
        self._nsys.failed = ""
        self._nsys.resources = found.resources
        devices = sorted({one.device for one in found.resources if one.device.startswith(nsysexport.UNASSIGNED)})
        self._nsys.unassigned = tuple(devices)
        self.ring.prepare(found.resources, self._now())
        shift = self._now() - ends
        for when, row in zip(found.times.tolist(), found.values.tolist(), strict=True):
            self.ring.append(when + shift, row)
        self.samples += len(found.times)
