"""The table of kinds and families: takes names of events and frames, gives what they are charged as.

Everything here is data with the few functions that look it up; a new library, kernel or framework is a new line.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from eroica_otel.collectives import collective_family
from eroica_otel.collectives import is_any_collective as is_any_collective
from eroica_otel.collectives import is_collective as is_collective
from eroica_otel.collectives import is_send_recv as is_send_recv
from eroica_otel.collectives import resolved_collective as resolved_collective

NAME_LENGTH = 128
"""Longest function name that is exported."""
_FRAMES_KEPT = 1 << 14
"""Frames whose place in the tables is remembered: a frame stands in very many stacks."""

OPERATORS = frozenset({"cpu_op", "operator", "hpu_op"})
ANNOTATIONS = frozenset({"user_annotation"})
KERNELS = frozenset({"kernel", "gpu_kernel"})
COMMANDS = frozenset({"mtia_ccp_events", "mtia_workloadd"})
"""What a device of another maker ran; the name says whether it computed, copied or waited."""
COPIES = frozenset({"gpu_memcpy", "memcpy"})
SETS = frozenset({"gpu_memset", "memset"})
RUNTIMES = frozenset(
    {
        "cuda_runtime", "cuda_driver", "hip_runtime", "runtime", "mtia_runtime", "glow_runtime", "xpu_runtime",
        "xpu_driver", "privateuse1_runtime", "privateuse1_driver",
    }
)  # fmt: skip
RANGES = "cuda_profiler_range"
"""A kernel that CUPTI's range profiler ran apart from all others, and again and again: its time says nothing."""
PYTHON_CALLS = frozenset({"python_function"})
NEVER_CHARGED = PYTHON_CALLS | frozenset(
    {
        "", "ac2g", "async", "async_cpu_to_gpu", "async_gpu", "collective_comm", "cpu_instant_event", "cuda_event",
        RANGES, "cuda_sync", "external_correlation", "fwdbwd", "gpu_user_annotation", "mtia_counters",
        "mtia_insight", "overhead", "trace",
    }
)  # fmt: skip
"""Known categories without work of their own; a Python function of the trace does not hide the operator around it."""
KNOWN_CATEGORIES = OPERATORS | ANNOTATIONS | KERNELS | COMMANDS | COPIES | SETS | RUNTIMES | NEVER_CHARGED

WRAPPERS = ("autograd", "torch::autograd", "c10d", "torch::distributed", "torch.distributed", "profiler")
"""Namespaces (and those below them) that wrap other work: innermost there means that no operator runs."""

TRANSPARENT = ("GeneratedBackwardFor_",)
"""Prefixes of events that torch puts between a registered operator and its code: what is around them counts."""


def _compiled(*table: tuple[str, str]) -> tuple[tuple[str, re.Pattern[str]], ...]:
    return tuple((family, re.compile(pattern, re.IGNORECASE)) for family, pattern in table)


_COMPUTE_FAMILIES = _compiled(
    ("attention", r"attention|attn|flash|fmha"),
    ("convolution", r"conv|winograd|dgrad|wgrad|implicit"),
    ("gemm", r"gemm|matmul|^Cijk_|cutlass|cublas|nvjet|(?:^|_)(?:add|b|badd|addb)?mm(?:_|$)|^mv|addmv|^dot|^linear"),
    ("normalization", r"_norm|norm_|layernorm|rmsnorm|batchnorm|::bn_"),
    ("softmax", r"softmax|nll|cross_entropy|logsumexp"),
    ("random", r"^rand|^normal|uniform|dropout|bernoulli|multinomial"),
    ("embedding", r"embedding|index|gather|scatter|masked"),
    (
        "reduction",
        r"reduce|^(?:sum|mean|max|min|amax|amin|prod|argmax|argmin|all|any|var|std|cumsum|sort|topk)$",
    ),
    (
        "copy",
        r"copy|nchwtonhwc|^to$|^cat|clone|contiguous|stack|^fill|zero|^empty|^ones|_like$|item|_local_scalar",
    ),
    (
        "view",
        r"view|reshape|expand|transpose|permute|^t$|as_strided|slice|select|split|squeeze|detach|resolve_",
    ),
    (
        "elementwise",
        r"elementwise|pointwise|foreach|^_?(?:add|sub|mul|div|sqrt|rsqrt|pow|exp|log|neg|abs|clamp|relu|gelu|silu|tanh"
        r"|sigmoid|threshold|lerp|where|eq|ne|lt|gt|le|ge|sign|sin|cos|square|erf|leaky)",
    ),
)
"""First match wins; matched against the name after the namespace."""
_HOST_FAMILIES = _compiled(
    ("sync", r"synchronize|streamwait|eventquery"),
    ("alloc", r"malloc|free|hostalloc|memcreate|memmap|hostregister"),
    ("launch", r"launch|runfunction|enqueuecommand"),
)
SYNCHRONISING = frozenset({"aten::item"})
"""Operators that wait until the device has a number (``loss.item()``)."""
_COMMAND_WAITS = re.compile(r"^event_(?:wait|record)", re.IGNORECASE)
_COMMAND_COPIES = re.compile(r"dma|memcpy", re.IGNORECASE)
_LAUNCH = re.compile(r"launch\w*kernel|graphlaunch", re.IGNORECASE)

