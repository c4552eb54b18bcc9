"""Failures inside the localizer: takes an act and the stage it belongs to, counts what it raises and says it once."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable

from eroica_otel.errors import EroicaError

STAGES = ("query", "judge", "journal", "state", "report", "publish")
"""Label ``stage`` of eroica_localizer_failures_total."""
OWN_ERRORS = (
    EroicaError, ArithmeticError, AttributeError, LookupError, MemoryError, RuntimeError, TypeError, ValueError,
)  # fmt: skip
"""A judge or a renderer that trips over one window must not end the service for all jobs."""

logger = logging.getLogger(__name__)


class Faults:
    """Counts by stage; each kind of failure is logged once."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._logged: set[tuple[str, str]] = set()
        self._lock = threading.Lock()

    def counts(self) -> dict[str, int]:
        """Return the number of failures of every stage."""
        return {stage: self._counts[stage] for stage in STAGES}

    def guard(self, stage: str, act: Callable[[], None], what: str = "") -> None:
        """Do something that may fail; ``what`` says what it was about."""
        about = f"{what}: " if what else ""
        try:
            act()
        except OSError as error:
            self._failed(stage, f"{error.errno}", f"{about}{error}; free some space or correct its rights")
        except OWN_ERRORS as error:
            self._failed(stage, type(error).__name__, f"{about}{error!r}")

    def _failed(self, stage: str, kind: str, text: str) -> None:
        with self._lock:
            self._counts[stage] += 1
            known = (stage, kind) in self._logged
            self._logged.add((stage, kind))
        if not known:
            logger.warning("%s failed: %s (said once; counted in eroica_localizer_failures_total)", stage, text)
