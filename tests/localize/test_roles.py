"""Who is compared with whom."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from eroica_otel.localize.columns import columns_of
from eroica_otel.localize.policy import Policy
from eroica_otel.localize.roles import groups_of, peer_roles
from eroica_otel.table import Words
from eroica_otel.tabled import table_of
from factories_localize import Rank, Work, device, matmul, rank, window_of

EMBED = Work("embedding_bag", 80.0, None, "compute", "embedding")


def roles(ranks: Sequence[Rank]) -> tuple[str, ...]:
    columns = columns_of(table_of(window_of(ranks)), np.arange(len(ranks)))[0]
    return tuple(peer_roles(columns, Policy()))


def test_the_label_wins() -> None:
    ranks = [rank(base=(EMBED if at % 3 == 0 else matmul(),), role=f"pp{at // 2}") for at in range(4)]
    assert roles(ranks) == ("pp0", "pp0", "pp1", "pp1")


def test_other_families_of_compute_are_another_role() -> None:
    ranks = [rank(base=(EMBED,) if at < 2 else (matmul(),), role="") for at in range(6)]
    assert roles(ranks) == ("all", "all", "all-1", "all-1", "all-1", "all-1")


def test_more_work_of_the_same_families_is_the_same_role() -> None:
    ranks = [rank(base=(matmul(60.0 + 30 * at), device())) for at in range(4)]
    assert len(set(roles(ranks))) == 1


def test_python_and_waiting_make_no_role() -> None:
    ranks = [rank(Work("f (a.py:1)", 200.0, 200.0)) if at == 1 else rank() for at in range(4)]
    assert len(set(roles(ranks))) == 1


def test_a_small_part_of_another_family_makes_no_role() -> None:
    ranks = [
        rank(base=(matmul(90.0), *((Work("x", 10.0, None, "compute", "random"),) if at else ()))) for at in range(3)
    ]
    assert len(set(roles(ranks))) == 1


def test_a_set_of_one_has_no_peers_so_it_joins_the_largest() -> None:
    ranks = [rank(base=(EMBED,) if at == 2 else (matmul(),)) for at in range(5)]
    assert len(set(roles(ranks))) == 1


def test_more_sets_than_roles_can_be_are_no_roles() -> None:
    ranks = [rank(base=(Work("x", 90.0, None, "compute", f"family{at // 2}"),)) for at in range(200)]
    assert len(set(roles(ranks))) == 1


def test_groups_hold_the_workers_of_each_role_in_order() -> None:
    assert [group.tolist() for group in groups_of(Words.of(("b", "a", "b", "a")))] == [[1, 3], [0, 2]]