WAIT_FRAMES = _compiled(
    ("torch.autograd.graph", r"_engine_run_backward$"),
    (
        "torch.distributed",
        r"(?:^|\.)(?:wait|wait_\w+|barrier|monitored_barrier|synchronize|_?all_reduce\w*|_?all_gather\w*|all_to_all\w*"
        r"|_?reduce\w*|_?broadcast\w*|gather\w*|scatter\w*|send\w*|recv\w*|isend|irecv|batch_isend_irecv"
        r"|_wait_batch_p2p|_store_based_barrier|_barrier_impl)$",
    ),
    ("torch.futures", r"wait$"),
    ("horovod", r"(?:^|\.)(?:synchronize|wait|barrier|join)$"),
    ("torch.cuda", r"(?:^|\.)(?:synchronize|wait)$"),
    (
        "torch.nn.parallel.distributed",
        r"_sync_buffers|_sync_module_buffers|_default_broadcast_coalesced|_distributed_broadcast",
    ),
)
"""(module prefix, qualified name): an innermost frame in which a thread waits for its peers or for the device."""
INPUT_FRAMES = _compiled(
    ("torch.utils.data.dataloader", r"(?:DataLoaderIter\.|^)(?:__next__|_next_data|_try_get_data|_get_data)$"),
    ("torch.utils.data._utils.fetch", r"fetch$"),
    ("torchdata", r"(?:__next__|_next_data|fetch|\.next)$"),
    ("ray.data", r"iter_batches|iter_torch_batches|__next__$"),
    ("eroica_otel.signals.hooks", r"^(?!.*(?:step|update))"),
)
"""(module prefix, qualified name): a frame below which everything is the input call."""
LOADER_FRAMES = _compiled(("torch.utils.data._utils.worker", ""), ("torchdata.stateful_dataloader.worker", ""))
"""Frames that only a process of the DataLoader has."""

_LIGHTNING = r"^(?:lightning\.pytorch|pytorch_lightning)\."
PAUSE_FRAMES: tuple[tuple[str, re.Pattern[str]], ...] = _compiled(
    ("save", r"^torch\.serialization:save$"),
    ("save", r"^torch\.distributed\.checkpoint\.state_dict_saver:(?:save|async_save)$"),
    ("save", r"^torch\.distributed\.checkpoint\.(?:filesystem|staging):.*(?:write_data|stage)$"),
    ("save", r"^safetensors\.torch:save_file$"),
    ("save", r"^transformers\.trainer:.*(?:_save_checkpoint|save_model)$"),
    ("save", r"^accelerate\.accelerator:.*(?:save_state|save_model)$"),
    ("save", r"^deepspeed\.runtime\.engine:.*save_checkpoint$"),
    ("save", _LIGHTNING + r"callbacks\.model_checkpoint:.*_save_\w*checkpoint$"),
    ("save", _LIGHTNING + r"trainer\.trainer:.*save_checkpoint$"),
    ("save", r"^eroica_otel\.profile\.capture:(?:WindowCapture\.)?stop$"),
    ("evaluation", r"^transformers\.trainer:.*(?:evaluate|evaluation_loop|prediction_loop)$"),
    ("evaluation", _LIGHTNING + r"loops\.evaluation_loop:.*run$"),
    ("compilation", r"^torch\._dynamo\.convert_frame:.*(?:__call__|_compile\w*)$"),
    ("debugger", r"^(?:pdb|bdb|IPython\.(?:core|terminal)\.debugger|ipdb|pudb|debugpy|pydevd|_pydevd_bundle)(?:\.|:)"),
)
"""Family and "module:qualified name" of frames in which training pauses on purpose; the word "checkpoint" is no such
sign, since activation checkpointing carries it in every iteration."""

