"""Which GPUs this process trains on: takes torch.cuda as the training has it, gives UUIDs and PCI addresses.

CUDA numbers only what CUDA_VISIBLE_DEVICES leaves, in an order of its own, so that a number says nothing to anybody
else: the agent and DCGM know a GPU by its UUID, sysfs by its address. CUDA is never initialised from here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eroica_otel.hardware.columns import names, text_of
from eroica_otel.hardware.host import PROC, SYS

NO_GPU = "the process uses no GPU"
PART = "the GPU is cut into instances (MIG): its counters are those of no single rank"
UNKNOWN = "torch does not tell which GPU it is: a newer one does, or CUDA_VISIBLE_DEVICES with UUIDs"


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU.

    Attributes:
        uuid: As NVML spells it, "GPU-" in front; "" where it is not known.
        address: PCI address as in sysfs, "0000:83:00.0"; "" where it is not known.
        device: Its name in the agent's rings: the UUID, of an AMD GPU its unique_id; "" where it is not known.
        part: Whether the process has a part of it only (MIG).
    """

    uuid: str
    address: str
    device: str
    part: bool = False


def current_gpu(cuda: Any) -> int | None:
    """Return the calling thread's device as CUDA numbers it, None where the process uses none; raises as gpus_of."""
    return int(cuda.current_device()) if cuda is not None and cuda.is_initialized() else None


def gpus_of(
    cuda: Any, environment: Mapping[str, str], current: int | None = None, proc: Path = PROC, sys: Path = SYS
) -> tuple[Gpu, ...]:
    """Return the GPUs on which the process holds memory, the training thread's first; () where it uses none.

    ``cuda`` is the module torch.cuda, None where torch is not imported; ``current`` what ``current_gpu`` said on the
    training thread, None where it was not asked yet. Raises what torch raises: RuntimeError after an error on the
    device, AttributeError for a torch that has other names.
    """
    if cuda is None or not cuda.is_initialized():
        return ()
    held = _held(cuda)
    if current is not None and (not held or current in held):
        held = [current, *(number for number in held if number != current)]
    return tuple(_gpu(cuda.get_device_properties(number), number, environment, proc, sys) for number in held)


def _held(cuda: Any) -> list[int]:
    """Return the devices on which torch's own allocator holds memory.

    It only looks at numbers of its own. Others ask CUDA, which might give the process a context on each device.
    """
    try:
        if cuda.get_allocator_backend() != "native":
            return []
        return [number for number in range(int(cuda.device_count())) if cuda.memory_reserved(number) > 0]
    except (AttributeError, RuntimeError):
        return []


def _gpu(properties: Any, number: int, environment: Mapping[str, str], proc: Path, sys: Path) -> Gpu:
    uuid, address = _spelled(str(getattr(properties, "uuid", ""))), _address(properties)
    known = {} if uuid and address else _driver_table(proc)  # for each file in it the driver may ask the GPU
    visible = _visible(environment, number)
    uuid = uuid or known.get(address, "") or (visible if visible.startswith("GPU-") else "")
    address = address or next((place for place, found in known.items() if found == uuid), "")
    unique = text_of(sys / "bus" / "pci" / "devices" / address / "unique_id") if address else ""
    part = visible.startswith("MIG-") or " MIG " in str(getattr(properties, "name", ""))
    return Gpu(uuid, address, unique or uuid, part)


def _visible(environment: Mapping[str, str], number: int) -> str:
    listed = environment.get("CUDA_VISIBLE_DEVICES", "").split(",")
    return listed[number].strip() if number < len(listed) else ""


def _spelled(uuid: str) -> str:
    """Return NVML's spelling of what torch tells: without "GPU-", of a GPU without a UUID all zeros."""
    digits = uuid.removeprefix("GPU-").lower()
    return f"GPU-{digits}" if digits.strip("0-") else ""


def _address(properties: Any) -> str:
    """Return the address as in sysfs: newer versions of torch tell three numbers."""
    try:
        domain, bus, device = (int(getattr(properties, f"pci_{name}_id")) for name in ("domain", "bus", "device"))
    except (AttributeError, TypeError, ValueError):
        return ""
    return f"{domain:04x}:{bus:02x}:{device:02x}.0"


def _driver_table(proc: Path) -> dict[str, str]:
    """Return address -> UUID of the GPUs that NVIDIA's driver lists in /proc, {} where it does not."""
    folder = proc / "driver" / "nvidia" / "gpus"
    found = {}
    for address in names(folder):
        lines = text_of(folder / address / "information").splitlines()
        uuid = [line.partition(":")[2].strip() for line in lines if line.startswith("GPU UUID")]
        if uuid:
            found[address.lower()] = uuid[0]
    return found


def unreadable(gpus: tuple[Gpu, ...]) -> str:
    """Return why nobody's counters are those of this process' GPUs, "" where some are."""
    if not gpus:
        return NO_GPU
    if any(gpu.part for gpu in gpus):
        return PART
    return "" if all(gpu.device for gpu in gpus) else UNKNOWN
