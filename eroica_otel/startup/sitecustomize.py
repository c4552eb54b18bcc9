"""Imported by every Python that ``eroica-otel run`` starts: attaches eroica_otel, then runs the sitecustomize it hides.

This folder is no package: it is put in front of PYTHONPATH, which launchers hand on to the processes that they start.
"""

from __future__ import annotations

import importlib
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def run_hidden() -> None:
    """Import the environment's own sitecustomize, if there is one further down the path."""
    kept = list(sys.path)
    this = sys.modules.pop("sitecustomize", None)
    sys.path[:] = [path for path in kept if os.path.abspath(path or ".") != HERE]
    try:
        importlib.import_module("sitecustomize")
    except ModuleNotFoundError as error:
        if error.name != "sitecustomize":
            raise
        if this is not None:
            sys.modules["sitecustomize"] = this
    finally:
        sys.path[:] = kept


try:
    importlib.import_module("eroica_otel.auto")
except ImportError as error:
    sys.stderr.write(f"eroica_otel: not attached: {sys.executable} cannot import it ({error}); install it there too\n")
run_hidden()
