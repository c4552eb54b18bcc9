"""Job: one training job over all of its ranks: iteration time, input, windows, findings, where an iteration goes."""

from __future__ import annotations

from boards import promql as p
from boards.spec import FUNCTION, GREEN, JOB, ORANGE, RED, WORKER, Board, Link, Query, Section, Spot

RISE = f"eroica_iteration_degradation_ratio{{{p.SOME}}}"
BASELINE = f"eroica_iteration_baseline_seconds{{{p.SOME}}}"
RECENT = f"{BASELINE} * (1 + {RISE})"
WAIT = f"rate(eroica_input_wait_seconds_total{{{p.SOME}}}[$__rate_interval])"
"""What is scraped twice changes no quantile, so that ranks are made one only where they are counted."""
OPEN = p.open_findings(p.ONE)
TO_RANK = Link("Open the worker", WORKER, ("team", "training_job"), {"rank": "${__data.fields.Rank:percentencode}"})
TO_FUNCTION = Link(
    "Open the function", FUNCTION, ("team", "training_job"), {"function": "${__data.fields.Function:percentencode}"}
)


def _shares(series: str) -> str:
    return f'max by (function, kind, peer_role) ({series}{{{p.ONE}, component="beta"}})'


FACTS = (
    Spot(
        "stat", "State", "The state that at least half of the workers are in.", (4, 4), "none",
        [Query(f"topk(1, avg by (state) (eroica_worker_state{{{p.ONE}}}) >= 0.5)", "{{state}}")],
        p.NO_JOB, named=True,
    ),
    Spot(
        "stat", "Iteration time", "Median over the workers of their recent mean time from one optimizer update to the "
        "next.", (4, 4), "s", [Query(f"quantile(0.5, {RECENT})", "median")], p.NO_LEARNED,
    ),
    Spot(
        "stat", "Slower than baseline", "Rise of the iteration time over the baseline, median of the workers. A window "
        "is taken from 5 % on.", (4, 4), "percentunit", [Query(f"quantile(0.5, {RISE})", "median")], p.NO_LEARNED,
        [(0, GREEN), (0.05, ORANGE), (0.2, RED)],
    ),
    Spot(
        "stat", "Open findings", "Findings above info that have not ended. 0 is healthy.", (4, 4), "none",
        [Query(f"max(eroica_job_anomalies{{{p.ONE}}})", "findings")], p.NO_LOCALIZER, [(0, GREEN), (1, RED)],
    ),
    Spot(
        "stat", "Workers judged", "Share of the workers whose patterns of the latest window arrived; the others were "
        "not judged.", (4, 4), "percentunit",
        [Query(
            f"max(eroica_localizer_workers_seen{{{p.ONE}}}) / max(eroica_localizer_workers_expected{{{p.ONE}}})",
            "share",
        )],
        p.NO_LOCALIZER, [(0, ORANGE), (1, GREEN)],
    ),
    Spot(
        "stat", "Last judged", "Time since the latest verdict. A healthy job is judged once, at its start.", (4, 4),
        "s",
        [Query(f"time() - max(eroica_localizer_last_success_timestamp_seconds{{{p.ONE}}})", "age")], p.NO_VERDICT,
    ),
    Spot(
        "table", "Who slows this job", "One row for each culprit: worker, function, cause, share of each iteration "
        "that it costs, first sight of it in the time range, workers that wait for it, and what to do. Rank and host "
        "are empty where all workers or a link are the cause.", (24, 7), "string",
        [
            Query(p.advised(OPEN)), Query(p.since(p.ONE)),
            Query(f"max by (training_job, team, function_id, cause) (eroica_anomaly_victims{{{p.ONE}}})"),
        ],
        p.HEALTHY,
        columns={
            "rank": "Rank", "host": "Host", "role": "Role", "function": "Function", "cause": "Cause", "A": "Costs",
            "B": "Since", "C": "Wait for it", "severity": "Severity", "link": "Link", "advice": "What to do",
        },
        hidden=("function_id", "training_job", "team", "scope"),
        units={"Costs": "percentunit", "Since": "dateTimeAsIso", "Wait for it": "none"},
        links={"Rank": TO_RANK, "Function": TO_FUNCTION},
    ),
)  # fmt: skip

