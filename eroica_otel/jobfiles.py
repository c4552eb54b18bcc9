"""Which files a verdict goes into: takes jobs and their verdicts, gives paths with what renders them.

DIR/report.json and DIR/report.html hold the newest verdict of any job. Once a second job was seen, each has a folder
too: DIR/JOB/report.json, or DIR/TEAM/JOB/report.json where there is a team. A verdict that lies in DIR from an
earlier run counts as seen, so that no job's last verdict is lost to another's first.
"""

from __future__ import annotations

import hashlib
import os
import re
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from pathlib import Path

from eroica_otel.errors import ConfigError
from eroica_otel.model import Report
from eroica_otel.publish.report import json
from eroica_otel.publish.serve import Renderer
from eroica_otel.query.store import JobKey
from eroica_otel.statefolder import replace_file

JOBS_KEPT = 128
"""Jobs that get a folder in one run; what comes beyond is in DIR and on /report only."""
_PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,79}")
_RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d|report)(\..*)?", re.IGNORECASE)
"""Names that mean a device on some file systems, and our own."""


class ReportFiles:
    """The files of one run; ``paths`` tells what a verdict is written into, ``write`` does it."""

    def __init__(self, folder: str, renderers: Mapping[str, Renderer], outputs: Mapping[str, Renderer]) -> None:
        """Take the folder of --report ("" for none), what it shall hold by file ending, and further single files."""
        self._folder, self._renderers, self._outputs = folder, renderers, outputs
        self._seen: set[JobKey] = set()
        self._only: tuple[JobKey, Report] | None = None

    def resume(self, known: Collection[JobKey]) -> None:
        """Count the verdict that lies in the folder as seen; ``known`` tells the team of its job."""
        path = Path(self._folder, "report.json")
        if not self._folder or not path.is_file():
            return
        try:
            report = json.parse(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeError, ConfigError):
            return  # it is no verdict of ours and will be replaced
        key = next((key for key in known if key[1] == report.training_job), ("", report.training_job))
        self._seen, self._only = {key}, (key, report)

    def paths(self, key: JobKey, report: Report) -> Iterator[tuple[str, Renderer, Report]]:
        """Yield each file that the verdict changes, what renders it, and the verdict that it holds."""
        for path, render in self._outputs.items():
            yield path, render, report
        if self._folder:
            yield from self._in(self._folder, report)
            for one, newest in self._of_jobs(key, report):
                yield from self._in(os.path.join(self._folder, *folder_of(one)), newest)

    def writing(
        self, key: JobKey, report: Report, guard: Callable[[str, Callable[[], None]], None]
    ) -> Callable[[], Report]:
        """Return what writes all files of a verdict and gives it back; ``guard`` takes a stage and each act."""
        paths = list(self.paths(key, report))

        def write() -> Report:
            for path, render, held in paths:
                guard("report", partial(self.write, path, render, held))
            return report

        return write

    def write(self, path: str, render: Renderer, report: Report) -> None:
        """Write one of these files, and make its folder where it is a job's.

        Raises:
            OSError: the disk refuses; the old content stays.
        """
        folder = os.path.dirname(path)
        if self._folder and os.path.isdir(self._folder) and folder.startswith(os.path.join(self._folder, "")):
            os.makedirs(folder, exist_ok=True)
        # Several jobs may write the newest verdict at once.
        replace_file(path, render(report).encode("utf-8", "replace"), f".{threading.get_ident()}")

    def _of_jobs(self, key: JobKey, report: Report) -> list[tuple[JobKey, Report]]:
        """Return the jobs whose folders change: none while there is one job, then also that of the first."""
        if len(self._seen) < JOBS_KEPT:
            self._seen.add(key)
        if len(self._seen) == 1:
            self._only = (key, report)
            return []
        earlier, self._only = self._only, None
        return ([earlier] if earlier is not None else []) + ([(key, report)] if key in self._seen else [])

    def _in(self, folder: str, report: Report) -> Iterator[tuple[str, Renderer, Report]]:
        for ending, render in self._renderers.items():
            yield os.path.join(folder, f"report.{ending}"), render, report


def folder_of(key: JobKey) -> tuple[str, ...]:
    """Return the folder of a job, as names below one another: its team where there is one, its name."""
    team, job = key
    return (safe(team), safe(job)) if team else (safe(job),)


def safe(name: str) -> str:
    """Return the name as the name of one folder; where it cannot be one, what is left of it and a checksum."""
    if _PLAIN.fullmatch(name) and not _RESERVED.fullmatch(name) and not name.endswith("."):
        return name
    left = re.sub(r"[^A-Za-z0-9_]+", "-", name).strip("-")[:60]
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    return f"{left}-{digest}" if left else digest
