"""How the fault board judges what alerts say."""

from __future__ import annotations

from typing import Any

import pytest

from eroica_otel.demo.monitoring import Alert
from faultboard import board, case

VERDICT = board("verdict")


def named(rank: int | None = 1, alert: str = "EroicaWorkerSlowsJob", cause: str = "slow_input", **fields: Any) -> Any:
    return VERDICT.Named(alert, rank, **({"host": "node-0", "cause": cause, "function": "Remote.fetch (x)"} | fields))


def link(ends: str = "node-1-node-2", cause: str = "nic_degraded") -> Any:
    return named(None, "EroicaLinkSlowsJob", cause, link=ends)


def judged(names: list[Any], ranks: tuple[int, ...] = (1,), hosts: tuple[str, ...] = ("node-0",), **row: Any) -> Any:
    found = VERDICT.judge(case(**row), ranks, hosts, names)
    return found.worker, found.cause


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ([named()], (True, True)),
        ([], (False, False)),
        ([named(2)], (False, True)),
        ([named(), named(2)], (False, True)),  # a healthy worker beside the right one
        ([named(cause="python_blocked")], (True, False)),
        ([named(), named(cause="unknown")], (True, False)),
        ([named(function="augment (x)")], (True, False)),
        ([named(), named(None, "EroicaJobSlowedEverywhere")], (False, True)),
        ([named(alert="EroicaWorkerHangsJob")], (False, True)),
    ],
)
def test_a_worker_is_named_alone_with_cause_and_function(names: list[Any], expected: tuple[bool, bool]) -> None:
    assert judged(names, function="Remote.fetch") == expected


def test_where_several_are_hurt_all_of_them_have_to_be_named() -> None:
    assert judged([named(0), named(1)], ranks=(0, 1)) == (True, True)
    assert judged([named(0)], ranks=(0, 1)) == (False, True)


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ([link()], (True, True)),
        ([link("node-2-node-1")], (True, True)),
        ([link("node-2-node-3")], (False, True)),
        ([link(), link("node-2-node-3")], (False, True)),
        ([link("node-10-node-2")], (False, True)),
        ([link(cause="link_flapping")], (True, False)),
        ([named(1, cause="nic_degraded")], (True, True)),  # its end is settled
        ([named(2, cause="nic_degraded")], (False, True)),
        ([link(), named(2, cause="nic_degraded")], (False, True)),
        ([], (False, False)),
    ],
)
def test_a_link_is_right_when_it_ends_at_the_node_that_is_hurt(names: list[Any], expected: tuple[bool, bool]) -> None:
    row: dict[str, Any] = {"verdict": "link", "causes": frozenset({"nic_degraded"})}
    assert judged(names, hosts=("node-1",), **row) == expected


@pytest.mark.parametrize(
    ("verdict", "where", "names", "expected"),
    [
        ("job", "all", [named(None, "EroicaJobSlowedEverywhere")], (True, True)),
        ("job", "all", [named(0)], (False, True)),
        ("job", "all", [named(None, "EroicaJobSlowedEverywhere"), named(0)], (False, True)),
        ("hang", "one rank", [named(alert="EroicaWorkerHangsJob")], (True, True)),
        ("hang", "one rank", [named(None, "EroicaJobHangs")], (False, True)),
        ("hang", "one rank", [named()], (False, True)),
        ("hang", "all", [named(None, "EroicaJobHangs")], (True, True)),
        ("hang", "all", [named(0, "EroicaWorkerHangsJob")], (False, True)),
        ("silence", "none", [], (True, True)),
        ("silence", "one rank", [named()], (False, False)),
    ],
)
def test_each_kind_of_verdict_has_its_alert(
    verdict: str, where: str, names: list[Any], expected: tuple[bool, bool]
) -> None:
    assert judged(names, verdict=verdict, where=where) == expected


@pytest.mark.parametrize(("verdict", "healthy"), [("worker", (0, 2)), ("silence", (0, 1, 2))])
def test_healthy_workers_that_are_named_are_counted(verdict: str, healthy: tuple[int, ...]) -> None:
    found = VERDICT.judge(case(verdict=verdict), (1,), ("node-0",), [named(2), named(), named(0), link()])
    assert found.healthy == healthy


def alert(name: str, labels: dict[str, str]) -> Alert:
    said = {"cause": "slow_input", "function": "f (x)", "impact": "20% of every iteration"}
    return Alert(name, labels, said, 0.0)


def test_an_alert_that_comes_twice_as_its_severity_changes_is_one_culprit() -> None:
    labels = {"rank": "1", "host": "node-0"}
    same = [alert("EroicaWorkerSlowsJob", labels | {"severity": word}) for word in ("warning", "critical")]
    (one,) = VERDICT.named_of(same, [])
    assert (one.rank, one.host, one.cause) == (1, "node-0", "slow_input")
    assert one.words() == "rank 1: slow_input (f (x), 20% of every iteration)"


def test_the_ranks_of_a_role_and_the_ends_of_a_link_stand_in_the_series() -> None:
    series = [
        {"scope": "role", "role": "stage-1", "rank": "2"},
        {"scope": "role", "role": "stage-1", "rank": "3"},
        {"scope": "role", "role": "stage-0", "rank": "0"},
        {"scope": "link", "link": "node-1-node-2"},
    ]
    role = VERDICT.named_of([alert("EroicaRoleSlowsJob", {"role": "stage-1"})], series)
    assert [one.rank for one in role] == [2, 3]
    (edge,) = VERDICT.named_of([alert("EroicaLinkSlowsJob", {})], series)
    assert (edge.rank, edge.link) == (None, "node-1-node-2")
    assert edge.words().startswith("node-1-node-2: slow_input")
