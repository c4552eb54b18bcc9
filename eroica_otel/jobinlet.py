"""What comes in from the sources: deliveries, windows and tables; to the store and, where nobody has it, to disk."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from eroica_otel import names
from eroica_otel.model import Point, WorkerWindow
from eroica_otel.query.otlp import Delivery
from eroica_otel.query.store import JobKey, Store
from eroica_otel.table import Table


@dataclass(frozen=True, slots=True)
class Inlet:
    """Where sources hand over what they have.

    Attributes:
        store: Takes all of it.
        admit: Raises QueryError for points that are not let in.
        journal: Takes windows that a restart would not find again.
        news: Called when there is a window to look at.
        clock: Monotonic seconds.
    """

    store: Store
    admit: Callable[[Iterable[Point]], None]
    journal: Callable[[WorkerWindow], object]
    news: Callable[[], None]
    clock: Callable[[], float]

    def delivery(self, delivery: Delivery) -> None:
        """Take what one worker sent.

        Raises:
            QueryError: it is refused.
        """
        self.admit(delivery.points)
        self._note(self.store.add(delivery, self.clock()))

    def window(self, window: WorkerWindow) -> None:
        """Take a worker's window out of a file; whether the worker lives it does not tell.

        Raises:
            QueryError: it is refused.
        """
        self._admit_window(window.window_id)
        self._note(self.store.restore(window, self.clock()))

    def table(self, key: JobKey, table: Table) -> None:
        """Take a window of a large job; the journal does not keep it, whoever reads it can read it again.

        Raises:
            QueryError: it is refused.
        """
        for window_id in table.workers.window_id[:1].tolist():
            self._admit_window(window_id)
        if self.store.add_table(key, table, self.clock()):
            self.news()

    def _admit_window(self, window_id: int) -> None:
        self.admit([Point(names.WINDOW_ID.name, {}, float(window_id))])

    def _note(self, window: WorkerWindow | None) -> None:
        if window is not None:
            self.journal(window)
            self.news()
