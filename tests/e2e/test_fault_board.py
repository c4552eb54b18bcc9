"""Eight cases of the fault board, from the fault to the alert, two at a time: each kind of verdict and evidence.

Each takes two minutes, so that CI, which has 25 in all, runs the first two; the others are ``long``.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from faultboard import board

PLAY = board("play")
TABLE = board("table.every")
ROWS = {row.name: row for row in TABLE.CASES}
SIDE_BY_SIDE = 2
SEED = 1
IN_CI = ("python", "clean-1")
NAMES = [pytest.param(name, marks=[] if name in IN_CI else pytest.mark.long) for name in TABLE.FEW]


def played(name: str, folder: Path) -> Any:
    return PLAY.play(ROWS[name], ROWS[name].draw(SEED), folder)


@pytest.fixture(scope="module")
def running(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Future[Any]]]:
    """Those that are selected, begun in order."""
    folder = tmp_path_factory.mktemp("board")
    here = [item for item in request.session.items if item.path == request.path and isinstance(item, pytest.Function)]
    names = [str(item.callspec.params["name"]) for item in here]
    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        yield {name: pool.submit(played, name, folder / name) for name in names}
        pool.shutdown(cancel_futures=True)


@pytest.mark.parametrize("name", NAMES)
def test_the_verdict_is_right(name: str, running: dict[str, Future[Any]], tmp_path: Path) -> None:
    seen = running[name].result()
    if not seen.verdict.right or seen.error:  # two boards on few cores may take time from one another: again, alone
        for other in running.values():
            other.exception()
        seen = played(name, tmp_path)
    assert (seen.verdict.worker, seen.verdict.cause, seen.error) == (True, True, ""), seen.verdict.named
