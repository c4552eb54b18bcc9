"""Launchers and loops of docs/support.md, with real trainings; the frameworks and the rest of the loops are in
test_support_frameworks.py.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.judge import judge
from support.registry import OFTEN, Case
from support.results import keep
from support.table import Table


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Table]:
    mine = [item for item in request.session.items if item.path == request.path]
    with Table(tmp_path_factory.mktemp("support"), mine) as running:
        yield running


@pytest.mark.parametrize("case", OFTEN, ids=lambda case: case.name)
def test_is_supported_as_the_page_says(case: Case, table: Table) -> None:
    outcome = table.outcome(case)
    if judge(case, outcome):
        outcome = table.again(case)
    complaints = judge(case, outcome)
    keep(case, complaints)
    assert complaints == [], outcome.log
