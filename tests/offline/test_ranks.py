from __future__ import annotations

from typing import Any

import pytest

from eroica_otel.errors import ConfigError
from eroica_otel.model import WorkerWindow
from eroica_otel.offline.member import NOBODY, Member
from eroica_otel.offline.ranks import assign, check_given, fits, rank_of_name


def member(path: str = "a/rank0.json", **changes: Any) -> Member:
    values: dict[str, Any] = {
        "window": WorkerWindow(NOBODY, 0, "manual", 1.0, 10, ()),
        "rank": None, "world_size": None, "host": "", "job": "", "role": "",
        "steps": (), "marked": "steps", "groups": {}, "skipped": {}, "frames": (),
        "devices": (), "backend": "", "format": "kineto",
    }  # fmt: skip
    return Member(path=path, **values | changes)


@pytest.mark.parametrize(
    ("name", "rank"),
    [
        ("rank0.json", 0),
        ("rank-34.Jul_15_10_52_41.1074.pt.trace.json.gz", 34),
        ("sampled_rank-1.json.gz", 1),
        ("trace_rank_12.json", 12),
        ("worker3_step_12.1694128201557.pt.trace.json", 3),
        ("worker0.1623143089861.pt.trace.json.gz", 0),
        ("Rank7.json", 7),
        ("trace_5.json.gz", 5),
        ("trace.3.json", 3),
        ("0.json", 0),
        ("node.sqlite#2", None),
        ("profile.json", None),
        ("node-a_4711.1694128201557.pt.trace.json", None),
        ("resnet50.json", None),
        ("20231114221320.json", None),
        ("crank.json", None),
    ],
)
def test_the_rank_in_the_name_of_a_file(name: str, rank: int | None) -> None:
    assert rank_of_name(f"some.9/folder_8/{name}") == rank


def test_who_is_asked_first() -> None:
    members = [member("t/rank1.json", rank=4), member("t/rank2.json"), member("t/other.json", rank=6)]
    assigned = assign(members, {"t/other.json": 9})
    assert {rank: one.path for rank, one in assigned.members.items()} == {
        2: "t/rank2.json", 4: "t/rank1.json", 9: "t/other.json"
    }  # fmt: skip
    assert assigned.notes == ("t/rank1.json is of rank 4, as it says itself, whatever its name says",)
    assert assigned.problems == ()


def test_the_only_file_needs_no_rank_and_of_several_each_does() -> None:
    assert list(assign([member("profile.json")], {}).members) == [0]
    assert list(assign([member("profile_2023.json")], {}).members) == [0]
    assert list(assign([member("rank3.json")], {}).members) == [3]
    assigned = assign([member("t/profile.json"), member("t/rank1.json")], {})
    assert list(assigned.members) == [1]
    (problem,) = assigned.problems
    assert "neither the trace nor its name tells the rank; give --rank profile.json=N" in problem.text
    assert problem.usage


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (("step_100.json", "step_200.json"), "step_100.json as rank 100, step_200.json as rank 200"),
        (("t_2024-06-01.json", "t_2024-06-02.json"), "t_2024-06-01.json as rank 1, t_2024-06-02.json as rank 2"),
        (("t.1.json", "t.2.json", "t.4.json", "t.5.json"), "t.1.json as rank 1, t.2.json as rank 2, "
                                                           "t.4.json as rank 4 and 1 more"),
        (("trace_0.json", "trace_1.json"), ""),
        (("rank3.json", "rank5.json"), ""),
        (("step_100.json",), ""),
    ],
    ids=str,
)  # fmt: skip
def test_a_rank_that_is_but_a_number_is_told_unless_all_count_from_0(names: tuple[str, ...], told: str) -> None:
    said = (f"ranks by the last number in the name: {told}; give --rank FILE=N where it is none",) if told else ()
    assert assign([member(f"t/{name}") for name in names], {}).notes == said


def test_what_the_trace_or_a_person_says_is_no_guess() -> None:
    members = [member("t/step_100.json", rank=4), member("t/step_200.json")]
    assert assign(members, {"t/step_200.json": 9}).notes == ()


def test_of_two_files_that_claim_one_rank_none_is_used_and_the_others_are() -> None:
    assigned = assign([member("a/rank3.json"), member("b/rank3.json"), member("a/rank4.json")], {})
    assert list(assigned.members) == [4]
    (problem,) = assigned.problems
    assert "rank 3 is claimed by 2 files, so none of them is used: a/rank3.json, b/rank3.json" in problem.text
    assert "--rank rank3.json=N" in problem.text


def test_a_file_is_meant_by_its_path_or_the_end_of_it() -> None:
    assert fits("a/b/c.json", "c.json")
    assert fits("a/b/c.json", "b/c.json")
    assert fits("a/b/c.json", "a/b/c.json")
    assert not fits("a/b/xc.json", "c.json")
    assert check_given({"b/c.json": 3}, ["a/b/c.json", "a/d/c.json"]) == {"a/b/c.json": 3}


@pytest.mark.parametrize(
    ("name", "why"),
    [("d.json", "fits none of the files"), ("c.json", "fits 2 files (a/c.json, b/c.json); give more of the path")],
)
def test_a_name_that_means_no_file_or_several_is_refused(name: str, why: str) -> None:
    with pytest.raises(ConfigError, match=r"--rank [cd]\.json=1 ") as caught:
        check_given({name: 1}, ["a/c.json", "b/c.json"])
    assert why in str(caught.value)
