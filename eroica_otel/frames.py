"""The table of frames: takes stacks of Python frames, gives where a thread waits, reads its input or pauses on purpose.

Data with the functions that look it up; a new library or framework is a new line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

NAME_LENGTH = 128
"""Longest function name that is exported."""
_FRAMES_KEPT = 1 << 14
"""Frames whose place in the tables is remembered: a frame stands in very many stacks."""


def compiled(*table: tuple[str, str]) -> tuple[tuple[str, re.Pattern[str]], ...]:
    """Return a table of patterns, which do not tell capitals from small letters."""
    return tuple((family, re.compile(pattern, re.IGNORECASE)) for family, pattern in table)


WAIT_FRAMES = compiled(
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
INPUT_FRAMES = compiled(
    ("torch.utils.data.dataloader", r"(?:DataLoaderIter\.|^)(?:__next__|_next_data|_try_get_data|_get_data)$"),
    ("torch.utils.data._utils.fetch", r"fetch$"),
    ("torchdata", r"(?:__next__|_next_data|fetch|\.next)$"),
    ("ray.data", r"iter_batches|iter_torch_batches|__next__$"),
    ("eroica_otel.signals.hooks", r"^(?!.*(?:step|update))"),
)
"""(module prefix, qualified name): a frame below which everything is the input call."""
LOADER_FRAMES = compiled(("torch.utils.data._utils.worker", ""), ("torchdata.stateful_dataloader.worker", ""))
"""Frames that only a process of the DataLoader has."""

STORAGE_FRAMES = compiled(
    ("pathlib", r"Path\.(?:read_bytes|read_text|open)$"),
    ("zipfile", r"\.read\w*$|_open$"),
    ("tarfile", r"read|next|extractfile"),
    ("gzip", r"\.read\w*$"),
    ("torch.serialization", r"^load$|^_load|_open_file|_open_zipfile_reader|load_tensor"),
    ("numpy", r"^(?:load|fromfile|memmap)$|read_array$|memmap\.__new__$"),
    ("PIL.Image", r"^open$"),
    ("h5py", r"__getitem__$|read_direct$|__init__$"),
    ("pyarrow", r"read|open|to_table|to_batches|scan"),
    ("fsspec", r"read|_fetch|open|cat|get_file"),
    ("s3fs", r"read|_fetch|open|cat|get_file"),
    ("gcsfs", r"read|_fetch|open|cat|get_file"),
    ("boto3", r"download|get_object"),
    ("safetensors", r"load_file$|safe_open"),
    ("torchvision.io", r"read_(?:file|image)$"),
)
"""(module prefix, qualified name): an innermost frame that reads a file or an object of a store."""

_LIGHTNING = r"^(?:lightning\.pytorch|pytorch_lightning)\."
PAUSE_FRAMES: tuple[tuple[str, re.Pattern[str]], ...] = compiled(
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


class Frame(NamedTuple):
    """One frame of a Python stack: module, qualified name, file, first line of the function."""

    module: str
    qualname: str
    file: str
    line: int


Table = Iterable[tuple[str, "re.Pattern[str]"]]


def first_of(table: Table, name: str, default: str = "other") -> str:
    """Return the family of the first pattern found in a name."""
    return next((family for family, pattern in table if pattern.search(name)), default)


def _matches(table: Table, frame: Frame) -> bool:
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


@lru_cache(maxsize=_FRAMES_KEPT)
def is_storage(frame: Frame) -> bool:
    """Return whether a thread whose innermost frame this is reads from a file or a store."""
    return _matches(STORAGE_FRAMES, frame)


def pause_of(stack: Iterable[Frame]) -> tuple[str, Frame] | None:
    """Return family (as in PAUSE_FRAMES) and frame of the innermost intended pause on a stack, None without."""
    for frame in reversed(tuple(stack)):
        family = first_of(PAUSE_FRAMES, f"{frame.module}:{frame.qualname}", "")
        if family:
            return family, frame
    return None


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
