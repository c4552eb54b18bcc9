"""HolisticTraceAnalysis on one trace: load and GPU kernel breakdown. Run by an interpreter that has it; no other need.

HTA_PYTHON bench/synthetic/hta_breakdown.py FILE     prints one JSON object
"""

from __future__ import annotations

import importlib.metadata
import json
import logging
import os
import resource
import sys
import time


def main() -> None:
    path = os.path.abspath(sys.argv[1])  # it looks for others below its folder
    begin = time.perf_counter()
    # Its types are not known where it is not installed; it is imported here so that the import is timed.
    trace_analysis = __import__("hta.trace_analysis", fromlist=["TraceAnalysis"])
    logging.disable(logging.WARNING)
    imported = time.perf_counter()
    before = time.process_time()
    analysis = trace_analysis.TraceAnalysis(trace_files={0: path}, trace_dir="/")
    kinds, kernels = analysis.get_gpu_kernel_breakdown(visualize=False)
    done = time.perf_counter()
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    own = resource.getrusage(resource.RUSAGE_SELF)
    figures = {
        "version": importlib.metadata.version("HolisticTraceAnalysis"),
        "pandas": importlib.metadata.version("pandas"),
        "import_seconds": imported - begin,
        "seconds": done - imported,
        "cpu_seconds": time.process_time() - before + children.ru_utime + children.ru_stime,
        "peak_mib": (own.ru_maxrss + children.ru_maxrss) / 1024,
        "rows": len(kinds) + len(kernels),
    }
    print(json.dumps(figures), flush=True)


if __name__ == "__main__":
    main()
