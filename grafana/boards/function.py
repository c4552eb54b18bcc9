"""Function: one function over all ranks: how beta, mu and sigma spread, who stands out, the reference against now."""

from __future__ import annotations

from boards import promql as p
from boards.spec import FUNCTION, GREEN, ORANGE, RED, WORKER, Board, Link, Query, Section, Spot, Variable

ONE = f'{p.ONE}, function="$function"'
SOME = f'{p.SOME}, function="$function"'
BETA, MU, SIGMA = (f"eroica_pattern_{name}_ratio" for name in ("beta", "mu", "sigma"))
PER_RANK = "rank, host, role"
LATEST = p.seen(BETA, SOME, PER_RANK)
FAR = f"topk(20, abs({LATEST} - on (role) group_left () quantile by (role) (0.5, {LATEST})))"
SECONDS = (
    f"max by (rank) (last_over_time(eroica_window_seconds{{{p.SOME}}}[$__range])"
    f" / (last_over_time(eroica_window_iterations{{{p.SOME}}}[$__range]) > 0))"
)
TO_RANK = Link("Open the worker", WORKER, ("team", "training_job"), {"rank": "${__data.fields.Rank:percentencode}"})
SHARE = "percentunit"


def _peers(series: str, component: str) -> str:
    return f'max by (peer_role) ({series}{{{ONE}, component="{component}"}})'


def _spread(component: str, series: str, word: str) -> Spot:
    each = f"{series}{{{SOME}}}"
    median, mad = (_peers(f"eroica_function_{what}_ratio", component) for what in ("median", "mad"))
    return Spot(
        "timeseries", f"{component.capitalize()} over the ranks", f"{word} Lowest, median and highest worker while a "
        "window is shown; after that what the latest verdict compared: median of the peers, five times the median "
        "absolute deviation above it and below, and the reference.", (12, 9), SHARE,
        [
            Query(f"min({each})", "lowest"), Query(f"quantile(0.5, {each})", "median"),
            Query(f"max({each})", "highest"), Query(median, "peers {{peer_role}}"),
            Query(f"{median} + 5 * {mad}", "peers {{peer_role}} + 5 MAD"),
            Query(f"clamp_min({median} - 5 * {mad}, 0)", "peers {{peer_role}} - 5 MAD"),
            Query(_peers("eroica_function_reference_ratio", component), "reference {{peer_role}}"),
        ],
        p.NO_WINDOW,
    )  # fmt: skip


def _heat(component: str, series: str, steps: int, word: str) -> Spot:
    each = f"max by (rank) ({series}{{{SOME}}})"
    return Spot(
        "heatmap", f"Ranks by {component}", f"How many workers have which {word}, in steps of {1 / steps:g}, while a "
        "window is shown. Steps with nobody are left out.", (12, 9), "none",
        [Query(f'count_values("share", clamp(floor({each} * {steps}) / {steps}, 0, 1))', "{{share}}")], p.NO_WINDOW,
        axis=word,
    )  # fmt: skip


FACTS = (
    Spot(
        "stat", "Share of the window", "Beta: share of the critical path, median of the workers that have the "
        "function, in the latest window of the time range.", (4, 4), SHARE, [Query(f"quantile(0.5, {LATEST})",
        "median")],
        p.NO_WINDOW,
    ),
    Spot(
        "stat", "Reference", "The same in the healthy reference window.", (4, 4), SHARE,
        [Query(f'max(eroica_function_reference_ratio{{{ONE}, component="beta"}})', "reference")], p.NO_VERDICT,
    ),
    Spot(
        "stat", "Largest share", "The worker with the largest share.", (4, 4), SHARE,
        [Query(f"topk(1, {LATEST})", "rank {{rank}}")], p.NO_WINDOW,
    ),
    Spot(
        "stat", "Time per iteration", "Median of the workers' share times the length of an iteration in their window.",
        (4, 4), "s", [Query(f"quantile(0.5, max by (rank) ({LATEST}) * on (rank) {SECONDS})", "median")], p.NO_WINDOW,
    ),
    Spot(
        "stat", "Workers with it", "Workers that showed the function in the time range; small shares are cut.", (4, 4),
        "none", [Query(f"count(max by (rank) ({LATEST}))", "workers")], p.NO_WINDOW,
    ),
    Spot(
        "stat", "Costs", "Largest share of the iteration that an open finding about this function costs.", (4, 4),
        SHARE,
        [Query(
            f"max(eroica_anomaly_impact_ratio{{{ONE}}}) or 0 * max(eroica_job_anomalies{{{p.ONE}}})", "finding"
        )],
        p.NO_LOCALIZER, [(0, GREEN), (0.05, ORANGE), (0.2, RED)],
    ),
)  # fmt: skip

