"""``eroica-hardware`` and ``python -m eroica_hardware``: keeps numpy from starting threads, then runs the command.

On a node with many cores its library for linear algebra, which nothing here uses, would start one thread for each.
"""

from __future__ import annotations

import importlib
import os
import sys


def main() -> int:
    """Run the command line and return its exit code."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    return int(importlib.import_module("eroica_hardware.main").main())


if __name__ == "__main__":
    sys.exit(main())
