"""One worker's summary of one trace, as its helper makes it: prints time, CPU, peak memory and size as JSON.

A trace of bench/synthetic/kineto.py comes with 20 s of stack and network samples; another one is taken as it is. With
a second argument, ``alone``, no second process reads a part of it.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from contextlib import suppress

BEGIN = time.perf_counter()

import msgspec  # noqa: E402  the imports are timed
import numpy as np  # noqa: E402
import numpy.ma  # noqa: E402  np.unique imports it at its first call

with suppress(ImportError):
    import isal.igzip  # noqa: F401  the reader imports it at its first packed file

from bench.synthetic.kineto import BASE_NS, ITERATIONS, WINDOW_NS  # noqa: E402
from eroica_otel.export.budget import fit  # noqa: E402
from eroica_otel.export.points import window_points  # noqa: E402
from eroica_otel.model import Capture, Identity, Window, WorkerWindow  # noqa: E402
from eroica_otel.summarize.offline import summarize_trace  # noqa: E402
from eroica_otel.summarize.pattern import summarize  # noqa: E402
from eroica_otel.summarize.readers import kineto  # noqa: E402
from eroica_otel.summarize.readers.any import read_trace  # noqa: E402

WHO = Identity("synthetic", 0, "host-a", world_size=8)
STACKS, DEPTH, HERTZ, NIC_HERTZ = 200, 20, 1000, 200


def captured(trace: str) -> Capture:
    """Return the trace with samples: 200 stacks 20 frames deep, a thread that uses half a core, a link at 40 %."""
    rng = np.random.default_rng(0)
    frames = tuple(("acme.model", f"Layer{number}.forward", "model.py", number) for number in range(STACKS + DEPTH))
    stacks = tuple(tuple(range(number, number + DEPTH)) for number in range(STACKS))
    times = np.arange(0, WINDOW_NS, 10**9 // HERTZ, dtype=np.int64)
    link = np.arange(0, WINDOW_NS, 10**9 // NIC_HERTZ, dtype=np.int64)
    return Capture(
        window=Window(1_790_857_026, "reference", 0, ITERATIONS), identity=WHO, start_ns=0, end_ns=WINDOW_NS,
        iteration_ns=np.linspace(0, WINDOW_NS, ITERATIONS + 1).astype(np.int64),
        realtime_offset_ns=(BASE_NS, BASE_NS), training_thread=3412, trace=trace, frames=frames, stacks=stacks,
        stack_ns=times, stack_ids=rng.integers(0, STACKS, times.size, np.int32), cpu_ns=times // 2,
        gc_ns=np.array([[10**9, 10**9 + 10**7]], np.int64), nic_ns=link, nic_tx=link // 2, nic_rx=link // 2,
        nic_peak_bytes=1.25e9, gpu=True,
    )  # fmt: skip


def summary(path: str) -> WorkerWindow:
    if "synthetic-" in path:
        return summarize(captured(path))
    return summarize_trace(read_trace(path), WHO)


def main() -> None:
    imported = time.perf_counter()
    before = time.process_time()
    if sys.argv[2:] == ["alone"]:
        kineto._processes = lambda path: 1
    window = fit(summary(sys.argv[1]))
    points = window_points(window)
    done = time.perf_counter()
    own, helper = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    figures = {
        "import_seconds": imported - BEGIN,
        "seconds": done - imported,
        "cpu_seconds": time.process_time() - before + helper.ru_utime + helper.ru_stime,
        "peak_mib": (own.ru_maxrss + helper.ru_maxrss) / 1024,
        "events": window.events,
        "series": len(points),
        "pattern_bytes": len(msgspec.msgpack.encode(window.patterns)),
        "kinds": {kind: round(share, 4) for kind, share in window.kinds.items()},
    }
    print(json.dumps(figures), flush=True)


if __name__ == "__main__":
    main()
