"""Right or wrong: what the alerts that fire say, against what the case allows. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from bench.faults.case import ALL, HANG, JOB, LINK, SILENCE, Case
from eroica_otel.demo.monitoring import Alert

OF_WORKERS, OF_ROLES = "EroicaWorkerSlowsJob", "EroicaRoleSlowsJob"
OF_HANGS, OF_STANDSTILL = "EroicaWorkerHangsJob", "EroicaJobHangs"
OF_LINKS, OF_JOBS = "EroicaLinkSlowsJob", "EroicaJobSlowedEverywhere"


@dataclass(frozen=True)
class Named:
    """One culprit as an alert, or the series behind it, shows it.

    Attributes:
        alert: Name of the alert.
        rank: Its rank; None where none is named.
        host, link: Its node, and the two nodes of a link.
        cause, function: As annotated.
        impact: In words.
    """

    alert: str
    rank: int | None
    host: str
    cause: str
    function: str
    link: str = ""
    impact: str = ""

    def words(self) -> str:
        """Return it for a person."""
        who = f"rank {self.rank}" if self.rank is not None else self.link or "the job"
        where = ", ".join(filter(None, (self.function, self.impact)))
        return f"{who}: {self.cause} ({where})" if where else f"{who}: {self.cause}"


@dataclass(frozen=True)
class Verdict:
    """How a run is judged.

    Attributes:
        worker: Exactly those were named that the case allows.
        cause: And every cause, and where the case says it the function, is right.
        healthy: Ranks that were named as culprits and are healthy.
        named: What was named, in words.
    """

    worker: bool
    cause: bool
    healthy: tuple[int, ...]
    named: str

    @property
    def right(self) -> bool:
        return self.worker and self.cause


def named_of(alerts: Sequence[Alert], series: Sequence[dict[str, str]]) -> list[Named]:
    """Return the culprits that alerts name; ranks of a role and ends of a link stand in the series alone."""
    found: list[Named] = []
    for alert in alerts:
        said = alert.annotations
        about = (said.get("cause", ""), said.get("function", ""))
        impact = said.get("impact", "")
        if alert.name in (OF_WORKERS, OF_HANGS):
            rank = int(alert.labels["rank"]) if alert.labels.get("rank") else None
            found.append(Named(alert.name, rank, alert.labels.get("host", ""), *about, impact=impact))
        elif alert.name == OF_ROLES:
            found += [
                Named(alert.name, int(row["rank"]), row.get("host", ""), *about, impact=impact)
                for row in series
                if row.get("scope") == "role" and row.get("role") == alert.labels.get("role") and row.get("rank")
            ]
        else:
            links = {row.get("link", "") for row in series if row.get("link")} if alert.name == OF_LINKS else set()
            found.append(Named(alert.name, None, "", *about, " ".join(sorted(links)), impact))
    return list(dict.fromkeys(found))


def judge(case: Case, ranks: Collection[int], hosts: Collection[str], named: Sequence[Named]) -> Verdict:
    """Judge what was named.

    Args:
        ranks: Whom the fault hurts.
        hosts: Their nodes.
    """
    allowed = set(ranks) if case.verdict != SILENCE else set()
    who = _are_right(case, set(ranks), hosts, named)
    right = all(one.cause in case.causes and one.function.startswith(case.function) for one in named)
    said = "; ".join(dict.fromkeys(one.words() for one in named)) or "no finding"
    return Verdict(who, not named if case.verdict == SILENCE else bool(named) and right, _healthy(named, allowed), said)


def _healthy(named: Sequence[Named], allowed: set[int]) -> tuple[int, ...]:
    return tuple(sorted(_culprits(named) - allowed))


def _culprits(named: Sequence[Named]) -> set[int]:
    return {one.rank for one in named if one.rank is not None}


def _are_right(case: Case, ranks: set[int], hosts: Collection[str], named: Sequence[Named]) -> bool:
    alerts = {one.alert for one in named}
    if case.verdict == SILENCE:
        return not named
    if case.verdict == JOB:
        return alerts == {OF_JOBS}
    if case.verdict == HANG and case.where == ALL:
        return alerts == {OF_STANDSTILL}
    if case.verdict == LINK:
        links = [one.link for one in named if one.alert == OF_LINKS]
        known = alerts <= {OF_LINKS, OF_WORKERS} and _culprits(named) <= ranks
        return bool(named) and known and all(_ends_at(link, hosts) for link in links)
    return _culprits(named) == ranks and alerts <= ({OF_HANGS} if case.verdict == HANG else {OF_WORKERS, OF_ROLES})


def _ends_at(link: str, hosts: Collection[str]) -> bool:
    """Whether "HOST-HOST" has an end at one of them."""
    return any(link.startswith(f"{host}-") or link.endswith(f"-{host}") for host in hosts)
