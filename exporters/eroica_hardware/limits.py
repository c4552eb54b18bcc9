"""How many files the agent may hold open: it keeps each counter's file open, and a large node has a thousand.

Takes and gives limits of this process.
"""

from __future__ import annotations

import resource
from contextlib import suppress

ENOUGH = 16_384
"""More than the ports, interfaces and devices that are sampled have; beyond it nothing would be gained."""


def raise_open_files(most: int = ENOUGH) -> int:
    """Raise the soft limit of open files towards the hard one, up to ``most``; return what it is now. Never raises.

    Without a limit from the service manager it is often 1,024 (getrlimit(2), RLIMIT_NOFILE).
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = most if hard == resource.RLIM_INFINITY else min(hard, most)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):  # a sandbox may forbid it
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]
