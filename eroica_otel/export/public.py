"""Names that are no secret: of the standard library, of frameworks that everybody has, and of what their devices run.

Data with the few functions that look it up. What is in doubt is private: a module counts as a library's only where its
file lies in an installation, so a script called queue.py and a fork in a checkout are the training's own.
"""

from __future__ import annotations

import re
import sys

from eroica_otel import kinds
from eroica_otel.kinds import Frame

LIBRARIES = frozenset(
    {
        "PIL", "_distutils_hack", "accelerate", "aiohttp", "apex", "asyncpg", "bitsandbytes", "boto3", "botocore",
        "cv2", "datasets", "deepspeed", "einops", "eroica_otel", "flash_attn", "fsspec", "gcsfs", "grpc", "h5py",
        "horovod", "huggingface_hub", "hydra", "ignite", "jinja2", "lightning", "lightning_fabric",
        "lightning_utilities", "lmdb", "matplotlib", "mlflow", "mpi4py", "multidict", "numba", "numpy", "nvidia",
        "omegaconf", "opentelemetry", "packaging", "pandas", "peft", "pkg_resources", "prometheus_client", "psutil",
        "pyarrow", "pytorch_lightning", "ray", "regex", "requests", "s3fs", "safetensors", "scipy", "setuptools",
        "sklearn", "sympy", "tensorboard", "tensordict", "timm", "tokenizers", "torch", "torchaudio", "torchdata",
        "torchmetrics", "torchrec", "torchtext", "torchvision", "tqdm", "transformers", "triton", "urllib3", "wandb",
        "webdataset", "wrapt", "xformers", "yaml", "yarl", "zarr", "zstandard",
    }
)  # fmt: skip
"""Installed packages that count as public, by the first part of the module's name."""

_INSTALLED = re.compile(r"(?:^|[/\\])(?:site|dist)-packages[/\\]")
_STANDARD = re.compile(r"^<frozen |[/\\]lib(?:64)?[/\\]python3\.\d+t?[/\\](?!(?:site|dist)-packages)")
_DEBUGGERS = frozenset({"pdb", "bdb", "IPython", "ipdb", "pudb", "debugpy", "pydevd", "_pydevd_bundle"})
_ITERATORS = "torch.utils.data.dataloader"
_ITERATOR = re.compile(r"(?:_(?:Base|SingleProcess|MultiProcessing)DataLoaderIter\.)?\w+")
"""In a trace a class of the training's that iterates stands under torch's module."""
_TABLES = (kinds.WAIT_FRAMES, kinds.INPUT_FRAMES, kinds.LOADER_FRAMES)

_OPERATORS = (
    r"(?:aten|prims?|quantized|torch|torchvision|torchaudio|_?c10d(?:_functional)?|inductor|xla|mkldnn|onednn)::\w+"
)
_COLLECTIVES = (
    r"(?:nccl|gloo|mpi|ucc|xccl|hccl):_?(?:all_?reduce|all_?gather|reduce_?scatter|reduce|broadcast|barrier|send|recv"
    r"|gather|scatter|all_?to_?all|coalesced)(?:_base|_single|_into_tensor|_tensor|_coalesced|_sparse|v|d|_any_source)*"
    r"|(?:nccl|rccl)(?:Dev)?Kernel_[A-Za-z0-9]+(?:_[A-Za-z0-9]+)*"
    r"(?:: (?:(?:send|recv), )?(?:stage \d+ of \d+|(?:first|middle|last) stage))?|record_param_comms"
)
_KERNELS = (
    r"(?:at::(?:native|cuda)|cub|thrust|cudnn|cublas(?:Lt)?|cusparse|at_cuda_detail)::[\w:]+"
    r"|(?:ampere|volta|turing|maxwell|pascal|sm\d+_xmma|cutlass_\d+|cudnn|nvjet|Cijk)_\w+"
    r"|cutlass::(?:Kernel2?|device_kernel)|(?:splitKreduce|gemmSN_\w\w|gemv2\w|dot|reduce_1Block)_kernel"
)
_NAMES = {
    "compute": re.compile(f"{_OPERATORS}|{_KERNELS}"),
    "communication": re.compile(f"{_COLLECTIVES}|{_OPERATORS}"),
    "memory": re.compile(r"(?:Memcpy|Memset|CopyDeviceToHost|CopyHostToDevice)\b[\w ()>-]*"),
    "host": re.compile(rf"(?:cuda|hip|cu|hsa_?|musa)[A-Z]\w*|{_OPERATORS}"),
}
"""By kind, names under which no training can hide one of its own."""
_GROUPS = re.compile(r"|\d+|default_pg|WORLD|world|[0-9a-f]{8,64}(?:_\d+)?")


def is_public_frame(frame: Frame) -> bool:
    """Return whether everybody knows this function; ``file`` "" = unknown."""
    top = frame.module.partition(".")[0]
    if top == kinds.OWN_PACKAGE or _in_tables(frame, top):
        return True
    where = _INSTALLED if top in LIBRARIES else _STANDARD if top in sys.stdlib_module_names else None
    return where is not None and where.search(frame.file) is not None


def _in_tables(frame: Frame, top: str) -> bool:
    """Whether verdicts look for this frame by name, so that the name is written in this package anyway."""
    if top not in LIBRARIES and top not in _DEBUGGERS:
        return False
    if frame.module == _ITERATORS and not _ITERATOR.fullmatch(frame.qualname):
        return False
    named = any(
        (frame.module == prefix or frame.module.startswith(prefix + ".")) and pattern.search(frame.qualname)
        for table in _TABLES
        for prefix, pattern in table
    )
    return named or kinds.pause_of((frame,)) is not None


def is_public_name(kind: str, name: str) -> bool:
    """Return whether an operator, kernel, collective, copy or runtime call has the name of a library's."""
    known = _NAMES.get(kind)
    return known is not None and known.fullmatch(name) is not None


def is_public_group(name: str) -> bool:
    """Return whether torch made the name of the process group, so that it says nothing."""
    return _GROUPS.fullmatch(name) is not None
