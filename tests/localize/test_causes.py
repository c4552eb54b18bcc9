"""The table of causes: a row for each cause, a rule for each that can be shown, and what the rules say."""

from __future__ import annotations

import math
from typing import Any

import pytest

from eroica_otel import names
from eroica_otel.localize.causes import BY_NAME, REFINABLE, TABLE, Facts, cause_of, refined
from eroica_otel.localize.policy import Policy
from eroica_otel.localize.signs import Signs

DECIDED_ELSEWHERE = {"pipeline_imbalance", "hang_missing_rank", "hang_in_python"}
"""By the stages of a pipeline, and by the table for windows in which nothing moves."""


def facts(**changes: Any) -> Facts:
    """Return 60 ms above the peers in a 200 ms iteration, none of it on the CPU."""
    return Facts(**{"iteration": 0.2, "excess": 0.06, "on_excess": 0.0, "peer_use": 0.0} | changes)


def test_every_cause_of_the_contract_has_one_row() -> None:
    assert sorted(row.name for row in TABLE) == sorted(names.CAUSES)
    assert len(BY_NAME) == len(TABLE)


def test_every_cause_can_be_shown() -> None:
    assert {row.name for row in TABLE if row.rule is None and row.sign is None} == DECIDED_ELSEWHERE


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.name)
def test_every_row_says_whose_it_is_and_what_to_do(row: Any) -> None:
    assert row.domain in ("hardware", "code", "data")
    assert len(row.advice) > 20
    assert len(row.evidence) > 10
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


SLOWER = {"resource": "sm_clock", "use": 0.6, "use_others": 0.9, "others": 0.1, "excess": 0.05}
COPY = {"kind": "memory", "others": 0.010, "excess": 0.040, "use": 0.18, "use_others": 0.9}
LINK = {"kind": "communication", "everyone": True, "others": 0.05, "excess": 0.1, "resource": "nic",
        "use": 0.3, "use_others": 0.9, "unsteady": 0.03, "unsteady_others": 0.02}  # fmt: skip
GROUP = {"kind": "communication", "others": 0.02, "excess": 0.02, "use": 0.4, "use_others": 0.8}
BY_CPU = {"kind": "compute", "resource": "cpu", "on_share": 0.1, "others": 0.05}


def signs(**given: Any) -> Signs:
    return Signs(**given)


