"""Is this thread inside a backward pass? torch is never imported here."""

from __future__ import annotations

import sys


def inside_backward() -> bool:
    """Return whether autograd runs on this thread: there an optimizer may run too, but torch's profiler must not.

    A profiler that is started or stopped in a backward pass is undone with the state that autograd restores after it,
    and the process crashes (seen with torch 2.13: "Requested callback is not found", then SIGSEGV).
    """
    engine = getattr(sys.modules.get("torch"), "_C", None)
    task = getattr(engine, "_current_graph_task_id", None)
    return task is not None and task() != -1
