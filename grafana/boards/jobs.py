"""Jobs: which training job is slow or stands still, what is found in each, and what that has cost."""

from __future__ import annotations

from boards import promql as p
from boards.spec import GREEN, JOB, JOBS, ORANGE, RED, WORKER, Board, Link, Query, Section, Spot

OPEN = p.open_findings(p.ANY)
BAD = f'sum {p.BY_JOB} (avg by (training_job, team, state) (eroica_worker_state{{{p.ANY}, state=~"degraded|blocked"}}))'
LOST = f"sum_over_time(job:eroica_workers_lost:sum{{{p.ANY}}}[$__range:1m]) / 60"
TO_JOB = Link("Open the job", JOB, ("team",), {"training_job": "${__data.fields.Job:percentencode}"})
TO_RANK = Link(
    "Open the worker", WORKER, ("team",),
    {"training_job": "${__data.fields.Job:percentencode}", "rank": "${__data.fields.Rank:percentencode}"},
)  # fmt: skip
SERIES_TO_JOB = Link("Open the job", JOB, ("team",), {"training_job": "${__field.labels.training_job:percentencode}"})

COUNTS = (
    Spot(
        "stat", "Jobs", "Training jobs of which at least one worker is seen.", (4, 4), "none",
        [Query(f"count(count {p.BY_JOB} (eroica_world_size{{{p.ANY}}}))", "jobs")], p.NO_JOB,
    ),
    Spot(
        "stat", "Slow or standing still", "Jobs of which at least half of the workers are slower than "
        "their baseline, or stand still.", (4, 4), "none", [Query(f"sum({BAD} >= bool 0.5)", "jobs")], p.NO_JOB,
        [(0, GREEN), (1, ORANGE)],
    ),
    Spot(
        "stat", "Open findings", "Findings above info that have not ended. 0 is healthy.", (4, 4), "none",
        [Query(f"sum(max {p.BY_JOB} (eroica_job_anomalies{{{p.ANY}}}))", "findings")], p.NO_LOCALIZER,
        [(0, GREEN), (1, RED)],
    ),
    Spot(
        "stat", "GPU hours lost", "In the time range: what workers were slower than their own baseline, and the time "
        "in which they stood still, with one GPU a worker.", (4, 4), "h", [Query(f"sum({LOST})", "hours")], p.NO_RULES,
    ),
    Spot(
        "stat", "Workers", "Workers that show series.", (4, 4), "none",
        [Query(f"sum(count {p.BY_JOB} (max by (training_job, team, rank) (eroica_world_size{{{p.ANY}}})))", "workers")],
        p.NO_JOB,
    ),
    Spot(
        "stat", "Workers not judged", "Workers whose patterns of the latest window did not arrive.", (4, 4), "none",
        [Query(
            f"sum(max {p.BY_JOB} (eroica_localizer_workers_expected{{{p.ANY}}})"
            f" - max {p.BY_JOB} (eroica_localizer_workers_seen{{{p.ANY}}}))", "workers",
        )],
        p.NO_LOCALIZER, [(0, GREEN), (1, ORANGE)],
    ),
)  # fmt: skip

