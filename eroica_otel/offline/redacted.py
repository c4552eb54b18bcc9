"""A run of traces -> the same run as it may leave: by the rule and with the key of a live worker's redaction."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from eroica_otel.config import WorkerConfig
from eroica_otel.export.redact import NONE
from eroica_otel.export.secret import NamesFile, redactor
from eroica_otel.identity import job_name
from eroica_otel.model import WorkerWindow
from eroica_otel.offline.libraries import placed
from eroica_otel.offline.load import Run
from eroica_otel.offline.problem import Problem


def redacted(
    run: Run, config: WorkerConfig, environment: Mapping[str, str], job: str, say: Callable[[str], None]
) -> Run:
    """Return the run without names of the training's code, without its folder, and under a name that may leave.

    Args:
        config: Options of a worker, of which those of the redaction and the job's name count.
        environment: OTEL_* and EROICA_* as a worker reads them.
        job: Name that a person gave, "" where nobody did.
        say: Is told what is odd about the redaction.
    """
    if config.redact == NONE or not run.windows:
        return run
    made, kept = redactor(config, run.windows[0].identity, environment, say)
    windows = [made.window(window, map(placed, run.members[window.identity.rank].frames)) for window in run.windows]
    keep(kept, say)
    folders = _folders(run)
    return replace(
        run,
        windows=named(windows, config, environment, job),
        problems=tuple(Problem(one.path, _bare(one.text, folders), one.usage) for one in run.problems),
        notes=tuple(_bare(note, folders) for note in run.notes),
    )


def named(
    windows: Iterable[WorkerWindow], config: WorkerConfig, environment: Mapping[str, str], job: str
) -> tuple[WorkerWindow, ...]:
    """Return the windows under the name of the job that may leave.

    Where nobody gave one (``job`` is ""), the traces' folder stands there, or a script that a worker found: with
    redaction the variables of a worker name the job, else it is "training", as of a live worker.
    """
    if job or config.redact == NONE:
        return tuple(windows)
    name = config.training_job or job_name(environment, ())
    return tuple(replace(window, identity=replace(window.identity, training_job=name)) for window in windows)


def keep(names_file: NamesFile, say: Callable[[str], None]) -> None:
    """Write the names behind the tokens, for ``eroica-otel unredact``."""
    try:
        names_file.write()
    except OSError as error:
        say(f"the names behind the tokens cannot be kept ({error}); they are in the traces")


def _folders(run: Run) -> list[str]:
    """Return every folder that may stand before the name of a file, the longest first."""
    paths = [*run.paths, *(member.path for member in run.members.values()), *(one.path for one in run.problems)]
    folders = {str(folder) for path in map(Path, paths) for folder in (path, *path.parents)} - {".", os.sep}
    return sorted(folders, key=len, reverse=True)


def _bare(text: str, folders: Iterable[str]) -> str:
    for folder in folders:
        text = re.sub(rf"(?<![\w./~-]){re.escape(folder + os.sep)}", "", text)
    return text
