"""A training over two nodes, which are network namespaces: one torchrun on each, two ranks each."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from eroica_otel.commands.window import request
from eroica_otel.demo.nodes import Node, workers_of
from eroica_otel.demo.stage import free_port
from eroica_otel.status import Status
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
        irregular: File with the rank that cannot learn its loop for as long as this exists.
    """

    def __init__(self, places: list[Node], folder: Path, fewest: int = 1, *, shared: bool = False) -> None:
        """Args: fewest: Nodes with which the job begins. shared: The launchers' own store is the job's, too.

        Shared is what torchrun does unless it is told otherwise; then what the ranks of an earlier attempt left stays
        there, the plugin's keys too. Else the store is rank 0's, and new with each attempt.
        """
        self.nodes = places
        self._fewest, self._own = fewest, {} if shared else {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
        # Whoever comes too late to a shared store cannot join at all (test_nodes_shared_store.py).
        self._patience = 30 if shared else 5
        self.stop, self.irregular = folder / "stop", folder / "irregular"
        self.log = folder / "log"
        self._port = free_port()

    def start(self, node: Node) -> None:
        """Start the launcher on a node; the job begins when enough are there, and takes others in."""
        endpoint = f"{self.nodes[0].address}:{self._port}"
        meeting = ["--rdzv-backend", "c10d", "--rdzv-endpoint", endpoint, "--rdzv-id", JOB]
        meeting += ["--rdzv-conf", f"last_call_timeout={self._patience}", "--local-addr", node.address]
        launcher = [
            "-m",
            "torch.distributed.run",
            "--nnodes",
            f"{self._fewest}:{len(self.nodes)}",
            "--nproc-per-node",
            "2",
        ]
        script = [str(SCRIPT), "--stop", str(self.stop), "--irregular", str(self.irregular)]
        script += [] if self._own else ["--meeting", endpoint]
        node.start(
            [sys.executable, *launcher, *meeting, "--max-restarts", "20", *script],
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

    def leave(self, node: Node) -> None:
        """Let a node vanish with all that runs on it; ``start`` brings it back."""
        node.end()
        node.processes.clear()

    def workers(self) -> list[Status]:
        """Return what the ranks say of themselves, by rank."""
        return workers_of(self.nodes)

    def until(self, reached: Callable[[list[Status]], bool], what: str, ranks: int = RANKS) -> None:
        """Wait until all ranks are there and ``reached``."""
        try:
            wait_until(lambda: len(workers := self.workers()) == ranks and reached(workers), what, PATIENCE_SECONDS)
        except AssertionError as error:
            said = "\n".join(self.log.read_text(errors="replace").splitlines()[-60:])
            known = "\n".join(str(worker) for worker in self.workers())
            raise AssertionError(f"{error}\n{known}\n{said}") from None


def anew(cluster: Cluster, before: list[Status], what: str, ranks: int = RANKS) -> list[Status]:
    """Wait for the reference window of ``ranks`` ranks of which none is among those ``before``; return them."""
    old, last = {worker.pid for worker in before}, max(worker.window_id for worker in before)
    # A newer one, agreed on by these ranks: not what lies in the store from the attempt before.
    cluster.until(lambda now: not old & {worker.pid for worker in now} and same_window(now, last), what, ranks)
    workers = cluster.workers()
    assert {worker.identity.world_size for worker in workers} == {ranks}
    return workers


def asked_for(cluster: Cluster, node: Node) -> list[Status]:
    """Ask for a window on ``node``; wait until all ranks have taken it, and return them."""
    before = cluster.workers()
    request(node.folder, JOB)
    taken = f"the window that was asked for on {node.host}"
    cluster.until(lambda now: same_window(now, before[0].window_id), taken, len(before))
    return cluster.workers()


def same_window(workers: list[Status], after: int = 0) -> bool:
    """Return whether all ranks have captured one window as their latest, newer than ``after``.

    A rank that was late for one, on a busy machine, brings another.
    """
    return len({worker.window_id for worker in workers}) == 1 and workers[0].window_id > after