TABLES = (
    Spot(
        "table", "Jobs now", "One row for each job. State is that of at least half of its workers; an iteration and "
        "its baseline are the medians of the workers; GPU hours are those lost in the time range.", (24, 8), "string",
        [
            Query(f"max {p.BY_JOB} (job:eroica_iteration_degradation_ratio:median{{{p.ANY}}})"),
            Query(p.state_of_jobs(p.ANY)),
            Query(f"max {p.BY_JOB} (job:eroica_workers:count{{{p.ANY}}})"),
            Query(f"max {p.BY_JOB} (job:eroica_iteration_recent_seconds:median{{{p.ANY}}})"),
            Query(f"max {p.BY_JOB} (job:eroica_iteration_baseline_seconds:median{{{p.ANY}}})"),
            Query(f"max {p.BY_JOB} (eroica_job_anomalies{{{p.ANY}}})"),
            Query(f"max {p.BY_JOB} ({LOST})"),
            Query(f"time() - max {p.BY_JOB} (eroica_localizer_last_success_timestamp_seconds{{{p.ANY}}})"),
        ],
        p.NO_RULES,
        columns={
            "training_job": "Job", "team": "Team", "B": "State", "A": "Slower by", "D": "Iteration", "E": "Baseline",
            "F": "Findings", "G": "GPU hours lost", "C": "Workers", "H": "Last judged",
        },
        units={
            "Slower by": "percentunit", "Iteration": "s", "Baseline": "s", "Findings": "none", "GPU hours lost": "h",
            "Workers": "none", "Last judged": "s", "State": "none",
        },
        links={"Job": TO_JOB}, states=p.codes(),
    ),
    Spot(
        "table", "Who slows which job", "One row for each culprit: worker, function, cause, share of each iteration "
        "that it costs, first sight of it in the time range, and what to do. Rank and host are empty where all workers "
        "or a link are the cause.", (24, 8), "string",
        [Query(p.advised(OPEN)), Query(p.since(p.ANY))], p.HEALTHY,
        columns={
            "training_job": "Job", "team": "Team", "rank": "Rank", "host": "Host", "function": "Function",
            "cause": "Cause", "A": "Costs", "B": "Since", "severity": "Severity", "link": "Link",
            "advice": "What to do",
        },
        hidden=("function_id", "role", "scope"), units={"Costs": "percentunit", "Since": "dateTimeAsIso"},
        links={"Job": TO_JOB, "Rank": TO_RANK},
    ),
)  # fmt: skip

OVER_TIME = (
    Spot(
        "timeline", "State of each job", "The state that at least half of its workers are in. Not recognised: nothing "
        "repeats in its loop, so that it is not watched.", (24, 7), "none",
        [Query(p.state_of_jobs(p.ANY), "{{training_job}}")], p.NO_RULES, states=p.codes(), links={"": SERIES_TO_JOB},
    ),
    Spot(
        "timeseries", "Slower than its baseline", "Rise of the iteration time over the job's own baseline, median of "
        "its workers. A window is taken from 5 % on.", (12, 8), "percentunit",
        [Query(f"job:eroica_iteration_degradation_ratio:median{{{p.ANY}}}", "{{training_job}}")], p.NO_RULES,
        [(0, GREEN), (0.05, ORANGE), (0.2, RED)], links={"": SERIES_TO_JOB},
    ),
    Spot(
        "timeseries", "Iteration time", "Recent time from one optimizer update to the next, median of the workers of a "
        "job.", (12, 8), "s", [Query(f"job:eroica_iteration_recent_seconds:median{{{p.ANY}}}", "{{training_job}}")],
        p.NO_RULES, links={"": SERIES_TO_JOB},
    ),
    Spot(
        "timeseries", "Open findings by cause", "How many findings above info are open, over all jobs.", (12, 8),
        "none",
        [Query(
            "count by (cause) (count by (training_job, team, cause, function_id, link) (eroica_anomaly_impact_ratio"
            f'{{{p.ANY}, severity=~"warning|critical"}}))', "{{cause}}",
        )],
        p.HEALTHY, stacked=True,
    ),
    Spot(
        "timeseries", "GPUs lost", "How many GPUs' worth of work is lost at this moment: a job of 1,000 workers that "
        "is a quarter slower than its baseline loses 200.", (12, 8), "none",
        [Query(f"job:eroica_workers_lost:sum{{{p.ANY}}}", "{{training_job}}")], p.NO_RULES, stacked=True,
        links={"": SERIES_TO_JOB},
    ),
)  # fmt: skip

BOARD = Board(
    JOBS, "Eroica / Jobs", "All training jobs: which is slow or stands still, what is found, what it has cost.",
    p.job_variables(several=True), (Section("", COUNTS + TABLES), Section("Over time", OVER_TIME)), p.ANY, "now-6h",
)  # fmt: skip
