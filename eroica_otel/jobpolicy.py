"""Thresholds and waits of the localizer as a person may set them: names and numbers in, policies by job out. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from fnmatch import fnmatchcase

from eroica_otel.jobstate import Patience
from eroica_otel.localize.policy import Policy

THRESHOLDS = tuple(item.name for item in fields(Policy))
WAITS = tuple(item.name for item in fields(Patience))
_MOST = 1e9
_SHARES = ("_ratio", "_share")
_SHARE_PREFIXES = ("expected_", "floor_")
_AT_MOST = (
    ("critical_kept_ratio", "critical_ratio", "a critical finding would be a warning at once"),
    ("impact_least_ratio", "critical_ratio", "no finding could be a warning"),
    ("gap_least_ratio", "gap_ratio", "the smaller limit is for gaps that are steady"),
    ("run_delay_ratio", "run_delay_grave_ratio", "the larger limit is for ranks without a quota"),
    ("fewest_peers", "decisive_peers", "fewer peers decide nothing"),
    ("sample_peers", "exact_peers", "a sample is smaller than what is compared exactly"),
    ("straggler_seconds", "least_seconds", "the last few are waited for less long than many"),
    ("least_seconds", "hang_seconds", "a window of a hang would be judged before its ranks can be there"),
    ("silent_seconds", "stale_seconds", "a worker falls silent before its job does"),
)
"""Pairs of which the first is not above the second, and why."""


@dataclass(frozen=True, slots=True)
class JobRule:
    """Thresholds of the jobs that a pattern fits.

    Attributes:
        training_job: Pattern of their name, with ``*``, ``?`` and ``[abc]``; upper and lower case differ.
        team: Pattern of their team.
        thresholds: What differs for them.
    """

    training_job: str = "*"
    team: str = "*"
    thresholds: Mapping[str, float] = field(default_factory=dict)

    def fits(self, team: str, training_job: str) -> bool:
        """Return whether it is about this job."""
        return fnmatchcase(training_job, self.training_job) and fnmatchcase(team, self.team)


@dataclass(frozen=True, slots=True)
class Policies:
    """The policy of each job: ``base``, changed by every rule that fits; of two that change the same the later wins."""

    base: Policy = Policy()  # noqa: RUF009 - frozen
    rules: tuple[JobRule, ...] = ()

    def changes(self, team: str, training_job: str) -> dict[str, float]:
        """Return the thresholds of a job that differ from those of all jobs."""
        own = {name: value for rule in self.rules if rule.fits(team, training_job)
               for name, value in rule.thresholds.items()}  # fmt: skip
        return {name: value for name, value in own.items() if value != getattr(self.base, name)}

    def of(self, team: str, training_job: str) -> Policy:
        """Return the policy of a job."""
        return replace(self.base, **self.changes(team, training_job))


def bounds(name: str) -> tuple[float, float]:
    """Return the smallest and the largest value of a threshold or wait: shares lie in [0, 1]."""
    if name.endswith(_SHARES) or name.startswith(_SHARE_PREFIXES):
        return 0.0, 1.0
    return (1.0, _MOST) if name.endswith(("_factor", "_peers")) or name == "role_limit" else (0.0, _MOST)


def contradictions(values: Mapping[str, float]) -> Iterator[str]:
    """Yield what in a whole set of thresholds or waits contradicts, each with the remedy."""
    for low, high, why in _AT_MOST:
        if low in values and high in values and values[low] > values[high]:
            yield f"{low} = {values[low]:g} is above {high} = {values[high]:g}: {why}; give {low} at most {high}"
