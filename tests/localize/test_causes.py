"""The table of causes: a row for each cause, a rule for each that can be shown, and what the rules say."""

from __future__ import annotations

from typing import Any

import pytest

from eroica_otel import names
from eroica_otel.localize.causes import BY_NAME, TABLE, Facts, cause_of
from eroica_otel.localize.policy import Policy

NOT_YET_REACHABLE = {
    "gpu_throttled", "gpu_power_capped", "gpu_memory_slow", "nvlink_degraded", "pcie_degraded", "link_flapping",
    "network_congestion", "collective_inefficient", "storage_slow", "numa_misplaced", "memory_pressure", "host_sync",
    "allocator_churn", "pipeline_imbalance", "checkpoint_stall", "recompilation", "hang_missing_rank", "hang_in_python",
}  # fmt: skip


def facts(**changes: Any) -> Facts:
    """Return 60 ms above the peers in a 200 ms iteration, none of it on the CPU."""
    return Facts(**{"iteration": 0.2, "excess": 0.06, "on_excess": 0.0, "peer_use": 0.0} | changes)


def test_every_cause_of_the_contract_has_one_row() -> None:
    assert sorted(row.name for row in TABLE) == sorted(names.CAUSES)
    assert len(BY_NAME) == len(TABLE)


def test_which_causes_cannot_be_shown_yet() -> None:
    assert {row.name for row in TABLE if row.rule is None} == NOT_YET_REACHABLE


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.name)
def test_every_row_says_whose_it_is_and_what_to_do(row: Any) -> None:
    assert row.domain in ("hardware", "code", "data")
    assert len(row.advice) > 20
    assert not row.advice.endswith(".")


@pytest.mark.parametrize(
    ("expected", "given"),
    [
        ("process_stopped", facts(stopped=True)),
        ("nic_degraded", facts(link=True)),
        ("gc_pause", facts(kind="python", family="gc", on_excess=0.06)),
        ("cpu_starved", facts(kind="compute", peer_use=0.5, throttle_excess=0.3, delay_excess=0.05)),
        ("cpu_starved", facts(kind="", delay_excess=0.05)),
        ("slow_input", facts(kind="python", family="input")),
        ("slow_input", facts(kind="python", family="loader", on_excess=0.06)),
        ("load_imbalance", facts(kind="compute", on_excess=0.05, peer_use=0.9)),
        ("cpu_contention", facts(kind="compute", peer_use=0.5)),
        ("cpu_contention", facts(everyone=True, delay_excess=0.02)),
        ("python_overhead", facts(kind="python", family="other", on_excess=0.03)),
        ("python_overhead", facts(kind="python", family="other", on_excess=float("nan"), thread_excess=0.05)),
        ("python_blocked", facts(kind="python", family="other", on_excess=0.005)),
        ("unknown", facts(kind="python", family="other", on_excess=float("nan"))),
        ("unknown", facts(kind="compute", on_excess=float("nan"), peer_use=float("nan"))),
        ("unknown", facts(kind="compute")),
        ("unknown", facts(kind="communication", everyone=True)),
    ],
)
def test_rules(expected: str, given: Facts) -> None:
    assert cause_of(given, Policy()).name == expected


def test_each_rule_has_a_case_above() -> None:
    cases = {expected for expected, _ in test_rules.pytestmark[0].args[1]}  # type: ignore[attr-defined]
    assert cases == {row.name for row in TABLE if row.rule is not None}


def test_throttling_of_less_than_half_the_excess_does_not_explain_it() -> None:
    short = facts(kind="compute", peer_use=0.0, throttle_excess=0.1, delay_excess=0.02)
    assert cause_of(short, Policy()).name == "unknown"


def test_a_busy_rank_is_not_starved_because_it_is_delayed_too() -> None:
    busy = facts(kind="compute", on_excess=0.05, throttle_excess=0.2, delay_excess=0.06)
    assert cause_of(busy, Policy()).name == "load_imbalance"