OWN_PACKAGE = "eroica_otel"
OWN_WORKLOADS = ("eroica_otel.demo",)
"""Parts of this package that are somebody's training, so their frames stay."""

GC_FUNCTION = "garbage collection"


class Label(NamedTuple):
    """What a trace event is.

    Attributes:
        kind: One of model.KINDS, "" where the event is never charged.
        family: Group inside the kind.
        nests: True where the event lies on a CPU thread's stack: it hides the events around it while it runs.
    """

    kind: str
    family: str
    nests: bool


class Frame(NamedTuple):
    """One frame of a Python stack: module, qualified name, file, first line of the function."""

    module: str
    qualname: str
    file: str
    line: int


_Table = Iterable[tuple[str, "re.Pattern[str]"]]


def _first(table: _Table, name: str, default: str = "other") -> str:
    return next((family for family, pattern in table if pattern.search(name)), default)


def is_kernel(category: str) -> bool:
    """Return whether events of this category run on an accelerator; one of them makes the job a GPU job."""
    return category.lower() in KERNELS or category.lower() in COMMANDS


def ranged(categories: Iterable[str]) -> bool:
    """Return whether a trace holds ranges of CUPTI's range profiler."""
    return RANGES in categories


def uses_accelerator(categories: Iterable[str], names: Iterable[str]) -> bool:
    """Return whether a trace is of a process with an accelerator: it holds kernels, or calls that launch some."""
    return any(is_kernel(category) for category in categories) or any(_LAUNCH.search(name) for name in names)


def is_known(category: str) -> bool:
    """Return whether the table knows this category of event."""
    return category.lower() in KNOWN_CATEGORIES


def _operator(name: str) -> Label:
    if name.startswith(TRANSPARENT):
        return Label("", "", False)
    namespace, found, bare = name.rpartition("::")
    wraps = not found or any(namespace == w or namespace.startswith((f"{w}::", f"{w}.")) for w in WRAPPERS)
    # "autograd::engine::evaluate_function: torch::X" has its namespace at the front, not before the last colons.
    wraps = wraps or name.startswith(tuple(f"{w}::" for w in WRAPPERS)) or " " in namespace
    return Label("", "", True) if wraps else Label("compute", _first(_COMPUTE_FAMILIES, bare), True)


def _command(name: str) -> Label:
    if _COMMAND_WAITS.search(name):
        return Label("", "", False)
    return Label("memory", "copy", False) if _COMMAND_COPIES.search(name) else Label("compute", "other", False)


@lru_cache(maxsize=65536)
def classify(category: str, name: str) -> Label:
    """Return what a trace event of this category and name is charged as."""
    low = category.lower()
    nests = low in OPERATORS or low in ANNOTATIONS
    if is_collective(name):
        return Label("communication", collective_family(name), nests)
    if low in OPERATORS:
        return _operator(name)
    if low in KERNELS:
        return Label("compute", _first(_COMPUTE_FAMILIES, plain_name(name)), False)
    if low in COMMANDS:
        return _command(name)
    if low in COPIES or low in SETS:
        return Label("memory", "copy" if low in COPIES else "set", False)
    if low in RUNTIMES:
        return Label("host", _first(_HOST_FAMILIES, name), False)
    return Label("", "", nests)


