"""The bug reports of the log (shared/DATA.md, section 6) as windows: each with the numbers of its row, the verdict that
it must get, and the same numbers with the evidence of the cause taken away or equal on all.

Data. What a row does not tell (lengths of other functions, number of ranks beyond a few) is small and made up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from eroica_otel.localize.verdict import judge
from eroica_otel.model import Collective, Report
from factories_localize import Rank, Work, rank, window_of

Ranks = Sequence[Rank]

HEALTHY_HOST = {"numa_away": 0.0, "major_faults": 0.0, "process_disk_read": 0.0, "cgroup_cpu": 0.3, "process_cpu": 0.1,
                "gpu_slowdown": 0.0, "gpu_power_cap": 0.0, "link_down": 0.0}  # fmt: skip


@dataclass(frozen=True)
class Scenario:
    """One row.

    Attributes:
        issue: Where it was reported, "" for a cause of which the log has no report.
        told: Its numbers.
        now: What the ranks do.
        clean: The same without the evidence of the cause: any other verdict than this cause.
        cause: What must be found; "" = nothing above info.
        culprits: The ranks; () for the whole job.
        before: The reference window, () without one.
        info: True where the finding is only info.
        window: Arguments of window_of for both windows.
        earlier: Other arguments of the reference.
    """

    issue: str
    told: str
    now: Ranks
    clean: Ranks
    cause: str
    culprits: tuple[int, ...] = ()
    before: Ranks = ()
    domain: str = "hardware"
    info: bool = False
    scope: str = ""
    window: dict[str, Any] = field(default_factory=dict)
    earlier: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Name of the test."""
        return f"{self.issue or self.told}-{self.cause or 'nothing'}"


def verdict(row: Scenario, now: Ranks) -> Report:
    """Return what is said of a window in which the ranks do this."""
    values: dict[str, Any] = {"reason": "degraded"} | row.window
    earlier = values | row.earlier | {"reason": "reference", "window_id": 1764420000}
    before = window_of(row.before, **earlier) if row.before else ()
    return judge(window_of(now, **values), before, expected=len(now))


def kernel(ms: float, clock: float | None = 0.95, name: str = "bf16_gemm", family: str = "gemm") -> Work:
    """Return a kernel while which the SMs have this clock."""
    return Work(name, ms, None, "compute", family, use=None if clock is None else ("sm_clock", clock, 0.01))


def copied(ms: float, rate: float, resource: str = "pcie", name: str = "Memcpy HtoD") -> Work:
    """Return a copy by a GPU at a share of the link's or memory's rate."""
    return Work(name, ms, None, "memory", "copy", use=(resource, rate, 0.02))


def call(name: str, ms: float, family: str, on: float | None = None) -> Work:
    """Return a call of the CUDA runtime."""
    return Work(name, ms, ms if on is None else on, "host", family)


def python(name: str, ms: float, on: float, family: str = "other", *stack: str) -> Work:
    """Return a Python function."""
    return Work(name, ms, on, family=family, stack=("train:main:1", *stack) if stack else ())


def pack(work: Callable[[float], Work], *ms: float, host: dict[str, float] | None = None, **changes: Any) -> list[Rank]:
    """Return ranks that do one thing each for so long beside a kernel of 50 ms."""
    kept = {"base": (kernel(50),), "host_use": HEALTHY_HOST | (host or {})} | changes
    return [rank(work(each), **kept) for each in ms]


def mixed(good: Ranks, bad: Ranks, *culprits: int) -> list[Rank]:
    """Return ``good`` with the ranks of ``bad`` at these places."""
    return [bad[at] if at in culprits else one for at, one in enumerate(good)]


def hosted(ranks: Ranks, each: int) -> list[Rank]:
    """Return the ranks on hosts of ``each``."""
    return [replace(one, host=f"node-{at // each}") for at, one in enumerate(ranks)]


