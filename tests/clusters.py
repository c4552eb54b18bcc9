"""A training over two nodes, which are network namespaces: one torchrun on each, two ranks each."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from eroica_otel.demo.nodes import Node
from eroica_otel.demo.stage import free_port
from eroica_otel.status import Status, live_workers
from jobs import wait_until

JOB = "cluster"
RANKS = 4
PATIENCE_SECONDS = 180.0
SCRIPT = Path(__file__).parent / "e2e" / "cluster.py"


class Cluster:
    """A training over two nodes.

    Attributes:
        log: What launchers and ranks write.
        stop: File that ends all ranks at the iteration it holds.
    """

    def __init__(self, places: list[Node], folder: Path, fewest: int = 1, *, shared: bool = False) -> None:
        """Args: fewest: Nodes with which the job begins. shared: The launchers' own store is the job's, too.

        Shared is what torchrun does unless it is told otherwise; then torch finds what the ranks of an earlier attempt
        left, and cannot restart. Else the store is rank 0's, and new with each attempt.
        """
        self.nodes = places
        self._fewest, self._own = fewest, {} if shared else {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
        self.stop = folder / "stop"
        self.log = folder / "log"
        self._port = free_port()

    def start(self, node: Node) -> None:
        """Start the launcher on a node; the job begins when enough are there, and takes others in."""
        meeting = ["--rdzv-backend", "c10d", "--rdzv-endpoint", f"{self.nodes[0].address}:{self._port}"]
        meeting += ["--rdzv-id", JOB, "--rdzv-conf", "last_call_timeout=5", "--local-addr", node.address]
        launcher = [
            "-m",
            "torch.distributed.run",
            "--nnodes",
            f"{self._fewest}:{len(self.nodes)}",
            "--nproc-per-node",
            "2",
        ]
        node.start(
            [sys.executable, *launcher, *meeting, "--max-restarts", "20", str(SCRIPT), "--stop", str(self.stop)],
            {
                "EROICA_TRAINING_JOB": JOB,
                "EROICA_WINDOW_SECONDS": "2",
                "EROICA_RECENT_ITERATIONS": "20",
                "OTEL_METRICS_EXPORTER": "none",
                "OMP_NUM_THREADS": "1",
                "PYTHONUNBUFFERED": "1",
                **self._own,
            },
            self.log,
        )

    def workers(self) -> list[Status]:
        """Return what the ranks say of themselves, by rank."""
        found = [status for node in self.nodes for _, status in live_workers(node.folder)]
        return sorted(found, key=lambda status: status.identity.rank)

    def until(self, reached: Callable[[list[Status]], bool], what: str, ranks: int = RANKS) -> None:
        """Wait until all ranks are there and ``reached``."""
        try:
            wait_until(lambda: len(workers := self.workers()) == ranks and reached(workers), what, PATIENCE_SECONDS)
        except AssertionError as error:
            said = "\n".join(self.log.read_text(errors="replace").splitlines()[-60:])
            known = "\n".join(str(worker) for worker in self.workers())
            raise AssertionError(f"{error}\n{known}\n{said}") from None


def same_window(workers: list[Status], after: int = 0) -> bool:
    """Return whether all ranks have captured one window as their latest, newer than ``after``.

    A rank that was late for one, on a busy machine, brings another.
    """
    return len({worker.window_id for worker in workers}) == 1 and workers[0].window_id > after
