"""EROICA itself: does everything arrive, is every window judged, what does it cost, are the agents well."""

from __future__ import annotations

from boards import promql as p
from boards.spec import GREEN, ITSELF, ORANGE, RED, Board, Query, Section, Spot

RATE = "[$__rate_interval]"
FAILED = f'{p.ANY}, outcome="failed"'
EXPECTED, SEEN = (f"max {p.BY_JOB} (eroica_localizer_workers_{what}{{{p.ANY}}})" for what in ("expected", "seen"))
QUIET = "Nothing has been counted, or no worker is scraped"
NO_AGENTS = "No node agent (eroica-hardware) is scraped"


def _lines(
    title: str, description: str, unit: str, queries: list[Query], missing: str, *, stacked: bool = False
) -> Spot:
    return Spot("timeseries", title, description, (8, 7), unit, queries, missing, stacked=stacked)


FACTS = (
    Spot(
        "stat", "Localizers", "Localizers that are scraped or push. None: no slow worker is named.", (4, 4), "none",
        [Query("count(eroica_localizer_build_info)", "localizers")], p.NO_LOCALIZER, [(0, RED), (1, GREEN)],
    ),
    Spot(
        "stat", "Windows incomplete", "Jobs whose latest window was judged without some of their workers.", (4, 4),
        "none", [Query(f"sum({SEEN} < bool {EXPECTED})", "jobs")], p.NO_LOCALIZER, [(0, GREEN), (1, ORANGE)],
    ),
    Spot(
        "stat", "Verdict takes", "Time that the latest verdict took to compute, the longest of the jobs.", (4, 4), "s",
        [Query(f"max(eroica_localizer_duration_seconds{{{p.ANY}}})", "longest")], p.NO_VERDICT,
    ),
    Spot(
        "stat", "Series of a worker", "Rank 0 of the jobs chosen, the largest; the budget is 320.", (4, 4), "none",
        [Query(
            f'max(count by (training_job, team) ({{__name__=~"eroica_.+", rank="0", {p.ANY}}}))', "series",
        )],
        p.NO_JOB, [(0, GREEN), (320, RED)],
    ),
    Spot(
        "stat", "Nodes with an agent", "Share of the workers' nodes on which a node agent is scraped.", (4, 4),
        "percentunit",
        [Query(
            f"(count(max by (host) (eroica_world_size{{{p.ANY}}}) and on (host) eroica_hardware_build_info) or "
            f"0 * count(eroica_world_size{{{p.ANY}}})) / count(max by (host) (eroica_world_size{{{p.ANY}}}))", "nodes",
        )],
        p.NO_JOB,
    ),
    Spot(
        "stat", "Failures", "Failures inside workers and localizers in the time range; training is never affected.",
        (4, 4), "none",
        [Query(
            f"round((sum(increase(eroica_failures_total{{{p.ANY}}}[$__range]))"
            f" or 0 * count(eroica_world_size{{{p.ANY}}}))"
            " + (sum(increase(eroica_localizer_failures_total[$__range])) or vector(0)))", "failures",
        )],
        p.NO_JOB, [(0, GREEN), (1, ORANGE)],
    ),
)  # fmt: skip

