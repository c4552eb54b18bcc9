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
from eroica_otel.frames import INPUT_FRAMES as INPUT_FRAMES
from eroica_otel.frames import LOADER_FRAMES as LOADER_FRAMES
from eroica_otel.frames import NAME_LENGTH as NAME_LENGTH
from eroica_otel.frames import PAUSE_FRAMES as PAUSE_FRAMES
from eroica_otel.frames import WAIT_FRAMES as WAIT_FRAMES
from eroica_otel.frames import Frame as Frame
from eroica_otel.frames import compiled, first_of
from eroica_otel.frames import frame_identity as frame_identity
from eroica_otel.frames import frame_name as frame_name
from eroica_otel.frames import is_input as is_input
from eroica_otel.frames import is_storage as is_storage
from eroica_otel.frames import is_wait as is_wait
from eroica_otel.frames import pause_of as pause_of
from eroica_otel.frames import python_family as python_family

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


_COMPUTE_FAMILIES = compiled(
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
_HOST_FAMILIES = compiled(
    ("sync", r"synchronize|streamwait|eventquery"),
    ("capture", r"(?:begin|end)capture|graph(?:instantiate|create|execupdate|addkernelnode)"),
    ("alloc", r"malloc|free|hostalloc|memcreate|memmap|hostregister"),
    ("launch", r"launch|runfunction|enqueuecommand"),
)
SYNCHRONISING = frozenset({"aten::item"})
"""Operators that wait until the device has a number (``loss.item()``)."""
_COMMAND_WAITS = re.compile(r"^event_(?:wait|record)", re.IGNORECASE)
_COMMAND_COPIES = re.compile(r"dma|memcpy", re.IGNORECASE)
_LAUNCH = re.compile(r"launch\w*kernel|graphlaunch", re.IGNORECASE)

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
    return Label("", "", True) if wraps else Label("compute", first_of(_COMPUTE_FAMILIES, bare), True)


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
        return Label("compute", first_of(_COMPUTE_FAMILIES, plain_name(name)), False)
    if low in COMMANDS:
        return _command(name)
    if low in COPIES or low in SETS:
        return Label("memory", "copy" if low in COPIES else "set", False)
    if low in RUNTIMES:
        return Label("host", first_of(_HOST_FAMILIES, name), False)
    return Label("", "", nests)


def classify_on_gpu(category: str, name: str) -> Label:
    """Return the same for a trace with an accelerator, on which some operators do nothing but wait for it."""
    label = classify(category, name)
    return Label("host", "sync", True) if label.nests and name in SYNCHRONISING else label


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
