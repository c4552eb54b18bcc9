"""A noisy neighbour: processes that want all of one core.

python -m bench.faults.faults.neighbour CORE COUNT [SECONDS]
"""

from __future__ import annotations

import os
import sys
import time

from eroica_otel.demo.ending import die_with_parent


def main() -> None:
    core, count = int(sys.argv[1]), int(sys.argv[2])
    end = time.monotonic() + float(sys.argv[3] if len(sys.argv) > 3 else "inf")
    os.sched_setaffinity(0, {core})
    for _ in range(count - 1):
        if os.fork() == 0:
            die_with_parent()
            break
    while time.monotonic() < end:
        pass


if __name__ == "__main__":
    main()