VERDICTS = (
    Spot(
        "table", "Judging by job", "Workers that should be there and whose patterns of the latest window arrived, "
        "functions without a majority, workers that share an identity, and when and how long it was judged.", (24, 7),
        "string",
        [
            Query(SEEN), Query(EXPECTED), Query(f"max {p.BY_JOB} (eroica_localizer_no_consensus{{{p.ANY}}})"),
            Query(f"max {p.BY_JOB} (eroica_duplicate_workers{{{p.ANY}}})"),
            Query(f"1000 * max {p.BY_JOB} (eroica_localizer_last_success_timestamp_seconds{{{p.ANY}}})"),
            Query(f"max {p.BY_JOB} (eroica_localizer_duration_seconds{{{p.ANY}}})"),
        ],
        p.NO_LOCALIZER,
        columns={
            "training_job": "Job", "team": "Team", "A": "Workers judged", "B": "Expected", "C": "No consensus",
            "D": "Same identity", "E": "Judged", "F": "Took",
        },
        units={
            "Workers judged": "none", "Expected": "none", "No consensus": "none", "Same identity": "none",
            "Judged": "dateTimeAsIso", "Took": "s",
        },
    ),
    _lines(
        "Windows", "Windows by reason and outcome in each interval, of the worker with most.", "none",
        [Query(
            f"max by (training_job, reason, outcome) (increase(eroica_windows_total{{{p.ANY}}}{RATE}))",
            "{{training_job}} {{reason}} {{outcome}}",
        )],
        QUIET,
    ),
    _lines(
        "Windows that failed", "Workers whose window could not be profiled or summarised in the interval.", "none",
        [Query(
            f"sum by (training_job, reason) (increase(eroica_windows_total{{{FAILED}}}{RATE}) > bool 0)",
            "{{training_job}} {{reason}}",
        )],
        "No window has failed, or no worker is scraped",
    ),
    _lines(
        "Judged again", "Windows judged a second time because missing workers came late, and failures of the localizer "
        "by stage, in each interval.", "none",
        [
            Query(f"sum(increase(eroica_localizer_rejudged_total{RATE}))", "judged again"),
            Query(f"sum by (stage) (increase(eroica_localizer_failures_total{RATE}))", "failed: {{stage}}"),
        ],
        p.NO_LOCALIZER,
    ),
)  # fmt: skip

WAY = (
    _lines(
        "Deliveries of the workers", "A second, by way and outcome; nothing where all of them are scraped.", "ops",
        [Query(
            f"sum by (training_job, delivery, outcome) (rate(eroica_deliveries_total{{{p.ANY}}}{RATE}))",
            "{{training_job}} {{delivery}} {{outcome}}",
        )],
        "All workers are scraped and push nothing, or there is none",
    ),
    _lines(
        "What the localizer is asked, asks and sends", "Requests to its receiver, questions to its backend, deliveries "
        "of its own series, a second, by outcome.", "ops",
        [
            Query(f"sum by (outcome) (rate(eroica_localizer_requests_total{RATE}))", "received {{outcome}}"),
            Query(f"sum by (outcome) (rate(eroica_localizer_queries_total{RATE}))", "asked {{outcome}}"),
            Query(f"sum by (outcome) (rate(eroica_localizer_deliveries_total{RATE}))", "sent {{outcome}}"),
        ],
        p.NO_LOCALIZER,
    ),
    _lines(
        "Failures of the workers", "Failures inside eroica_otel by stage in each interval; training is never affected.",
        "none",
        [Query(
            f"sum by (training_job, stage) (increase(eroica_failures_total{{{p.ANY}}}{RATE}))",
            "{{training_job}} {{stage}}",
        )],
        "No failure has been counted, or no worker is scraped",
    ),
    _lines(
        "Functions dropped", "Functions cut by the budget of series in each interval, of the worker with most.", "none",
        [Query(
            f"max by (training_job) (increase(eroica_pattern_dropped_total{{{p.ANY}}}{RATE}))", "{{training_job}}"
        )],
        QUIET,
    ),
    _lines(
        "Smallest share that is kept", "A function that is absent had at most this share of the window; worker with "
        "the largest.", "percentunit",
        [Query(f"max by (training_job) (eroica_pattern_floor_ratio{{{p.ANY}}})", "{{training_job}}")], p.NO_WINDOW,
    ),
    _lines(
        "Store of the job silent", "Time since the job's store answered, worker with the longest.", "s",
        [Query(f"max by (training_job) (eroica_store_silent_seconds{{{p.ANY}}})", "{{training_job}}")], p.NO_JOB,
    ),
)  # fmt: skip