@pytest.mark.parametrize(
    ("expected", "given"),
    [
        ("checkpoint_stall", signs(kind="python", pause="save")),
        ("recompilation", signs(kind="python", pause="compilation")),
        ("recompilation", signs(kind="host", family="capture")),
        ("allocator_churn", signs(kind="host", family="alloc")),
        ("host_sync", signs(kind="host", family="sync", everyone=True)),
        ("unknown", signs(kind="host", family="sync")),  # how a victim waits
        ("gpu_throttled", signs(kind="compute", **SLOWER)),
        ("gpu_throttled", signs(kind="compute", **SLOWER, host={"gpu_power_cap": 0.9}, slowdown=0.9)),
        ("gpu_power_capped", signs(kind="compute", **SLOWER, host={"gpu_power_cap": 0.9}, slowdown=0.0)),
        ("unknown", signs(kind="compute", **SLOWER, slowdown=0.0)),  # somebody set it so
        ("unknown", signs(kind="compute", **SLOWER | {"use": 0.86})),  # a clock that hardly differs
        ("unknown", signs(kind="compute", **SLOWER | {"excess": 0.2})),  # a quarter is explained
        ("unknown", signs(kind="compute", **SLOWER | {"use_others": math.nan})),
        ("gpu_memory_slow", signs(**COPY, resource="dram")),
        ("pcie_degraded", signs(**COPY, resource="pcie")),
        ("unknown", signs(**COPY | {"use": 0.85}, resource="pcie")),  # four times the bytes
        ("unknown", signs(**COPY | {"use": 0.05}, resource="pcie")),  # a quarter of the bytes: no link does that
        ("memory_pressure", signs(**BY_CPU, host={"major_faults": 50.0})),
        ("unknown", signs(**BY_CPU | {"on_share": 0.9}, host={"major_faults": 50.0})),
        ("unknown", signs(**BY_CPU | {"resource": "sm_clock"}, host={"major_faults": 50.0})),
        ("numa_misplaced", signs(kind="python", on_share=0.9, others=0.05, host={"numa_away": 0.3})),
        ("unknown", signs(kind="python", on_share=0.1, others=0.05, host={"numa_away": 0.3})),
        ("unknown", signs(kind="python", on_share=0.9, others=0.0, host={"numa_away": 0.3})),  # nobody else runs it
        ("unknown", signs(**BY_CPU | {"others": 0.0}, host={"major_faults": 50.0})),
        ("unknown", signs(**BY_CPU | {"others": 0.0}, everyone=True, host={"process_cpu": 0.95})),
        ("storage_slow", signs(kind="python", family="input", on_share=0.1, storage=True)),
        ("storage_slow", signs(kind="python", family="loader", on_share=0.1, host={"process_disk_read": 1e8})),
        ("storage_slow", signs(kind="python", family="input", on_share=0.1, host={"major_faults": 50.0})),
        ("unknown", signs(kind="python", family="input", on_share=0.9, storage=True)),  # decoding, not reading
        ("unknown", signs(kind="python", family="input", on_share=math.nan, storage=True)),
        ("cpu_starved", signs(kind="python", family="loader", throttled=0.3, host={"cgroup_cpu": 1.0})),
        ("unknown", signs(kind="python", family="loader", throttled=0.0, host={"cgroup_cpu": 1.0})),
        ("cpu_contention", signs(**BY_CPU, everyone=True, host={"process_cpu": 0.95})),
        ("unknown", signs(**BY_CPU, host={"process_cpu": 0.95})),  # one busy rank among ranks that wait
        ("load_imbalance", signs(kind="compute", family="gemm", resource="sm_clock", use=0.9, use_others=0.92)),
        ("unknown", signs(kind="compute", family="elementwise", resource="sm_clock", use=0.9, use_others=0.9)),
        ("unknown", signs(kind="compute", family="gemm", use=0.9, use_others=0.9)),
        ("network_congestion", signs(**LINK | {"unsteady": 0.2}, peak=0.5, peak_others=0.9)),
        ("collective_inefficient", signs(**LINK)),
        ("link_flapping", signs(kind="communication", host={"link_down": 0.1})),
        ("nvlink_degraded", signs(**GROUP, resource="nvlink")),
        ("pcie_degraded", signs(**GROUP, resource="pcie")),
        ("collective_inefficient", signs(**GROUP, resource="nic")),
        ("unknown", signs(**GROUP)),
        ("unknown", signs(**LINK | {"unsteady": 0.2}, peak=0.88, peak_others=0.9)),  # full speed now and then
        ("unknown", signs(**LINK | {"use": 0.88})),  # waits, and transfers as fast as ever
    ],
)
def test_signs(expected: str, given: Signs) -> None:
    assert refined(BY_NAME["unknown"], given, Policy()).name == expected


def test_each_sign_has_a_case_above() -> None:
    cases = {expected for expected, _ in test_signs.pytestmark[0].args[1]}  # type: ignore[attr-defined]
    assert cases - {"unknown"} == {row.name for row in TABLE if row.sign is not None}


@pytest.mark.parametrize("proven", sorted(set(BY_NAME) - REFINABLE))
def test_what_is_proven_is_not_changed_by_signs(proven: str) -> None:
    assert refined(BY_NAME[proven], signs(kind="python", pause="save"), Policy()).name == proven


def test_throttling_of_less_than_half_the_excess_does_not_explain_it() -> None:
    short = facts(kind="compute", peer_use=0.0, throttle_excess=0.1, delay_excess=0.02)
    assert cause_of(short, Policy()).name == "unknown"


def test_a_busy_rank_is_not_starved_because_it_is_delayed_too() -> None:
    busy = facts(kind="compute", on_excess=0.05, throttle_excess=0.2, delay_excess=0.06)
    assert cause_of(busy, Policy()).name == "load_imbalance"
