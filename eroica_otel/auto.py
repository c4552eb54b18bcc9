"""The one line: ``import eroica_otel.auto`` watches the training of this process."""

from __future__ import annotations

from eroica_otel.plugin import instrument

HANDLE = instrument()
