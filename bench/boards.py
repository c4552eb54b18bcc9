"""How long the dashboards' queries take at the size of the paper's largest job: a real Prometheus, every panel.

A block is written with 3,400 workers of one job that each show 20 functions x 3 components (204,000 series) for two
minutes twice an hour, as windows do, and what a worker always shows for the whole hour (another 100,000 series), by the
exporters' own functions, one sample a minute. Then every query of every board is asked as Grafana does, over an hour in
240 steps (60 in a heat map) or at one time, the culprit chosen. Panels of other exporters find nothing here: they are
about one node. The bar is 2 s a panel, all of its queries one after the other. Of a machine that others use, too, the
CPU seconds of Prometheus tell more than the time that passed: a query runs in one thread.

    python bench/boards.py [--workers 3400] [--minutes 60] [--out build/boards] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / "tests")]

from dashboards import all_queries, filled_in  # noqa: E402
from eroica_otel.export.points import window_points  # noqa: E402
from eroica_otel.export.standing import standing_points  # noqa: E402
from eroica_otel.model import Identity, Pattern, Point, WorkerWindow  # noqa: E402
from eroica_otel.publish.series import JobStatus, LocalizerStatus, OpenFinding, job_points, localizer_points  # noqa: E402
from eroica_otel.status import Status  # noqa: E402
from eroica_otel.verdicts import Detail, Finding, FunctionDetail, Report  # noqa: E402
from servers import Server, prometheus  # noqa: E402

FUNCTIONS, PANEL_SECONDS = 20, 2.0
BEGIN = 1_764_424_800
STEP_SECONDS = 60
JOB, SLOW = "llm-175b", 17
CHOSEN = {
    "training_job": JOB, "rank": str(SLOW), "function": "f3 (model.py:3)", "function_id": "id3", "role": ".*",
    "node": "host-2", "gpu": "GPU-17", "nic": "mlx5_0", "__rate_interval": "4m", "__range": "1h",
}  # fmt: skip


def identity(rank: int, workers: int) -> Identity:
    return Identity(JOB, rank, f"host-{rank // 8}", "nlp", "all", workers, rank % 8, "run-1")


def window(who: Identity) -> WorkerWindow:
    """Return a window of 20 Python functions, of which the slow rank spends more in the fourth."""
    share = [0.04 + 0.0001 * (who.rank % 7)] * FUNCTIONS
    share[3] += 0.2 * (who.rank == SLOW)
    patterns = tuple(
        Pattern(f"id{number}", f"f{number} (model.py:{number})", "python", "other", "cpu", beta, 0.5, 0.1,
                stack=("train:main:10", f"model:f{number}:{number}"))
        for number, beta in enumerate(share)
    )  # fmt: skip
    return WorkerWindow(
        who, BEGIN + 600, "degraded", 20.0, 100, patterns, {"python": 0.8, "communication": 0.1, "idle": 0.1}, 0.001,
        events=1000, blocked_seconds=0.4, run_delay_ratio=0.01, throttled_ratio=0.0,
        host_use={"process_cpu": 0.9, "minor_faults": 10.0},
    )  # fmt: skip


def standing(who: Identity) -> list[Point]:
    status = Status(
        who, 1, "degraded", iterations=600, input_seconds=3.0, baseline_seconds=0.2, recent_seconds=0.25, ratio=0.25,
        last_update_seconds=BEGIN + 3600.0, after=None, nic="mlx5_0", groups=(("0", who.world_size, "aa"),),
        collectives={"0": 600},
    )  # fmt: skip
    return standing_points(
        status, deliveries={("otlp", "sent"): 9}, failures={}, windows={"degraded sent": 1, "reference sent": 1},
        dropped=0, missing={}, helper_cpu_seconds=1.0, device={"gpu_uuid": f"GPU-{who.rank}"},
    )  # fmt: skip


def central(workers: int) -> list[Point]:
    """Return what a localizer shows that found the slow rank."""
    slow = identity(SLOW, workers)
    found = Finding(
        "culprit", "python_overhead", "code", "critical", "high", "worker", "python", "f3 (model.py:3)", "id3",
        ("train:main:10",), (SLOW,), (slow.host,), ("all",), 0.2, 0.05, 0.2, 1.0, 0.2, "once", ("evidence",), "advice",
    )  # fmt: skip
    functions = tuple(
        FunctionDetail(f"id{number}", f"f{number} (model.py:{number})", "python", (), (), 0.0, 0.0, 0.0,
                       tuple(("all", component, 0.04, 0.001, 0.04) for component in ("beta", "mu", "sigma")))
        for number in range(FUNCTIONS)
    )  # fmt: skip
    detail = Detail(0.25, 0.2, 20.0, 100, 1.0, (), (), {}, functions, FUNCTIONS, ("f3", SLOW, 0.2), ())
    judged = Report(JOB, BEGIN + 600, "degraded", workers, workers, detail=detail)
    opened = OpenFinding(found, BEGIN + 600, "degraded", (slow,), workers - 1, "other")
    points = job_points(JobStatus(JOB, "nlp", workers, (opened,), judged, 0, BEGIN + 700.0, 9.0))
    return points + localizer_points(LocalizerStatus("1", {}, {"accepted": 9}))


def series(workers: int) -> Iterator[tuple[Point, bool]]:
    """Yield each series with whether it is only there around a window."""
    for rank in range(workers):
        who = identity(rank, workers)
        for point in standing(who):
            yield point, False
        for part, value in (("sum", 120.0), ("count", 600.0)):
            yield Point(f"eroica_iteration_period_seconds_{part}", who.labels(), value), False
        for point in window_points(window(who)):
            yield point, True
    for point in central(workers):
        yield point, False


def write(file: TextIO, workers: int, minutes: int) -> int:
    """Write all samples as OpenMetrics; return the number of series."""
    number = 0
    for point, passing in series(workers):
        number += 1
        labels = ",".join(f'{name}="{value}"' for name, value in point.labels.items() if value)
        growth = 5.0 if point.name.endswith(("_total", "_sum", "_count")) else 0.0
        for minute in range(minutes + 1):
            if not passing or minute % 30 in (10, 11, 12):
                at = BEGIN + minute * STEP_SECONDS
                file.write(f"{point.name}{{{labels}}} {point.value + growth * minute!r} {at}\n")
    file.write("# EOF\n")
    return number


def ask(server: Server, minutes: int) -> list[dict[str, Any]]:
    """Return time and series of every query."""
    end = BEGIN + minutes * STEP_SECONDS
    rows = []
    for asked in all_queries():
        text = filled_in(asked.expr, **CHOSEN)
        over = f"query_range?start={end - 3600}&end={end}&step={3600 // asked.points}"
        begin, used = time.monotonic(), cpu_seconds(server)
        found = post(server, f"query?time={end}" if asked.instant else over, text)
        rows.append({"panel": f"{asked.board}: {asked.panel}", "query": asked.letter, "series": found,
                     "seconds": time.monotonic() - begin, "cpu_seconds": cpu_seconds(server) - used})  # fmt: skip
    return rows


def cpu_seconds(server: Server) -> float:
    """Return what Prometheus has used, in all of its threads."""
    fields = Path(f"/proc/{server.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def post(server: Server, given: str, query: str) -> int:
    """Return how many series the answer has."""
    body = urllib.parse.urlencode({"query": query}).encode()
    with urllib.request.urlopen(f"{server.url}/api/v1/{given}", body, timeout=120) as answer:
        return len(json.load(answer)["data"]["result"])


def main() -> int:
    """Fill, ask, and print the slowest panels; 1 where one is above the bar."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--workers", type=int, default=3400)
    parser.add_argument("--minutes", type=int, default=60)
    parser.add_argument("--out", type=Path, default=Path("build/boards"))
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    text = options.out / "samples.om"
    with text.open("w") as file:
        number = write(file, options.workers, options.minutes)
    subprocess.run(
        ["promtool", "tsdb", "create-blocks-from", "openmetrics", text, options.out / "data"], check=True,
        stdout=subprocess.DEVNULL,
    )  # fmt: skip
    text.unlink()
    with prometheus(options.out) as server:
        rows = ask(server, options.minutes)
    return tell(rows, number, options)


def tell(rows: list[dict[str, Any]], number: int, options: argparse.Namespace) -> int:
    """Print and return whether a panel is above the bar, by CPU."""
    panels: dict[str, tuple[float, float]] = {}
    for row in rows:
        used, passed = panels.get(row["panel"], (0.0, 0.0))
        panels[row["panel"]] = used + row["cpu_seconds"], passed + row["seconds"]
    slowest = sorted(panels.items(), key=lambda item: -item[1][0])
    print(f"{number} series of {options.workers} workers, {len(rows)} queries of {len(panels)} panels")
    print(f"{sum(row['series'] > 0 for row in rows)} queries give series")
    print("  CPU s       s  panel, the 15 with most CPU")
    for name, (used, passed) in slowest[:15]:
        print(f"{used:7.2f} {passed:7.2f}  {name}")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))
    return int(slowest[0][1][0] > PANEL_SECONDS)


if __name__ == "__main__":
    sys.exit(main())
