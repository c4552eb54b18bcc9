"""Frameworks and the rest of the loops of docs/support.md, with real trainings. ``make support`` runs this."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.judge import judge
from support.registry import CASES, OFTEN, Case
from support.results import keep
from support.table import Table

pytestmark = pytest.mark.frameworks


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Table]:
    mine = [item for item in request.session.items if item.path == request.path]
    with Table(tmp_path_factory.mktemp("frameworks"), mine) as running:
        yield running


@pytest.mark.parametrize("case", [case for case in CASES if case not in OFTEN], ids=lambda case: case.name)
def test_is_supported_as_the_page_says(case: Case, table: Table) -> None:
    outcome = table.outcome(case)
    if judge(case, outcome):
        outcome = table.again(case)
    complaints = judge(case, outcome)
    keep(case, complaints)
    assert complaints == [], outcome.log
