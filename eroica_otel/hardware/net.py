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

    In this order: ``wanted``, GLOO_SOCKET_IFNAME (exact names), NCCL_SOCKET_IFNAME (prefixes, after "=" exact names;
    NCCL documentation, environment variables), each the first of its list that is there, the interface that leads to
    MASTER_ADDR.
    """
    there = sorted(path.name for path in folder.iterdir()) if (folder := sys / "class" / "net").is_dir() else []
    nccl = environment.get("NCCL_SOCKET_IFNAME", "")
    prefixes = not nccl.startswith("=")
    lists = (
        (wanted, False),
        (environment.get("GLOO_SOCKET_IFNAME", ""), False),
        ("" if nccl.startswith("^") else nccl.removeprefix("="), prefixes),
    )
    for text, prefix in lists:
        for name in filter(None, (item.strip() for item in text.split(","))):
            found = [one for one in there if one == name] or [one for one in there if prefix and one.startswith(name)]
            if found:
                return found[0]
    return next(filter(None, (_route(one, proc) for one in _addresses(environment.get("MASTER_ADDR", "")))), "")


def _addresses(host: str) -> list[bytes]:
    """Return the addresses of a host, each of 4 or 16 bytes, those of IPv4 first; [] where nobody knows it."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM) if host else []
        packed = [socket.inet_pton(family, str(address[0]).partition("%")[0]) for family, _, _, _, address in found]
    except (OSError, UnicodeError):
        return []
    mapped = b"\0" * 10 + b"\xff\xff"
    return sorted((one[12:] if one.startswith(mapped) and len(one) == 16 else one for one in packed), key=len)


def _route(address: bytes, proc: Path) -> str:
    number = int.from_bytes(address, "big")
    if number == 0 or (address[0] == 127 if len(address) == 4 else number == 1):
        return "lo"
    try:
        return _route4(address, proc) if len(address) == 4 else _route6(number, proc)
    except (OSError, ValueError, LookupError):
        return ""


def _route4(address: bytes, proc: Path) -> str:
    lines = (proc / "net" / "route").read_text().splitlines()[1:]
    target = struct.unpack("=I", address)[0]
    best, name = -1, ""
    for line in lines:
        interface, destination, _, _, _, _, _, mask = line.split()[:8]
        bits = int(mask, 16)
        if target & bits == int(destination, 16) and bits.bit_count() > best:
            best, name = bits.bit_count(), interface
    return name


def _route6(target: int, proc: Path) -> str:
    """Look in /proc/net/ipv6_route: destination, length of its prefix, ..., metric (6th), ..., interface (10th)."""
    best, name = (-1, 0), ""
    for line in (proc / "net" / "ipv6_route").read_text().splitlines():
        fields = line.split()
        length, rest = int(fields[1], 16), 128 - int(fields[1], 16)
        rank = (length, -int(fields[5], 16))
        # What is refused, and addresses of this machine, go to lo; another route leads to them as well.
        if fields[9] != "lo" and target >> rest == int(fields[0], 16) >> rest and rank > best:
            best, name = rank, fields[9]
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