TIME = (
    Spot(
        "timeseries", "Iteration time over the ranks", "Fastest, median and slowest worker, and the baseline. A "
        "synchronous job is slow on all workers at once, so this shows when, not who. All roles and hosts.", (12, 8),
        "s",
        [
            Query(f"max(job:eroica_iteration_{what}{{{p.ONE}}})", word)
            for what, word in (
                ("recent_seconds:min", "fastest"), ("recent_seconds:median", "median"),
                ("recent_seconds:max", "slowest"), ("baseline_seconds:median", "baseline"),
            )
        ],
        p.NO_RULES,
    ),
    Spot(
        "heatmap", "Ranks by iteration time", "How many workers take how long, as a multiple of their own baseline in "
        "steps of 5 %; 1 is the baseline or less, 5 is five times it or more. Steps with nobody are left out.", (12, 8),
        "none",
        [Query(f'count_values("times", clamp(floor((1 + max by (rank) ({RISE})) * 20) / 20, 1, 5))', "{{times}}")],
        p.NO_LEARNED, axis="times the baseline",
    ),
    Spot(
        "timeseries", "Waiting for input over the ranks", "Share of their time that workers spend inside next() of "
        "their input.", (12, 8), "percentunit",
        [
            Query(f"min({WAIT})", "least"), Query(f"quantile(0.5, {WAIT})", "median"),
            Query(f"max({WAIT})", "most"),
        ],
        p.NO_JOB,
    ),
    Spot(
        "heatmap", "Ranks by waiting for input", "How many workers spend which share of their time inside next() of "
        "their input, in steps of 0.05. Steps with nobody are left out.", (12, 8),
        "none",
        [Query(f'count_values("share", clamp(floor(max by (rank) ({WAIT}) * 20) / 20, 0, 1))', "{{share}}")], p.NO_JOB,
        axis="share of the time",
    ),
    Spot(
        "timeseries", "States of the workers", "Workers by state. Paused is a checkpoint or a validation; blocked is "
        "no update for five mean iterations.", (12, 8), "none",
        [Query(f"sum by (state) (job:eroica_worker_state:count{{{p.ONE}}})", "{{state}}")], p.NO_RULES, stacked=True,
        colours=p.state_colours(),
    ),
    Spot(
        "timeseries", "What each culprit costs", "Share of each iteration that an open finding costs.", (12, 8),
        "percentunit", [Query(p.costs(p.ONE), "rank {{rank}} {{function}} ({{cause}})")], p.HEALTHY,
        [(0, GREEN), (0.05, ORANGE), (0.2, RED)],
    ),
)  # fmt: skip

WINDOWS = (
    Spot(
        "table", "Where an iteration goes", "Share of the critical path by function: median of the workers in the "
        "latest window and in the reference window.", (12, 9), "string",
        [
            Query(f"topk(20, {_shares('eroica_function_median_ratio')})"),
            Query(_shares("eroica_function_reference_ratio")),
        ],
        p.NO_VERDICT,
        columns={"function": "Function", "kind": "Kind", "peer_role": "Role", "A": "Now", "B": "Reference"},
        units={"Now": "percentunit", "Reference": "percentunit"}, links={"Function": TO_FUNCTION},
    ),
    Spot(
        "table", "Who waits least for the others", "In a synchronous job the worker that spends least of a window in "
        "communication is the one that the others wait for. This hints; a finding has been proved.", (12, 9), "string",
        [Query("bottomk(15, " + p.seen("eroica_kind_beta_ratio", f'{p.SOME}, kind="communication"', "rank, host, role")
               + ")")],
        p.NO_WINDOW, columns={"rank": "Rank", "host": "Host", "role": "Role", "A": "In communication"},
        units={"In communication": "percentunit"}, links={"Rank": TO_RANK},
    ),
    Spot(
        "timeseries", "Kinds of work", "Share of the window by kind of work on the critical path, mean of the workers. "
        "It is shown for some minutes after a window.", (12, 8), "percentunit",
        [Query(f"avg by (kind) (max by (rank, kind) (eroica_kind_beta_ratio{{{p.SOME}}}))", "{{kind}}")],
        p.NO_WINDOW, stacked=True,
    ),
    Spot(
        "timeseries", "What a window costs", "Time for which training stood still to stop and save the latest window.",
        (12, 8), "s",
        [
            Query(f"quantile(0.5, max by (rank) (eroica_window_blocked_seconds{{{p.SOME}}}))", "median"),
            Query(f"max(eroica_window_blocked_seconds{{{p.SOME}}})", "most"),
        ],
        p.NO_WINDOW,
    ),
    Spot(
        "table", "Windows", "By reason: when the latest was decided, how many each worker has sent since it started, "
        "and how many have failed, over all workers.", (24, 6), "string",
        [
            Query("1000 * " + p.seen("eroica_window_id", p.ONE, "reason")),
            Query(f'max by (reason) (eroica_windows_total{{{p.ONE}, outcome="sent"}})'),
            Query(f'sum by (reason) (eroica_windows_total{{{p.ONE}, outcome="failed"}})'),
        ],
        p.NO_WINDOW,
        columns={"reason": "Reason", "A": "Decided", "B": "Sent", "C": "Failed"},
        units={"Decided": "dateTimeAsIso", "Sent": "none", "Failed": "none"},
    ),
)  # fmt: skip

BOARD = Board(
    JOB, "Eroica / Job", "One training job: how slow, since when, who slows it, where its iterations go.",
    p.job_variables(several=False) + p.worker_variables(),
    (Section("", FACTS), Section("Over the ranks", TIME), Section("In the windows", WINDOWS)), p.ONE,
)  # fmt: skip
