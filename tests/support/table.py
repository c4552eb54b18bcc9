"""The cases that pytest has selected, run side by side: their trainings sleep more than they compute."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import closing
from pathlib import Path
from typing import Any

from support.launch import Bench, Outcome
from support.registry import Case

SIDE_BY_SIDE = 3


class Table:
    """Starts every selected case in order; ``outcome`` waits for one. Those not begun at the end are left out."""

    def __init__(self, folder: Path, items: Iterable[Any]) -> None:
        cases = [item.callspec.params["case"] for item in items if _is_case(item)]
        self._folder, self._bench = folder, Bench(folder)
        self._pool = ThreadPoolExecutor(SIDE_BY_SIDE)
        self._running: dict[str, Future[Outcome]] = {
            case.name: self._pool.submit(self._bench.run, case) for case in cases
        }

    def outcome(self, case: Case) -> Outcome:
        return self._running[case.name].result()

    def again(self, case: Case) -> Outcome:
        """Run a case once more, alone: side by side on few cores one may take another's time from the window."""
        wait(self._running.values())
        folder = self._folder / "again" / case.name
        folder.mkdir(parents=True)
        with closing(Bench(folder)) as bench:
            return bench.run(case)

    def __enter__(self) -> Table:
        return self

    def __exit__(self, *_: Any) -> None:
        self._pool.shutdown(cancel_futures=True)
        self._bench.close()


def _is_case(item: Any) -> bool:
    return isinstance(getattr(getattr(item, "callspec", None), "params", {}).get("case"), Case)
