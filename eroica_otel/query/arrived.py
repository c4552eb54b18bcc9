"""One window of a job as it stands in the store: from some workers as objects, from others as tables."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass

from eroica_otel.model import WorkerWindow
from eroica_otel.table import Table


@dataclass(frozen=True, slots=True)
class Arrived:
    """One window of a job: what came, when the first and the latest of it came, and the ids that are one hang.

    Attributes:
        tables: What came as tables, of ranks that are not in ``windows``.
    """

    window_id: int
    windows: Mapping[int, WorkerWindow]
    first: float
    latest: float
    ids: frozenset[int]
    tables: tuple[Table, ...] = ()

    @property
    def ranks(self) -> Set[int]:
        """Who reported it."""
        return self.windows.keys() | {rank for table in self.tables for rank in table.workers.rank.tolist()}

    @property
    def reason(self) -> str:
        """Why it was taken, as the first who reported it says."""
        first = next(iter(self.windows.values()), None)
        return first.reason if first is not None else self.tables[0].workers.reason[0]

    @property
    def world_size(self) -> int:
        """Largest number of workers that one of them knows of, 0 without any."""
        inside = [window.identity.world_size for window in self.windows.values()]
        return max([*inside, *(int(table.workers.world_size.max()) for table in self.tables)], default=0)

    @property
    def named(self) -> int:
        """Its id to others: the largest, so that two who hear of a hang's windows in another order say the same."""
        return max(self.ids)
