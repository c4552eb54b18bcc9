"""Stages of a pipeline without named roles; the last test is on a production job whose fault is known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import straggler
from eroica_otel.localize.traces import judge_traces
from eroica_otel.localize.verdict import judge
from eroica_otel.model import Identity, Pattern, Report, WorkerWindow
from eroica_otel.offline.load import load
from eroica_otel.publish.report.verdict import grave, headline
from eroica_otel.summarize.offline import summarize_trace
from trace_files import GEMM, START_US, TRAINING, event, kineto, write

TIMELINE = Path(__file__).parent.parent / "golden" / "bytedance_timeline_st.json.gz"
FIRST, MIDDLE, LAST = ("send_f", "recv_b"), ("recv_f", "send_f", "recv_b", "send_b"), ("recv_f", "send_b")


def worker(rank: int, exchanges: tuple[str, ...], compute_ms: float, step_ms: float = 100.0) -> WorkerWindow:
    """Return a window of 20 iterations in which what is neither computed nor exchanged (1 ms each) is idle."""
    patterns = [Pattern(f"{name:>012}", name, "communication", "point_to_point", "", 1 / step_ms) for name in exchanges]
    patterns.append(Pattern("0123456789ab", "forward", "compute", "gemm", "", compute_ms / step_ms))
    exchanged = len(exchanges) / step_ms
    kinds = {"compute": compute_ms / step_ms, "communication": exchanged}
    kinds["idle"] = 1 - sum(kinds.values())
    return WorkerWindow(
        Identity("job", rank, f"node-{rank % 2}", world_size=6), 1, "manual", 20 * step_ms / 1000, 20,
        tuple(patterns), kinds=kinds,
    )  # fmt: skip


def job(*compute_ms: float, last: tuple[str, ...] = LAST) -> Report:
    """Return the verdict on three stages of two ranks each; ranks 4 and 5 are the last stage."""
    stages = [FIRST, FIRST, MIDDLE, MIDDLE, last, last]
    windows = [worker(rank, stage, ms) for rank, (stage, ms) in enumerate(zip(stages, compute_ms, strict=True))]
    return judge(windows, expected=6)


def test_a_stage_that_computes_longer_on_all_of_its_ranks_is_a_role() -> None:
    (finding,) = job(40, 40, 40, 40, 80, 80).findings
    assert (finding.cause, finding.scope, finding.ranks, finding.hosts) == ("pipeline_imbalance", "role", (4, 5), ())
    assert finding.domain == "code"
    # 40 ms of 100 more than the others, who have 40 ms less to do.
    assert finding.impact_seconds == pytest.approx(0.040, abs=0.003)
    assert (finding.severity, finding.confidence) == ("critical", "high")


@pytest.mark.parametrize(
    ("compute_ms", "last"),
    [
        ((40, 40, 40, 40, 80, 40), LAST),
        ((40, 40, 40, 80, 80, 80), LAST),
        ((40, 40, 40, 40, 80, 80), MIDDLE),
    ],
    ids=["one rank of the stage", "and one of another", "no stage of its own"],
)
def test_what_is_not_exactly_one_stage_is_none(compute_ms: tuple[float, ...], last: tuple[str, ...]) -> None:
    assert "pipeline_imbalance" not in {finding.cause for finding in job(*compute_ms, last=last).findings}


SEND_RECV = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"
STAGES = 4


def plain(folder: Path, *slow: int, told: bool = True) -> Report:
    """Return the verdict on traces of two pipelines of four stages whose kernels of one name are all that is seen.

    Rank 2s + p is stage s of pipeline p. Each computes for 400 us of a step, the ``slow`` for 800, for which the others
    wait in a receive.

    Args:
        told: Whether torch wrote the peers.
    """
    for rank in range(2 * STAGES):
        own = 800 if rank in slow else 400
        write(folder / f"rank{rank}.json", kineto(
            rank, 2 * STAGES, steps=range(20), step_us=1000, extra=exchanged(rank, told=told),
            work={GEMM: own, SEND_RECV: 850 - own},
        ))  # fmt: skip
    run = load([folder])
    return judge_traces(run.windows, expected=run.expected)


def exchanged(rank: int, *, told: bool) -> list[dict[str, Any]]:
    """Return what torch records of a stage's sends and receives."""
    pipe = str([other for other in range(2 * STAGES) if other % 2 == rank % 2])
    found = []
    for peer in (rank - 2, rank + 2):
        for name, whose in (("send", "Dst Rank"), ("recv", "Src Rank")) if 0 <= peer < 2 * STAGES and told else ():
            arguments = {"Collective name": name, whose: peer, "Process Group Name": "3", "Process Group Ranks": pipe}
            found.append(event("record_param_comms", "cpu_op", START_US + 10, 5, TRAINING, args=arguments))
    return found


def test_plain_kernels_of_nccl_show_the_last_stage_as_a_role_and_no_bad_host(tmp_path: Path) -> None:
    (finding,) = grave(plain(tmp_path, 6, 7))
    assert (finding.cause, finding.scope, finding.ranks, finding.hosts) == ("pipeline_imbalance", "role", (6, 7), ())
    # 400 us of 1000 more than the others, who wait meanwhile.
    assert finding.impact_ratio == pytest.approx(0.4, abs=0.01)
    assert finding.confidence == "high"


def test_the_peers_are_what_tells_that_they_are_a_stage(tmp_path: Path) -> None:
    (finding,) = grave(plain(tmp_path, 6, 7, told=False))
    assert (finding.cause, finding.scope, finding.ranks) == ("unknown", "worker", (6, 7))


@pytest.mark.parametrize("slow", [(), (2, 3), (6,), (5, 6)], ids=str)
def test_a_whole_stage_is_a_role_and_nothing_else(slow: tuple[int, ...], tmp_path: Path) -> None:
    causes = [(finding.cause, finding.ranks) for finding in grave(plain(tmp_path, *slow))]
    assert causes == {(): [], (2, 3): [("pipeline_imbalance", (2, 3))]}.get(slow, [("unknown", slow)])


def production(*, roles: bool) -> Report:
    windows = [
        summarize_trace(
            trace,
            Identity("st", rank, f"node-{rank}", role=f"pp{straggler.stage_of(rank)}" if roles else "", world_size=8),
            window_id=1_700_000_000,
        )
        for rank, trace in straggler.read(TIMELINE).items()
    ]
    return judge_traces(windows, expected=8)


def test_a_production_job_with_roles_by_stage_blames_nobody() -> None:
    assert grave(production(roles=True)) == ()


def test_a_production_job_without_roles_shows_its_last_stage_and_no_bad_host() -> None:
    report = production(roles=False)
    (finding,) = grave(report)
    assert (finding.cause, finding.scope, finding.ranks, finding.hosts) == ("pipeline_imbalance", "role", (6, 7), ())
    # Published: four forward passes of 139 to 140 ms in the last stage, 66 to 68 in the others; backward 203 and 143.
    assert finding.function == "forward-compute"
    assert 4 * (139 - 68 + 59) <= finding.impact_seconds * 1000 <= 4 * (140 - 66 + 61)
    assert headline(report).startswith("The role of ranks 6, 7 costs 537 ms")