COST = (
    _lines(
        "What a window costs",
        "Time for which training stood still to stop and save the latest window: median and most.",
        "s",
        [
            Query(f"quantile by (training_job) (0.5, eroica_window_blocked_seconds{{{p.ANY}}})",
                  "{{training_job}} median"),
            Query(f"max by (training_job) (eroica_window_blocked_seconds{{{p.ANY}}})", "{{training_job}} most"),
        ],
        p.NO_WINDOW,
    ),
    _lines(
        "Iterations after a window", "Iteration time after the latest window over the time before it, median of the "
        "workers; 1 is none of it left.", "none",
        [Query(f"quantile by (training_job) (0.5, eroica_window_after_ratio{{{p.ANY}}})", "{{training_job}}")],
        p.NO_WINDOW,
    ),
    _lines(
        "CPU of the helpers", "Cores that the helper process of a worker uses, summaries included: mean and most.",
        "none",
        [
            Query(f"avg by (training_job) (rate(eroica_helper_cpu_seconds_total{{{p.ANY}}}{RATE}))",
                  "{{training_job}} mean"),
            Query(f"max by (training_job) (rate(eroica_helper_cpu_seconds_total{{{p.ANY}}}{RATE}))",
                  "{{training_job}} most"),
        ],
        p.NO_JOB,
    ),
    Spot(
        "table", "What workers could not measure", "Workers that could not sample a resource in their latest window.",
        (12, 7), "string",
        [Query(f"sum by (training_job, team, resource) (eroica_resource_missing{{{p.ANY}}} == 1)")],
        "Everything is measured, or no window in the time range",
        columns={"training_job": "Job", "team": "Team", "resource": "Resource", "A": "Workers"},
        units={"Workers": "none"},
    ),
    Spot(
        "table", "Versions", "Versions that run, workers and localizers.", (12, 7), "string",
        [
            Query(f"count by (training_job, version, schema) (eroica_build_info{{{p.ANY}}})"),
            Query("count by (version, schema) (eroica_localizer_build_info)"),
        ],
        p.NO_JOB,
        columns={
            "training_job": "Job", "version": "Version", "schema": "Schema", "A": "Workers", "B": "Localizers",
        },
        units={"Workers": "none", "Localizers": "none"},
    ),
)  # fmt: skip

AGENTS = (
    _lines(
        "Agents", "Node agents by version.", "none",
        [Query("count by (version) (eroica_hardware_build_info)", "{{version}}")], NO_AGENTS, stacked=True,
    ),
    _lines(
        "Samples that were due and not taken", "Share of the samples by source, over all nodes.", "percentunit",
        [Query(
            f"sum by (source) (rate(eroica_hardware_missed_total{RATE})) / (sum by (source) "
            f"(rate(eroica_hardware_missed_total{RATE}) + rate(eroica_hardware_samples_total{RATE})) > 0)",
            "{{source}}",
        )],
        NO_AGENTS,
    ),
    _lines(
        "Failures of agents", "In each interval, by source and stage.", "none",
        [Query(
            f"sum by (source, stage) (increase(eroica_hardware_failures_total{RATE}))", "{{source}} {{stage}}"
        )],
        NO_AGENTS,
    ),
    _lines(
        "CPU of agents", "Cores that an agent uses: mean and most.", "none",
        [
            Query(f"avg(rate(eroica_hardware_cpu_seconds_total{RATE}))", "mean"),
            Query(f"max(rate(eroica_hardware_cpu_seconds_total{RATE}))", "most"),
        ],
        NO_AGENTS,
    ),
    _lines(
        "Memory of agents", "Mean and most, their rings apart.", "bytes",
        [
            Query("avg(eroica_hardware_memory_bytes)", "mean"), Query("max(eroica_hardware_memory_bytes)", "most"),
        ],
        NO_AGENTS,
    ),
    _lines(
        "Lateness of samples", "Largest lateness in the latest second, by source, over all nodes.", "s",
        [Query("max by (source) (eroica_hardware_jitter_most_seconds)", "{{source}}")], NO_AGENTS,
    ),
    Spot(
        "table", "What agents cannot read", "Nodes on which a source cannot read something, with the reason.", (24, 7),
        "string", [Query("topk(100, count by (source, what, reason) (eroica_hardware_missing == 1))")],
        "Everything is read, or no node agent is scraped",
        columns={"source": "Source", "what": "What", "reason": "Reason", "A": "Nodes"}, units={"Nodes": "none"},
    ),
)  # fmt: skip

BOARD = Board(
    ITSELF, "Eroica / EROICA itself", "Whether everything arrives and is judged, what watching costs, and how the node "
    "agents are.", p.job_variables(several=True),
    (
        Section("", FACTS), Section("Windows and verdicts", VERDICTS), Section("Deliveries and series", WAY),
        Section("What it costs", COST), Section("Node agents", AGENTS),
    ), p.ANY, "now-6h",
)  # fmt: skip
