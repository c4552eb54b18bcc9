"""A job in which rank 2 is slow, as a Prometheus would have it after ten minutes: pages of the real exporters.

llm-7b has ranks 0 and 1 on host-0, 2 and 3 on host-1. Workers show what the real instruments make of their status and
window, the localizer what it publishes of its finding, the agent what it reads of recorded GPUs; DCGM and node_exporter
are recorded pages.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
from prometheus_client import generate_latest

from alert_rules import ALERTS, run
from backfill import BEGIN, END, STEP_SECONDS, Page, backfill, page_of
from eroica_otel.export import pull
from eroica_otel.export.board import Board
from eroica_otel.export.delivery import provider, resource
from eroica_otel.export.instruments import create, record
from eroica_otel.export.points import window_points
from eroica_otel.export.standing import standing_points
from eroica_otel.publish.series import JobStatus, LocalizerStatus, OpenFinding, job_points, localizer_points
from factories_agent import worked_page
from factories_central import detail, finding, identity, report, window
from factories_nvml import Gpu
from factories_worker import status
from servers import Server

GOLDEN = Path(__file__).parent / "golden"
UUIDS = ("GPU-0", "GPU-1", "GPU-604ac76c-d9cf-fef3-62e9-d92044ab6e52", "GPU-df6e7a7c-7314-46f8-abc4-b88b36dcf3aa")
HOST_USE = {"process_cpu": 0.9, "cgroup_cpu": 0.8, "cgroup_memory": 0.5, "minor_faults": 100.0, "major_faults": 1.0,
            "process_disk_read": 1e6}  # fmt: skip
COUNTED = ("_total", "_sum", "_count", "_bucket")
CHOSEN = {"training_job": "llm-7b", "rank": "2", "node": "host-1", "gpu": UUIDS[2], "nic": "mlx4_0"}
"""What is chosen on the boards: the culprit."""


def grown(text: str, target: dict[str, str], per_second: float = 0.05, **more: float) -> Page:
    """Return the page with every counter growing, and what ``more`` names by its series' name."""
    growth: dict[str, float] = {}
    for line in text.splitlines():
        series, _, _ = line.rpartition(" ")
        name = series.partition("{")[0]
        if series and not line.startswith("#") and (name in more or name.endswith(COUNTED)):
            growth[series] = more.get(name, per_second)
    return Page(text, target, growth=growth)


def worker(rank: int) -> Page:
    """Return the page of a worker through its real instruments."""
    who = identity(rank)
    reader, registry = pull.page()
    board = Board()
    histograms = create(provider([reader], resource(who, 1)).get_meter("eroica_otel"), board)
    record(histograms, who.labels(), np.array([[0.18, 0.2], [0.19, 0.21]]))
    state = status(rank, identity=who, state="degraded", ratio=0.3, store_silent_seconds=1.0, nic="mlx4_0",
                   last_update_seconds=BEGIN + 590.0)  # fmt: skip
    board.stand(
        standing_points(
            state, deliveries={("remote_write", "sent"): 60, ("remote_write", "failed"): 1}, failures={"store": 1},
            windows={"degraded sent": 1, "reference failed": 1}, dropped=3, missing={"nvlink": "no"},
            helper_cpu_seconds=1.0, device={"gpu_uuid": UUIDS[rank], "k8s_pod": f"llm-7b-{rank}"},
        )
    )  # fmt: skip
    shown = window(rank, slow=rank == 2, host_use=HOST_USE, throttled_ratio=0.0, blocked_seconds=0.4, after_ratio=1.01)
    board.show(window_points(shown))
    target = {"job": "training", "instance": f"{who.host}:{9464 + who.local_rank}"}
    return grown(generate_latest(registry).decode(), target)


def localizer() -> Page:
    """Return the page of a localizer that has found rank 2."""
    found = finding(ranks=(2,), hosts=("host-1",), drift_distance=0.3)
    opened = OpenFinding(found, 1, "degraded", (identity(2),), 3, "other")
    levels = (("all", "beta", 0.125, 0.025, 0.125), ("all", "mu", 0.5, 0.01, 0.4), ("all", "sigma", 0.1, 0.01, 0.1))
    (function,) = detail().functions
    judged = report(detail=detail(functions=(replace(function, peers=levels),)))
    points = job_points(JobStatus("llm-7b", "vision", 4, (opened,), judged, 0, BEGIN + 300.0, 1.2))
    own = LocalizerStatus(
        "1", failures={"query": 1}, requests={"accepted": 3}, thresholds={"share": 0.5}, rejudged=1,
        queries={"answered": 4}, deliveries={("remote_write", "sent"): 2},
    )  # fmt: skip
    text = page_of([*points, *localizer_points(own)])
    return grown(text, {"job": "eroica", "instance": "localizer:9465"}, eroica_localizer_window_id=0.1)


def dcgm() -> Page:
    """Return dcgm-exporter's page of the culprit's GPU, with three more fields in the way of the others."""
    text = (GOLDEN / "dcgm" / "README-k8s-output.prom").read_text()
    clock = next(line.rpartition(" ")[0] for line in text.splitlines() if line.startswith("DCGM_FI_DEV_SM_CLOCK{"))
    more = {"GPU_TEMP": 52, "POWER_USAGE": 310, "XID_ERRORS": 0}
    text += "\n" + "".join(f"{clock.replace('SM_CLOCK', name)} {value}\n" for name, value in more.items())
    return Page(text, {"job": "dcgm", "instance": "host-1:9400", "pod": "dcgm-exporter-1"})


def node() -> Page:
    """Return node_exporter's page."""
    return grown((GOLDEN / "node_exporter" / "e2e-output.prom").read_text(), {"job": "node", "instance": "host-1:9100"})


def agent(folder: Path) -> Page:
    """Return the page of the agent on host-1 after 12 s, with two recorded GPUs and a port."""
    hot, other = Gpu("h200", UUIDS[2]), Gpu("h100", UUIDS[3])
    hot.said["Clocks Event Reasons", "HW Thermal Slowdown"] = "Active"
    return grown(worked_page(folder, hot, other), {"job": "hardware", "instance": "host-1:9466"})


def pages(folder: Path) -> Iterator[Page]:
    """Yield every page."""
    for rank in range(4):
        yield worker(rank)
    yield localizer()
    yield dcgm()
    yield node()
    yield agent(folder)


def fill(folder: Path) -> None:
    """Write the block of all pages into ``folder``/data."""
    backfill(folder, list(pages(folder)))


def apply_rules(server: Server) -> None:
    """Let the recording rules have run all the while; twice, since some record what others recorded."""
    for _ in range(2):
        run(
            "promtool", "tsdb", "create-blocks-from", "rules", "--start", str(BEGIN), "--end", str(END),
            "--eval-interval", f"{STEP_SECONDS}s", "--url", server.url, "--output-dir", server.folder / "data",
            ALERTS / "rules" / "recording.yml", ALERTS / "rules" / "advice.yml",
        )  # fmt: skip
        server.stop()
        server.start()


def chosen(**changes: str) -> dict[str, str]:
    """Return what the variables are; ``changes`` win."""
    return CHOSEN | changes
