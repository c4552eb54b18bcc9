"""What an NVIDIA GPU is, beside what it does: model, driver, PCI address and number, for joins with other exporters.

Facts: NVML API reference, device and system queries. What the GPU does not tell is left out.
"""

from __future__ import annotations

from collections.abc import Callable

from eroica_hardware.gpus import Handle, Nvml, failures


def pci_address(text: str) -> str:
    """Return "00000000:83:00.0" as sysfs writes it, "0000:83:00.0"; raises ValueError for another form."""
    domain, bus, device = text.strip().lower().split(":")
    return f"{int(domain, 16):04x}:{bus}:{device}"


def _text(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def facts(nvml: Nvml, handle: Handle) -> dict[str, str]:
    """Return labels of one GPU; never raises."""
    asked: dict[str, Callable[[], str]] = {
        "hw_model": lambda: _text(nvml.nvmlDeviceGetName(handle)),
        "hw_driver_version": lambda: _text(nvml.nvmlSystemGetDriverVersion()),
        "pci_bus_id": lambda: pci_address(_text(nvml.nvmlDeviceGetPciInfo(handle).busId)),
        "gpu": lambda: str(int(nvml.nvmlDeviceGetIndex(handle))),
    }
    found = {}
    for label, ask in asked.items():
        try:
            found[label] = ask()
        except failures(nvml):
            continue
    return found
