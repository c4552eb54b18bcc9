"""One training of the board on its nodes, and what a fault can do to it; watched.py puts Prometheus around it.

Ranks meet, say that they are ready, are taken into cgroups of their own, and begin when the board lets them go.
"""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bench.faults import capabilities, leftovers, uplink
from bench.faults.case import HANG, Case, Drawn
from bench.faults.cgroups import RankGroup
from bench.faults.servers import Server, Throttle
from bench.repeat_demo import Machine
from eroica_otel.commands.window import request
from eroica_otel.demo.ending import die_with_parent
from eroica_otel.demo.nodes import MEGABITS, Node, nodes
from eroica_otel.errors import EroicaError

if TYPE_CHECKING:
    from typing_extensions import Self  # typing has it from Python 3.11

JOB = "board"
ROOT = Path(__file__).resolve().parents[2]
READY_SECONDS = 600.0
"""A machine that others use takes minutes to import torch eight times."""
END_SECONDS = 20.0
LOOK_SECONDS = 0.5
STAMP = struct.Struct("<d")


class Board:
    """A context in which a case's training runs.

    Args:
        environment: More variables of the training.

    Attributes:
        case, drawn: What is run, and what its seed has drawn.
        nodes: The nodes.
        folder: Logs and control files.
        machine: What others used of the machine meanwhile.
        cores: Numbers of the cores that the board may use.
    """

    def __init__(self, case: Case, drawn: Drawn, folder: Path, environment: dict[str, str] | None = None) -> None:
        self.case, self.drawn, self.folder = case, drawn, folder.absolute()
        self.machine = Machine(str(self.folder), os.getpid())
        self.cores = tuple(sorted(os.sched_getaffinity(0)))
        self._more = environment or {}
        self._control = self.folder / "control"
        self._undo = ExitStack()
        self._ready: list[dict[str, Any]] = []
        self._groups: list[RankGroup] = []
        self._launchers: list[subprocess.Popen[bytes]] = []

    @property
    def world(self) -> int:
        """Ranks of all nodes."""
        return self.case.world

    def __enter__(self) -> Self:
        (self._control / "orders").mkdir(parents=True)
        os.environ[leftovers.VARIABLE] = leftovers.mark()  # of all that is started from here on
        try:
            self._start()
        except BaseException:
            self._undo.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._undo.close()

    def _start(self) -> None:
        self.nodes: list[Node] = self._undo.enter_context(nodes(self.case.nodes, self.folder))
        self._servers = {kind: Server(kind, self.nodes[0].gateway) for kind in ("samples", "objects")}
        for server in self._servers.values():
            self._undo.callback(server.close)
        self.start_watching()
        for number, node in enumerate(self.nodes):
            log = self.folder / f"node-{number}.log"
            self._launchers.append(node.start(self._training(node), self._environment(number), log))

    def start_watching(self) -> None:
        """Start what watches the training; here it is nothing."""

    def start(self, command: Sequence[str], name: str = "beside") -> subprocess.Popen[bytes]:
        """Start a process on this machine that ends with the board, if not before."""
        with (self.folder / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=die_with_parent
            )
        self._undo.callback(_end, process)
        return process

    def _training(self, node: Node) -> list[str]:
        case, first = self.case, self.nodes[0].address
        launcher = ["-m", "torch.distributed.run", "--nnodes", str(case.nodes), "--nproc-per-node", str(case.ranks)]
        meeting = ["--rdzv-backend", "c10d", "--rdzv-endpoint", f"{first}:29500", "--rdzv-id", JOB]
        meeting += ["--local-addr", node.address]
        control = ["--control", str(self._control), "--seed", str(self.drawn.seed)]
        sources = [word for kind, server in self._servers.items() for word in (f"--{kind}", server.url)]
        module = ["--module", f"bench.faults.workloads.{case.workload}"]
        return [sys.executable, *launcher, *meeting, *module, *control, *sources, *case.arguments]

    def _environment(self, number: int) -> dict[str, str]:
        role = {"EROICA_ROLE": f"stage-{number}"} if self.case.workload == "pipeline" else {}
        return {
            "EROICA_TRAINING_JOB": JOB,
            "EROICA_NIC": "eth0",
            "EROICA_NIC_MBIT": str(MEGABITS),  # a virtual cable does not tell its speed
            "OMP_NUM_THREADS": "1",
            "HF_HUB_OFFLINE": "1",
            "PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH")))),
            **role,
            **self._more,
        }

    def wait_until_ready(self) -> None:
        """Wait until all ranks stand before their first iteration, each in its cgroup.

        Raises:
            EroicaError: they do not, or a rank is not on the node where its number says.
        """
        files = [self._control / f"ready-{rank}" for rank in range(self.world)]
        self.wait(lambda: all(file.exists() for file in files), "the ranks to meet", READY_SECONDS)
        self._ready = [json.loads(file.read_text()) for file in files]
        if [one["host"] for one in self._ready] != [self._place(rank).host for rank in range(self.world)]:
            raise EroicaError(f"ranks are not where their numbers say: {self._ready}; see {self.folder}")
        if capabilities.has_cgroups():
            for rank in range(self.world):
                self._groups.append(RankGroup(f"{os.urandom(2).hex()}-{rank}", self.folder))
                self._undo.callback(self._groups[-1].close)
                self._groups[-1].add(self.pid(rank))

    def go(self) -> None:
        """Let the ranks begin."""
        (self._control / "go").touch()

    def _place(self, rank: int) -> Node:
        return self.nodes[rank // self.case.ranks]

    def pid(self, rank: int) -> int:
        """Return the process id of a rank's trainer."""
        return int(self._ready[rank]["pid"])

    def loader_pids(self, rank: int) -> list[int]:
        """Return the processes of a rank's loader: children that run as their parent does, forked."""
        trainer = self.pid(rank)
        below: list[int] = []
        for file in Path(f"/proc/{trainer}/task").glob("*/children"):
            with suppress(OSError):
                below += map(int, file.read_text().split())
        command = Path(f"/proc/{trainer}/cmdline").read_bytes()
        return sorted(pid for pid in below if _command(pid) == command)

    def host(self, rank: int) -> str:
        """Return where a rank runs."""
        return self._place(rank).host

    def node(self, rank: int) -> Node:
        """Return the node of a rank."""
        return self._place(rank)

    def cgroup(self, rank: int) -> RankGroup:
        """Return the cgroup in which a rank's trainer and its children are."""
        return self._groups[rank]

    def share_nic(self, ranks: Collection[int], megabits: float, undo: ExitStack) -> None:
        """Put the nodes of these ranks behind one port of that many megabits a second together."""
        places = [self.node(rank) for rank in ranks]
        undo.enter_context(uplink.shared(places, megabits))

    def server(self, kind: str) -> Throttle:
        """Return what makes the server of "samples" or "objects" slow."""
        return self._servers[kind].throttle

    def order(self, switch: str, ranks: Collection[int], value: float, **more: Any) -> None:
        """Switch a fault of the training on."""
        said = {"switch": switch, "ranks": list(ranks), "value": value, **more}
        part = self._control / f"{switch}.part"
        part.write_text(json.dumps(said))
        os.replace(part, self._control / "orders" / f"{switch}.json")

    def lift(self, switch: str) -> None:
        """Switch it off again."""
        (self._control / "orders" / f"{switch}.json").unlink(missing_ok=True)

    def times(self, rank: int = 0) -> NDArray[np.float64]:
        """Return when each iteration of a rank began (Unix time)."""
        file = self._control / f"times-{rank}"
        data = file.read_bytes() if file.exists() else b""
        return np.frombuffer(data[: len(data) // STAMP.size * STAMP.size], "<f8")

    def iteration(self) -> int:
        """Return the number of the iteration in which rank 0 is; 0 before the first."""
        return len(self.times())

    def ask_for_window(self) -> None:
        """Ask for a manual window on the first node; without the plugin there is nobody to ask."""
        if not self._more.get("EROICA_DISABLED"):
            request(self.nodes[0].folder, JOB)

    def inject(self, undo: ExitStack) -> None:
        """Start the case's fault; what undoes it goes on the stack."""
        if self.case.fault is not None:
            self.case.fault(self, undo, self.drawn)

    def wait(self, reached: Callable[[], bool], what: str, seconds: float) -> None:
        """Wait until ``reached``.

        Raises:
            EroicaError: it was not, or a process of the training ended although the case is none of a dead one.
        """
        end = time.monotonic() + seconds
        while not reached():
            if self.case.verdict != HANG and self.has_ended():
                raise EroicaError(f"the training ended early; see {self.folder}")
            if time.monotonic() > end:
                raise EroicaError(f"waited {seconds:.0f} s in vain for {what}; see {self.folder}")
            self.machine.look()
            time.sleep(LOOK_SECONDS)

    def has_ended(self) -> bool:
        """Whether a launcher has ended."""
        return any(process.poll() is not None for process in self._launchers)


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(timeout=END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