def linked(count: int, mu: float, sigma: float, peak: float, **host: float) -> list[Rank]:
    """Return ranks whose communication uses the link so."""
    return [
        rank(base=(kernel(50),), link=("nic", mu, sigma), peaks={"nic_tx": peak, "nic_rx": peak},
             host_use=HEALTHY_HOST | host)
        for _ in range(count)
    ]  # fmt: skip


def grouped(slow: int, of: int, seconds: tuple[float, float], link: str, rates: tuple[float, float]) -> list[Rank]:
    """Return pairs of ranks, each pair a process group; the fastest of 30 calls and the use of the link in group
    ``slow`` (-1 = none) and elsewhere.
    """
    ranks = []
    for at in range(2 * of):
        bad = at // 2 == slow
        one = Collective(f"pair-{at // 2}", 30, 30 << 20, seconds[0] if bad else seconds[1])
        use = (link, rates[0] if bad else rates[1], 0.02)
        ranks.append(rank(base=(kernel(50),), link=use, groups=(one,), host=f"node-{at // 2}", host_use=HEALTHY_HOST))
    return ranks


FETCH = ("torch.utils.data._utils.fetch:fetch:20",)
READ = (*FETCH, "data:Images.__getitem__:40", "pathlib:Path.read_bytes:120")
SAVE = ("train:save:60", "torch.serialization:save:900")
COMPILE = ("torch._dynamo.convert_frame:_compile:700",)


def prepare(ms: float) -> Work:
    return python("prepare (engine.py:80)", ms, ms, "other", "engine:prepare:80")


def collect(ms: float) -> Work:
    return Work("garbage collection", ms, ms, family="gc")


def backward_hook(ms: float) -> Work:
    return python("hook (train.py:9)", ms, 0.01 * ms, "other", "train:hook:9")


def pre_forward(ms: float) -> Work:
    return python("_pre_forward (_runtime_utils.py:400)", ms, ms, "other", "torch.distributed.fsdp:_pre_forward:400")


def next_batch(ms: float) -> Work:
    return python("__next__ (dataloader.py:700)", ms, 0.01 * ms, "input", "torch.utils.data.dataloader:__next__:700")


def read_file(ms: float) -> Work:
    return python("read_bytes (pathlib.py:120)", ms, 0.05 * ms, "input", *READ)


def read_own(ms: float) -> Work:
    return python("__getitem__ (data.py:40)", ms, 0.05 * ms, "input", *READ[:-1])


def transform(ms: float) -> Work:
    return python("transform (data.py:50)", ms, 0.95 * ms, "loader", "torch.utils.data._utils.worker:_worker_loop:200")


def tokenize(ms: float) -> Work:
    return python("encode (tokenizer.py:5)", ms, 0.99 * ms, "input", *FETCH, "tokenizer:encode:5")


def save(ms: float) -> Work:
    return python("save (serialization.py:900)", ms, 0.1 * ms, "other", *SAVE)


def write_log(ms: float) -> Work:
    return python("write (log.py:3)", ms, 0.1 * ms, "other", "log:write:3")


def compile_frame(ms: float) -> Work:
    return python("_compile (convert_frame.py:700)", ms, 0.98 * ms, "other", *COMPILE)


def many_frames(ms: float) -> tuple[Work, ...]:
    """Return twenty functions of one Python program, each too short to stand out."""
    return tuple(python(f"part{at} (model.py:{at})", ms, 4.0, "other", f"model:part{at}:{at}") for at in range(20))


def malloc(ms: float) -> Work:
    return call("cudaMalloc", ms, "alloc")


def free(ms: float) -> Work:
    return call("cudaFree", ms, "alloc")


def launch(ms: float) -> Work:
    return call("cudaLaunchKernel", ms, "launch", on=0.2 * ms)


def record(ms: float) -> Work:
    return call("cudaGraphInstantiate", ms, "capture")


def sync(ms: float) -> Work:
    return call("cudaStreamSynchronize", ms, "sync", on=0.1 * ms)


def attention(ms: float) -> Work:
    return kernel(ms, name="flash_fwd_kernel", family="attention")


def operator(ms: float) -> Work:
    return Work("aten::mm", ms, 30.0, "compute", "gemm")