def classify_on_gpu(category: str, name: str) -> Label:
    """Return the same for a trace with an accelerator, on which some operators do nothing but wait for it."""
    label = classify(category, name)
    return Label("host", "sync", True) if label.nests and name in SYNCHRONISING else label


def _matches(table: _Table, frame: Frame) -> bool:
    return any(
        (frame.module == prefix or frame.module.startswith(prefix + ".")) and pattern.search(frame.qualname)
        for prefix, pattern in table
    )


@lru_cache(maxsize=_FRAMES_KEPT)
def is_input(frame: Frame) -> bool:
    """Return whether everything below this frame belongs to the input call."""
    return _matches(INPUT_FRAMES, frame)


def python_family(stack: Iterable[Frame]) -> str:
    """Return input, loader, wait or other for a stack (outermost first); the input call wins over what it runs."""
    frames = tuple(stack)
    if any(_is_loader(frame) for frame in frames):
        return "loader"
    if any(is_input(frame) for frame in frames):
        return "input"
    return "wait" if frames and is_wait(frames[-1]) else "other"


@lru_cache(maxsize=_FRAMES_KEPT)
def _is_loader(frame: Frame) -> bool:
    return _matches(LOADER_FRAMES, frame)


@lru_cache(maxsize=_FRAMES_KEPT)
def is_wait(frame: Frame) -> bool:
    """Return whether a thread whose innermost frame this is waits for its peers or for the device."""
    return _matches(WAIT_FRAMES, frame)


def pause_of(stack: Iterable[Frame]) -> tuple[str, Frame] | None:
    """Return family (as in PAUSE_FRAMES) and frame of the innermost intended pause on a stack, None without."""
    for frame in reversed(tuple(stack)):
        family = _first(PAUSE_FRAMES, f"{frame.module}:{frame.qualname}", "")
        if family:
            return family, frame
    return None


def is_own(frame: Frame) -> bool:
    """Return whether the frame belongs to this package and not to a training that comes with it."""
    module = frame.module + "."
    return module.startswith(OWN_PACKAGE + ".") and not module.startswith(tuple(w + "." for w in OWN_WORKLOADS))


def function_id(kind: str, identity: str) -> str:
    """Return 12 hex digits that are equal wherever kind and identity are."""
    return hashlib.blake2b(f"{kind}\0{identity}".encode(), digest_size=6).hexdigest()


_ADDRESS = re.compile(r"0x[0-9a-fA-F]+")
_TEMPLATE = re.compile(r"<[^<>]*>")
_PARAMETERS = re.compile(r"\([^()]*\)")
_SPACES = re.compile(r"\s+")


def identity_name(name: str) -> str:
    """Return the event's name without addresses, which differ from process to process."""
    return _ADDRESS.sub("", name)


def _strip(pattern: re.Pattern[str], text: str) -> str:
    while (shorter := pattern.sub("", text)) != text:
        text = shorter
    return text


def plain_name(name: str) -> str:
    """Return a C++ kernel's name without return type, template arguments, parameters and addresses."""
    text = identity_name(name).replace("(anonymous namespace)::", "").replace("->", "").removeprefix("void ")
    text = _strip(_PARAMETERS, _strip(_TEMPLATE, text))
    return _SPACES.sub(" ", text).strip() or name


def short_name(category: str, name: str) -> str:
    """Return the name under which a trace event is shown, at most NAME_LENGTH characters."""
    text = plain_name(name) if is_kernel(category) else identity_name(name)
    return text[:NAME_LENGTH]


def frame_name(frame: Frame) -> str:
    """Return ``qualname (file.py:firstline)``, at most NAME_LENGTH characters; the place survives a long name.

    Line 0 stands for one that nobody knows.
    """
    line = f":{frame.line}" if frame.line else ""
    place = f" ({frame.file.replace(chr(92), '/').rpartition('/')[2]}{line})"
    return frame.qualname[: max(NAME_LENGTH - len(place), 0)] + place[:NAME_LENGTH]


def frame_identity(frame: Frame) -> str:
    """Return ``module:qualname:firstline``: where the function begins, never the line that runs."""
    return f"{frame.module}:{frame.qualname}:{frame.line}"
