"""What a seed draws of a row, and which seeds count."""

from __future__ import annotations

from typing import Any

import pytest

from faultboard import board, case

CASE = board("case")


@pytest.mark.parametrize(
    ("where", "count"),
    [("one rank", 1), ("two ranks", 2), ("half", 3), ("all", 6), ("rotating", 6), ("none", 0)],
)
def test_so_many_ranks_are_hurt(where: str, count: int) -> None:
    row = case(where=where, nodes=2, ranks=3)
    for seed in range(20):
        ranks = row.draw(seed).ranks
        assert len(set(ranks)) == count
        assert set(ranks) <= set(range(6))


@pytest.mark.parametrize("where", ["one node", "role"])
def test_a_node_is_hurt_with_all_its_ranks(where: str) -> None:
    drawn = {case(where=where, nodes=3, ranks=2).draw(seed).ranks for seed in range(50)}
    assert drawn == {(0, 1), (2, 3), (4, 5)}


def test_rank_0_is_hurt_where_it_has_to_be() -> None:
    assert {case(where="rank 0").draw(seed).ranks for seed in range(10)} == {(0,)}


def test_every_rank_is_drawn_and_the_size_lies_within_a_fifth() -> None:
    drawn = [case().draw(seed) for seed in range(200)]
    assert {one.ranks for one in drawn} == {(0,), (1,), (2,), (3,)}
    sizes = [one.size for one in drawn]
    assert 56.0 <= min(sizes) < 58.0
    assert 82.0 < max(sizes) <= 84.0
    assert {one.delay_iterations for one in drawn} == set(range(21))


def test_a_seed_draws_the_same_again_and_each_row_its_own() -> None:
    assert case("a").draw(7) == case("a").draw(7)
    assert len({case(name).draw(7).size for name in "abcdefgh"}) == 8


def test_the_seeds_that_count_follow_from_the_id_and_are_none_for_tuning() -> None:
    assert case("a").seeds(3) == case("a", what="else", size=5.0).seeds(3)
    assert case("a").seeds(3)[:1] == case("a").seeds()
    found = {seed for number in range(300) for seed in case(f"case-{number}").seeds(3)}
    assert min(found) > max(CASE.TUNING_SEEDS)
    assert len(found) > 890  # of a million, 900 are nearly all different


def test_thirty_cases_get_three_seeds_whatever_their_order() -> None:
    names = [f"case-{number}" for number in range(100)]
    drawn = CASE.thrice(names)
    assert len(drawn) == 30
    assert drawn == CASE.thrice(reversed(names))
    assert drawn - {"case-5"} <= CASE.thrice(name for name in names if name != "case-5")


@pytest.mark.parametrize(("fields", "text"), [({}, "batches come 70 ms late"), ({"what": "nothing"}, "nothing")])
def test_the_page_says_the_nominal_size(fields: dict[str, Any], text: str) -> None:
    assert case(**fields).text == text
