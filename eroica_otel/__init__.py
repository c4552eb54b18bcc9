"""eroica_otel: names the worker, the function and the cause when a training job gets slow.

``import eroica_otel.auto`` or ``eroica_otel.instrument()`` attaches it to a training; importing this package alone
does not.
"""

from __future__ import annotations

from eroica_otel.plugin import Handle, instrument, step
from eroica_otel.plugin import watch_input as watch

__version__ = "0.1.0"

__all__ = ["Handle", "__version__", "instrument", "step", "watch"]
