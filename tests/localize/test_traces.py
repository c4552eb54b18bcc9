"""What the verdict on files adds to that on a live window: what is far outside its range, what a change won."""

from __future__ import annotations

from dataclasses import replace

from eroica_otel.localize.jobwide import outside_findings
from eroica_otel.localize.traces import judge_traces
from eroica_otel.localize.verdict import scene_of_windows
from eroica_otel.model import Identity, Pattern, WorkerWindow

STEPS = 20


def window(functions: dict[tuple[str, str, str], float], *, window_id: int = 2, rank: int = 0, count: int = 1) -> (
    WorkerWindow
):  # fmt: skip
    """Return a window of 20 iterations, each as long as its functions (kind, family, name: ms) together."""
    step = sum(functions.values())
    patterns = tuple(
        Pattern(f"{'-'.join(key):>012}", key[2], key[0], key[1], "", ms / step) for key, ms in functions.items()
    )
    kinds: dict[str, float] = {"idle": 0.0}
    for key, ms in functions.items():
        kinds[key[0]] = kinds.get(key[0], 0.0) + ms / step
    identity = Identity("job", rank, "", world_size=count)
    return WorkerWindow(identity, window_id, "manual", step * STEPS / 1000, STEPS, patterns, kinds=kinds)


GEMM, READ, DECODE = ("compute", "gemm", "gemm"), ("python", "input", "read"), ("python", "input", "decode")
LAUNCH = ("host", "launch", "cudaLaunchKernel")


def test_one_worker_alone_shows_what_is_outside_its_range_and_is_not_judged() -> None:
    report = judge_traces([window({GEMM: 60, READ: 30, DECODE: 10})], expected=1)
    assert report.notes == ("cannot be judged: 1 worker and no reference",)
    (finding,) = report.findings
    assert (finding.severity, finding.cause, finding.function) == ("info", "slow_input", "read")
    # 30 % of the iteration where 1 % is expected of one Python function; the whole input takes 40 ms of it.
    assert finding.expectation_distance is not None
    assert abs(finding.expectation_distance - 0.29) < 1e-6
    assert abs(finding.impact_ratio - 0.39) < 1e-6
    assert "all functions of the input together take 40 ms, 40 % of it" in finding.evidence


def test_a_loader_whose_processes_are_too_slow_is_not_advised_to_have_some() -> None:
    next_batch = ("python", "input", "_MultiProcessingDataLoaderIter.__next__ (dataloader.py)")
    (finding,) = judge_traces([window({GEMM: 60, next_batch: 40})], expected=1).findings
    assert finding.advice.startswith("find the slow step in the DataLoader's processes, which read ahead already")


def test_what_is_within_its_range_is_not_told() -> None:
    assert judge_traces([window({GEMM: 90, LAUNCH: 10})], expected=1).findings == ()


def test_a_change_that_won_time_is_told_with_what_of_it_was_kept() -> None:
    before = window({GEMM: 60, READ: 40}, window_id=1)
    after = window({GEMM: 60, READ: 2, LAUNCH: 10})
    report = judge_traces([after], [before], expected=1)
    assert report.findings == ()
    assert report.notes == (
        "an iteration takes 72 ms, 100 ms before: 28 ms (28 %) less",
        "input takes 2.0 ms an iteration, 40 ms before; of these 38 ms an iteration keeps 28 ms; longer now: "
        "launch (host) 10 ms more",
    )


def test_a_change_that_lost_time_names_the_function() -> None:
    before, after = window({GEMM: 60, READ: 2}, window_id=1), window({GEMM: 60, READ: 40})
    report = judge_traces([after], [before], expected=1)
    (finding,) = report.findings
    assert (finding.verdict, finding.cause, finding.function) == ("job", "slow_input", "read")
    assert finding.severity == "critical"
    assert report.notes == ("an iteration takes 100 ms, 62 ms before: 38 ms (61 %) more",)


def test_no_change_is_told_as_such() -> None:
    before, after = window({GEMM: 60}, window_id=1), window({GEMM: 60})
    report = judge_traces([after], [before], expected=1)
    assert report.findings == ()
    assert report.notes == ("an iteration takes 60 ms, as before",)


def test_one_iteration_is_no_evidence_of_a_change() -> None:
    before, after = (replace(one, iterations=1) for one in (window({GEMM: 60}, window_id=1), window({GEMM: 90})))
    report = judge_traces([after], [before], expected=1)
    assert report.findings == ()
    assert report.notes[0] == "not enough evidence: one iteration is no evidence of a change; profile more of them"


def test_several_workers_are_judged_as_in_a_live_window() -> None:
    slow = [window({GEMM: 60, READ: 40 if rank == 2 else 1}, rank=rank, count=4) for rank in range(4)]
    report = judge_traces(slow, expected=4)
    (finding,) = [one for one in report.findings if one.severity != "info"]
    assert (finding.cause, finding.ranks) == ("slow_input", (2,))


def test_windows_of_different_iterations_give_findings_of_low_confidence() -> None:
    before, after = [window({GEMM: 60}, window_id=1)], [window({GEMM: 60, READ: 40})]
    (sure,), (unsure,) = (judge_traces(after, before, expected=1, apart=apart).findings for apart in (False, True))
    assert (sure.confidence, unsure.confidence) == ("high", "low")
    assert replace(unsure, confidence="high") == sure


def test_nothing_at_all() -> None:
    assert judge_traces([], expected=0).findings == ()


def test_what_is_outside_its_range_costs_no_more_than_it_takes_where_iterations_are_not_equally_long() -> None:
    """Rank 0 reads for 0.7 of 1 ms, ranks 1 and 2 for 0.2 and 2 of 80 ms: a median of 0.7 ms, of which 0.69 ms are
    beyond 1 % of 1 ms (-0.6 and 1.2 ms on the others). Ranks 3 and 4 read for 0.99 and 0.6 of 1 ms.
    """
    given = ((1.0, 0.7), (80.0, 0.2), (80.0, 2.0), (1.0, 0.99), (1.0, 0.6))
    windows = [window({GEMM: s - r, READ: r}, rank=at, count=5) for at, (s, r) in enumerate(given)]
    scene = scene_of_windows(windows)
    assert scene is not None
    (finding,) = outside_findings(replace(scene, iteration=0.08))
    assert abs(finding.impact_seconds - 0.00069) < 1e-6
    assert finding.evidence[0].startswith("takes 0.7 ms an iteration on the median rank, more than the 1.0 % expected")


def test_what_costs_nothing_is_not_said_to_be_more_than_expected_on_the_median_rank() -> None:
    """Rank 0 reads for 0.8 of 1 ms, which is 0.79 ms beyond 1 %; rank 1 for 0 of 80, which is 0.8 ms below."""
    scene = scene_of_windows([window({GEMM: 0.2, READ: 0.8}, count=2), window({GEMM: 80}, rank=1, count=2)])
    assert scene is not None
    (finding,) = outside_findings(scene)
    assert finding.impact_seconds == 0
    assert finding.evidence == (
        "takes 0.4 ms an iteration on the median rank; only on ranks of short iterations above the 1.0 % expected of "
        "one python function, so the median rank loses nothing by it",
    )
