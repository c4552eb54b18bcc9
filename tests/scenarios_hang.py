"""The bug reports of the log in which nothing moves: stacks and counts of collectives, and who must be named."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from eroica_otel.localize.presence import Presence
from eroica_otel.localize.verdict import judge
from eroica_otel.model import Report, WorkerWindow
from factories_localize import IN_ALL_REDUCE, IN_BACKWARD, TRAIN, stuck

Windows = Sequence[WorkerWindow]

IN_BARRIER = (*TRAIN, "train:save_checkpoint:60", "torch.distributed.distributed_c10d:barrier:4000")
IN_GATHER = (*TRAIN, "lightning.pytorch.core.module:log_dict:600", "torch.distributed.distributed_c10d:all_gather:100")
IN_FORWARD = (*TRAIN, "model:Model.forward:10", "torch.distributed.distributed_c10d:all_gather_into_tensor:3000")
IN_QUEUE = (*TRAIN, "torch.utils.data.dataloader:_MultiProcessingDataLoaderIter._next_data:1200", "queue:Queue.get:150")
IN_DECODE = ("torch.utils.data._utils.worker:_worker_loop:200", "data:Images.__getitem__:40", "cv2:imdecode:1")
IN_COMPILER = (*TRAIN, "torch._dynamo.convert_frame:_compile:700", "torch._inductor.compile_fx:compile_fx:900")


@dataclass(frozen=True)
class HangScenario:
    """One row; fields as of scenarios.Scenario.

    Attributes:
        states: States that ranks say they are in, "blocked" where it is none of them.
        said: What the first note begins with where nobody is named.
        sure: Whether the finding is of high confidence.
    """

    issue: str
    told: str
    windows: Windows
    clean: Windows
    cause: str
    culprits: tuple[int, ...] = ()
    states: Mapping[int, str] = field(default_factory=dict)
    said: str = ""
    sure: bool = True

    @property
    def name(self) -> str:
        """Name of the test."""
        return f"{self.issue}-{self.cause or 'nothing'}"


def verdict(row: HangScenario, windows: Windows, states: Mapping[int, str] | None = None) -> Report:
    """Return what is said of a job of as many ranks as the row has, all of which live."""
    count = windows[0].identity.world_size
    known = row.states if states is None else states
    presence = {at: Presence(known.get(at, "blocked"), 2.0, False, f"node-{at}", "all") for at in range(count)}
    return judge(windows, (), expected=count, presence=presence)


def ranks(count: int, others: tuple[int, int], *changed: tuple[int, tuple[int, int], tuple[str, ...]],
          stack: tuple[str, ...] = IN_ALL_REDUCE) -> list[WorkerWindow]:  # fmt: skip
    """Return ranks in one collective of the world's group (entered, completed), but the changed ones."""
    other = {at: (counts, where) for at, counts, where in changed}
    at_rest = (others, stack)
    return [
        stuck(at, other.get(at, at_rest)[1], world=count, progress={"0": other.get(at, at_rest)[0]})
        for at in range(count)
    ]


def _wedged(local: int) -> list[WorkerWindow]:
    """512 ranks: 320 to 383 entered two fewer than all others, those of a local rank one fewer still."""
    behind = [
        (at, (997, 997) if at % 8 == local else (998, 997), IN_ALL_REDUCE) for at in range(320, 384)
    ]  # fmt: skip
    return ranks(512, (1000, 997), *behind)


def _loader(window: WorkerWindow) -> WorkerWindow:
    return replace(window, patterns=tuple(replace(one, family="loader") for one in window.patterns))


_AT_WORK_175, _EQUAL = (175, 174), (42, 41)
_DECODING = ranks(4, _EQUAL, (2, (41, 41), IN_DECODE))

HANGS = (
    HangScenario(
        "marin-community/marin#7344", "512 ranks: 320 to 383 two all-reduces behind, their local rank 5 three",
        _wedged(5), ranks(512, (1000, 997)), "hang_missing_rank", tuple(range(325, 384, 8)),
    ),
    HangScenario(
        "marin-community/marin#8934", "all in a collective for 15 min: counters of links settle nothing",
        ranks(8, _EQUAL), (), "", said="not enough evidence: all 8 ranks wait in all_reduce",
    ),
    HangScenario(
        "lightseekorg/TorchSpec#126", "last work 21936 on one rank, 21937 on three: it skipped a sample",
        ranks(4, (21937, 21936), (1, (21936, 21936), IN_FORWARD), stack=IN_FORWARD), ranks(4, (21937, 21936)),
        "hang_missing_rank", (1,),
    ),
    HangScenario(
        "konstmish/prodigy#35", "all-reduce of work 175: a rank with frozen shards returned early, and is in forward",
        ranks(4, _AT_WORK_175, (3, _AT_WORK_175, IN_FORWARD)), ranks(4, _AT_WORK_175), "hang_missing_rank", (3,),
        sure=False,
    ),
    HangScenario(
        "Lightning-AI/pytorch-lightning#19106", "log_dict on keys that differ by rank: one is in a gather of its own",
        ranks(4, _EQUAL, (2, _EQUAL, IN_GATHER), stack=IN_BACKWARD), ranks(4, _EQUAL, stack=IN_BACKWARD),
        "hang_missing_rank", (2,), sure=False,
    ),
    HangScenario(
        "alan-turing-institute/autocast#386", "save_checkpoint with its barrier on rank 0 only; the others have ended",
        [stuck(0, IN_BARRIER, progress={"0": _EQUAL})], ranks(4, _EQUAL, stack=IN_BARRIER), "hang_missing_rank",
        (1, 2, 3), states={1: "finished", 2: "finished", 3: "finished"},
    ),
    HangScenario(
        "mosaicml/streaming#145", "unseeded ranks wait on barriers of different names: all in the loader's barrier",
        ranks(4, (0, 0), stack=IN_BARRIER), (), "", said="not enough evidence: all 4 ranks wait in barrier",
    ),
    HangScenario(
        "ultralytics/ultralytics#26085", "a process of the loader in cv2.imdecode: fork while a lock was held",
        [*_DECODING[:2], _loader(_DECODING[2]), _DECODING[3]], ranks(4, _EQUAL), "hang_in_python", (2,),
    ),
    HangScenario(
        "pytorch/pytorch#87995", "32 GPUs: rank 0 in queue.get, 31 in all_reduce",
        ranks(32, _EQUAL, (0, (41, 41), IN_QUEUE)), ranks(32, _EQUAL), "hang_in_python", (0,),
    ),
    HangScenario(
        "karpathy/nanochat#722", "the watchdog strikes at start: the compiler's cache is warm on one node only",
        ranks(4, _EQUAL, *((at, (41, 41), IN_COMPILER) for at in (1, 2, 3))), (), "", said="ranks 1, 2, 3 compile",
        states={1: "learning", 2: "learning", 3: "learning"},
    ),
)  # fmt: skip
