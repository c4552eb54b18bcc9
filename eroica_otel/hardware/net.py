"""Which network interface the collectives use, and its speed: takes the environment and sysfs."""

from __future__ import annotations

import socket
import struct
from collections.abc import Mapping
from pathlib import Path

SYS = Path("/sys")
PROC = Path("/proc")


def find_interface(environment: Mapping[str, str], wanted: str = "", sys: Path = SYS, proc: Path = PROC) -> str:
    """Return the interface of the collectives, "" when it cannot be told.

    In this order: ``wanted``, GLOO_SOCKET_IFNAME or NCCL_SOCKET_IFNAME (first of a list, exact names), the interface
    that leads to MASTER_ADDR.
    """
    names = [wanted, environment.get("GLOO_SOCKET_IFNAME", ""), environment.get("NCCL_SOCKET_IFNAME", "")]
    for name in names:
        first = name.split(",")[0].lstrip("=")
        if first and (sys / "class" / "net" / first).exists():
            return first
    address = environment.get("MASTER_ADDR", "")
    try:
        number = socket.inet_aton(socket.gethostbyname(address)) if address else b""
    except (OSError, UnicodeError):
        return ""
    return _route(number, proc) if number else ""


def _route(address: bytes, proc: Path) -> str:
    if address[0] == 127 or address == b"\0\0\0\0":
        return "lo"
    try:
        lines = (proc / "net" / "route").read_text().splitlines()[1:]
    except OSError:
        return ""
    target = struct.unpack("=I", address)[0]
    best, name = -1, ""
    for line in lines:
        interface, destination, _, _, _, _, _, mask = line.split()[:8]
        bits = int(mask, 16)
        if target & bits == int(destination, 16) and bits.bit_count() > best:
            best, name = bits.bit_count(), interface
    return name


def peak_bytes_per_second(interface: str, mbit: float = 0.0, sys: Path = SYS) -> float | None:
    """Return the link speed: ``mbit`` where given, else what the interface says; None where it is silent (loopback)."""
    if mbit > 0:
        return mbit * 1e6 / 8
    try:
        speed = int((sys / "class" / "net" / interface / "speed").read_text())
    except (OSError, ValueError):
        return None
    return speed * 1e6 / 8 if speed > 0 else None
