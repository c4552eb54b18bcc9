"""Eight cases of the fault board, from the fault to the alert, two at a time: each kind of verdict and evidence."""

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


def played(name: str, folder: Path) -> Any:
    return PLAY.play(ROWS[name], ROWS[name].draw(SEED), folder)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Future[Any]]]:
    """All of them, begun in order."""
    folder = tmp_path_factory.mktemp("board")
    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        yield {name: pool.submit(played, name, folder / name) for name in TABLE.FEW}
        pool.shutdown(cancel_futures=True)


@pytest.mark.parametrize("name", TABLE.FEW)
def test_the_verdict_is_right(name: str, running: dict[str, Future[Any]], tmp_path: Path) -> None:
    seen = running[name].result()
    if not seen.verdict.right or seen.error:  # two boards on few cores may take time from one another: again, alone
        for other in running.values():
            other.exception()
        seen = played(name, tmp_path)
    assert (seen.verdict.worker, seen.verdict.cause, seen.error) == (True, True, ""), seen.verdict.named
