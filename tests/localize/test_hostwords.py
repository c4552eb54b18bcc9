"""What a finding says of a culprit's host: only what is out of the ordinary, beside what its peers have."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from eroica_otel.localize.verdict import judge
from factories_localize import blocked_input, rank, window_of


def said(mine: Mapping[str, float], theirs: Mapping[str, float]) -> str:
    """Return the evidence of rank 1, which waits for its input, of four."""
    ranks = [rank(blocked_input(), host_use=mine) if at == 1 else rank(host_use=theirs) for at in range(4)]
    (finding,) = judge(window_of(ranks), (), expected=4).findings
    assert finding.ranks == (1,)
    return "; ".join(finding.evidence)


@pytest.mark.parametrize(
    ("mine", "theirs", "text"),
    [
        (
            {"major_faults": 120.0},
            {"major_faults": 1.0},
            "waits for memory from disk: 120 major page faults a second, its peers 1",
        ),
        ({"cgroup_memory": 0.98}, {"cgroup_memory": 0.9}, "uses 98 % of its memory limit, its peers 90 %"),
        ({"cgroup_memory": 0.98}, {}, "uses 98 % of its memory limit"),
        ({"numa_away": 0.4}, {"numa_away": 0.0}, "runs on another NUMA node than usual for 40 % of the time"),
        ({"process_disk_read": 8e7}, {"process_disk_read": 0.0}, "reads 80 MB/s from disks, its peers 0 MB/s"),
    ],
)
def test_what_is_out_of_the_ordinary_is_said(mine: dict[str, float], theirs: dict[str, float], text: str) -> None:
    assert text in said(mine, theirs)


@pytest.mark.parametrize(
    ("mine", "theirs"),
    [
        ({"major_faults": 9.0}, {"major_faults": 0.0}),
        ({"major_faults": 120.0}, {"major_faults": 70.0}),
        ({"cgroup_memory": 0.98}, {"cgroup_memory": 0.97}),
        ({}, {"major_faults": 200.0}),
        ({"process_cpu": 1.0, "minor_faults": 1e6}, {}),
    ],
    ids=["little", "peers too", "all near the limit", "not known", "no sign of anything"],
)
def test_what_is_ordinary_is_not(mine: dict[str, float], theirs: dict[str, float]) -> None:
    assert said(mine, theirs) == said({}, {})
