"""The table of communication: takes names of trace events, gives whether and how they move data between workers.

Data with the functions that look it up; a new library is a new line.
"""

from __future__ import annotations

import re

_LIBRARIES = (
    r"(?:gloo|mpi|ucc|xccl|hccl|oneccl):",  # torch's own ranges of backends that run on the host
    r"P?MPI_(?:I?(?:all|b|red|reduce|send|recv|gather|scatter|exscan|neighbor|barrier|wait)|[BSR](?:send|recv)|Sendrecv|"
    r"Wait|Put|Get|Accumulate|Win_fence)",
    r"(?:nccl|rccl|msccl(?:pp)?|oneccl)\w*kernel",
    r"deep_?ep::(?!\w*layout)",
    r"(?:\w+::)*nvshmem\w*kernel",
    # symmetric memory and custom all-reduces: the kernel, never the operator that launches it
    r"(?:[\w:]|\(anonymous namespace\))*(?:one_shot|two_shot|multimem)_\w*(?:reduce|gather|scatter)\w*kernel",
    r"\w*symm(?:etric)?_mem\w*(?:reduce|gather|scatter|all_to_all)",
    r"(?:\w+::)*(?:cross_device_reduce|quickreduce|lamport_\w*reduce|allreduce_fusion_kernel)\w*",
)
_COLLECTIVE = re.compile(rf"(?:void )?(?:{'|'.join(_LIBRARIES)})", re.IGNORECASE)
_LOOK = 1024
"""Characters of a name that are looked at: mangled ones have thousands, and the time grows with their square."""
_FAMILIES = (
    ("point_to_point", re.compile(r"send|recv|combine|dispatch", re.IGNORECASE)),
    ("all_to_all", re.compile(r"all_?to_?all", re.IGNORECASE)),
    ("broadcast", re.compile(r"broadcast|bcast", re.IGNORECASE)),
)
_SEND_RECV = re.compile(r"(?:nccl|rccl)(?:Dev)?Kernel_SendRecv", re.IGNORECASE)
_ANY = re.compile(r"(?:nccl|rccl)(?:Dev)?Kernel_Generic", re.IGNORECASE)


def is_collective(name: str) -> bool:
    """Return whether an event of this name is a collective or point-to-point transfer, whatever its category."""
    return _COLLECTIVE.match(name[:_LOOK]) is not None


def collective_family(name: str) -> str:
    """Return point_to_point, all_to_all, broadcast or collective."""
    return next((family for family, pattern in _FAMILIES if pattern.search(name)), "collective")


def is_any_collective(name: str) -> bool:
    """Return whether a kernel of this name runs any collective, so that the name does not say which."""
    return _ANY.match(name) is not None


def is_send_recv(name: str) -> bool:
    """Return whether a kernel of this name moves data from point to point, so that the name does not say with whom."""
    return _SEND_RECV.match(name) is not None


def resolved_collective(name: str, collective: str) -> str:
    """Return the name of such a kernel, without its parameters, with the collective that it ran."""
    return f"{name.partition('(')[0]}: {collective}"
