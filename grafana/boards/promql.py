"""Pieces of PromQL and words that several boards share. Queries are for Prometheus 2.42 or newer."""

from __future__ import annotations

from boards.spec import BLUE, GREEN, GREY, ORANGE, PURPLE, RED, YELLOW, Variable

ANY = 'training_job=~"$training_job", team=~"$team"'
"""Of boards on which several jobs may be chosen."""
ONE = 'training_job="$training_job", team=~"$team"'
"""Of boards about one job."""
SOME = f'{ONE}, role=~"$role", host=~"$host"'
"""Workers of one job."""
BY_JOB = "by (training_job, team)"
FINDINGS = "max by (training_job, team, rank, host, role, function, function_id, cause, severity, scope, link)"
"""Findings as people read them: one series each, whatever scraped them."""

NO_JOB = "No worker is scraped or sends its series"
NO_LOCALIZER = "No localizer is scraped"
NO_VERDICT = "Nothing has been judged yet, or no localizer is scraped"
NO_WINDOW = "No window in the time range"
NO_RULES = "No job, or the recording rules of alerts/rules are not loaded"
NO_LEARNED = "No worker, or none has learned its loop yet"
NO_AGENT = "No node agent (eroica-hardware) is scraped on this node, or it cannot read this"
NO_DCGM = "No series of dcgm-exporter has this GPU's UUID"
NO_NODE = "No node_exporter whose instance begins with this host's name"
HEALTHY = "Nothing: no finding is open, or no localizer is scraped"

STATES = {
    "learning": (1, "learning", BLUE), "healthy": (2, "healthy", GREEN), "paused": (3, "paused", PURPLE),
    "finished": (4, "finished", GREY), "unmatched": (5, "not recognised", YELLOW), "degraded": (6, "slower", ORANGE),
    "blocked": (7, "stands still", RED),
}  # fmt: skip
"""Number, word and colour of a state, the worst last."""


def open_findings(jobs: str, severity: str = "warning|critical") -> str:
    """Return the open findings, their share of the iteration."""
    return f'{FINDINGS} (eroica_anomaly_impact_ratio{{{jobs}, severity=~"{severity}"}})'


def since(jobs: str) -> str:
    """Return when each open finding was first seen in the time range, whatever its severity was, in ms."""
    series = f'eroica_anomaly_impact_ratio{{{jobs}, severity=~"warning|critical"}}'
    found = f"{FINDINGS.replace('severity, ', '')} ({series})"
    return f"1000 * min_over_time(timestamp({found})[$__range:]) and {found}"


def once(jobs: str) -> str:
    """Return findings in the minute in which they began, once also where they became critical since."""
    by = "max by (training_job, team, rank, host, function, cause)"
    now = f'{by} (eroica_anomaly_impact_ratio{{{jobs}, severity=~"warning|critical"}})'
    return f"{now} unless {now.replace('})', '} offset 1m)')}"


def costs(jobs: str) -> str:
    """Return what each culprit costs, one series also where its finding became critical since."""
    return f'max by (rank, link, function, cause) (eroica_anomaly_impact_ratio{{{jobs}, severity=~"warning|critical"}})'


def advised(found: str) -> str:
    """Return findings with the advice for their cause, where the recording rules are loaded."""
    advice = "max by (cause, advice) (cause:eroica_advice:info)"
    return f"({found} * on (cause) group_left (advice) {advice}) or ({found} unless on (cause) {advice})"


def seen(series: str, matchers: str, by: str) -> str:
    """Return the latest value in the time range, also of what is only shown for minutes after a window."""
    return f"max by ({by}) (last_over_time({series}{{{matchers}}}[$__range]))"


def state_of_jobs(matchers: str) -> str:
    """Return the number of the state that at least half of the workers are in, 0 where there is none."""
    terms = [
        f'{number} * (job:eroica_worker_state:ratio{{{matchers}, state="{state}"}} >= bool 0.5)'
        for state, (number, _, _) in STATES.items()
    ]
    return "max by (training_job, team) (\n  " + "\n    or\n  ".join(f"({term})" for term in terms) + "\n)"


def codes() -> dict[float, tuple[str, str]]:
    """Return word and colour by the number of a state."""
    known: dict[float, tuple[str, str]] = {number: (word, colour) for number, word, colour in STATES.values()}
    return {0: ("mixed", GREY)} | known


def state_colours() -> dict[str, str]:
    """Return the colour of a state by its name, which is that of its series."""
    return {name: colour for name, (_, _, colour) in STATES.items()}


def job_variables(*, several: bool) -> tuple[Variable, ...]:
    """Return the variables that every board has: of all teams, the jobs."""
    team = Variable("team", "Team", "eroica_world_size", "team", everything=".*")
    jobs = 'eroica_world_size{team=~"$team"}'
    return team, Variable("training_job", "Training job", jobs, "training_job", everything=".+" if several else "")


def worker_variables() -> tuple[Variable, ...]:
    """Return the variables that narrow the workers of one job."""
    return (
        Variable("role", "Role", f"eroica_world_size{{{ONE}}}", "role", everything=".*"),
        Variable("host", "Host", f'eroica_world_size{{{ONE}, role=~"$role"}}', "host", everything=".+"),
    )