SPREAD = (
    _heat("beta", BETA, 50, "share of the window"),
    _spread("beta", BETA, "Share of the window on the critical path."),
    _heat("mu", MU, 20, "mean use of the resource"),
    _spread("mu", MU, "Mean use of the resource while the function is critical."),
    _heat("sigma", SIGMA, 50, "standard deviation of the use"),
    _spread("sigma", SIGMA, "Standard deviation of the use of the resource while critical."),
)

WHO = (
    Spot(
        "table", "Who stands out", "The 20 workers whose share is farthest from the median of their role, in the "
        "latest window of the time range. That alone is no fault: findings are below.", (24, 9), "string",
        [Query(FAR)] + [
            Query(f"{p.seen(series, SOME, PER_RANK)} and on (rank) {FAR}") for series in (BETA, MU, SIGMA)
        ],
        p.NO_WINDOW,
        columns={
            "rank": "Rank", "host": "Host", "role": "Role", "A": "From the median", "B": "Beta", "C": "Mu",
            "D": "Sigma",
        },
        units=dict.fromkeys(("From the median", "Beta", "Mu", "Sigma"), SHARE), links={"Rank": TO_RANK},
    ),
    Spot(
        "table", "Findings about it", "Open findings, those without an alert too, with the three distances: expected "
        "range, peers, reference.", (24, 6), "string",
        [Query(p.open_findings(ONE, ".+"))] + [
            Query(f"max by (rank, host, role, function_id) (eroica_anomaly_{name}_distance{{{ONE}}})")
            for name in ("expectation", "differential", "drift")
        ],
        p.HEALTHY,
        columns={
            "rank": "Rank", "host": "Host", "role": "Role", "cause": "Cause", "severity": "Severity", "scope": "Scope",
            "A": "Costs", "B": "Expectation", "C": "Peers that differ", "D": "Drift",
        },
        hidden=("training_job", "team", "function", "function_id", "link"),
        units={"Costs": SHARE, "Expectation": "none", "Peers that differ": SHARE, "Drift": SHARE},
        links={"Rank": TO_RANK},
    ),
    Spot(
        "table", "Reference against now", "What the localizer compared, by role of the peers and component.", (12, 7),
        "string",
        [Query(f"max by (peer_role, component) (eroica_function_{what}_ratio{{{ONE}}})")
         for what in ("median", "mad", "reference")],
        p.NO_VERDICT,
        columns={"peer_role": "Role", "component": "Component", "A": "Median", "B": "MAD", "C": "Reference"},
        units=dict.fromkeys(("Median", "MAD", "Reference"), SHARE),
    ),
    Spot(
        "table", "Where it is called from", "Stack of a Python function, outermost first, and how many workers have "
        "it. The largest Python functions show theirs.", (12, 7), "string",
        [Query(
            "count by (stack) (max by (rank, stack) (last_over_time(eroica_function_info"
            f'{{{p.SOME}, function_id=~"$function_id", function_id!=""}}[$__range])))'
        )],
        "No Python function, or none of the largest",
        columns={"stack": "Stack", "A": "Workers"}, units={"Workers": "none"},
    ),
    Spot(
        "timeseries", "Peak of the link", "90th percentile of the rate of the links while the collective runs, as a "
        "share of what they can; a slow link keeps it low. Median and lowest worker.", (12, 8), SHARE,
        [
            Query(f"quantile by (resource) (0.5, max by (rank, resource) (eroica_pattern_peak_ratio{{{SOME}}}))",
                  "{{resource}} median"),
            Query(f"min by (resource) (max by (rank, resource) (eroica_pattern_peak_ratio{{{SOME}}}))",
                  "{{resource}} lowest"),
        ],
        "No collective, or its links could not be read",
    ),
    Spot(
        "timeseries", "Fastest calls of the collective", "5th percentile of the duration of a call, by process group: "
        "what the transfer takes without waiting. Median and slowest worker.", (12, 8), "s",
        [
            Query("quantile by (group) (0.5, max by (rank, group) (eroica_collective_fastest_seconds"
                  f'{{{p.SOME}, function_id=~"$function_id"}}))', "group {{group}} median"),
            Query("max by (group) (eroica_collective_fastest_seconds"
                  f'{{{p.SOME}, function_id=~"$function_id"}})', "group {{group}} slowest"),
        ],
        "No collective, or no window in the time range",
    ),
)  # fmt: skip

VARIABLES = (
    Variable("function", "Function", f"{BETA}{{{p.ONE}}}", "function"),
    Variable("function_id", "Function id", f"{BETA}{{{ONE}}}", "function_id", shown=False),
)
BOARD = Board(
    FUNCTION, "Eroica / Function", "One function over all ranks: its share of the time, its use of the hardware, who "
    "stands out, and how it was in the reference window.",
    p.job_variables(several=False) + p.worker_variables() + VARIABLES,
    (Section("", FACTS), Section("Over the ranks", SPREAD), Section("Who and why", WHO)), p.ONE,
)  # fmt: skip
