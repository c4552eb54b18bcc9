"""Workers whose real export runs inside the test: board, instruments, outlet, as in the helper process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from eroica_otel.config import WorkerConfig
from eroica_otel.demo.stage import free_port
from eroica_otel.export.board import Board
from eroica_otel.export.instruments import create
from eroica_otel.export.outlet import Outlet
from eroica_otel.export.points import window_points
from eroica_otel.model import WorkerWindow
from factories_central import identity, status_points


class ExportingWorker:
    """One worker; what it shows is on its page and goes to where it pushes."""

    def __init__(self, rank: int, exporters: str = "prometheus", remote_write: str = "") -> None:
        self.who = identity(rank)
        self.port = free_port()
        self.problems: list[str] = []
        self._board = Board()
        environment = {
            "OTEL_METRICS_EXPORTER": exporters,
            "OTEL_EXPORTER_PROMETHEUS_HOST": "127.0.0.1",
            "OTEL_EXPORTER_PROMETHEUS_PORT": str(self.port),
            "OTEL_METRIC_EXPORT_INTERVAL": "1000",
        }
        config = replace(WorkerConfig(), remote_write_url=remote_write)
        # The page is on the base port + local rank; each worker has a base of its own here.
        served = replace(self.who, local_rank=0)
        self._outlet = Outlet(environment, served, 4000 + rank, lambda _, why: self.problems.append(why), config)
        create(self._outlet.meter(), self._board)
        self.stand("healthy")
        self._outlet.start()

    def stand(self, state: str, iterations: float = 600.0) -> None:
        self._board.stand(status_points(self.who, state, iterations=iterations))

    def show(self, window: WorkerWindow, state: str = "degraded") -> None:
        """Show a window, and push where it pushes; its identity becomes that of this worker."""
        self.stand(state)
        self._board.show(window_points(replace(window, identity=self.who)))
        self._outlet.push_now()

    def stop(self) -> None:
        self._outlet.stop(5)


@contextmanager
def exporting(
    size: int = 4, exporters: str = "prometheus", remote_write: str = ""
) -> Iterator[Sequence[ExportingWorker]]:
    """Run the exports of ``size`` workers; at the end none of them may have had a problem."""
    workers: list[ExportingWorker] = []
    try:
        for rank in range(size):
            workers.append(ExportingWorker(rank, exporters, remote_write))
        yield workers
    finally:
        for worker in workers:
            worker.stop()
    assert [problem for worker in workers for problem in worker.problems] == []
