"""A real shared folder that is full, then read-only, and then has room again; the agent's parts go on and say so.

Needs a mount namespace of its own; where none is permitted, that is what is found out here.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

SCRIPT = """
import os, subprocess, sys, time
from pathlib import Path
from eroica_hardware.listener import hold, listen
from eroica_hardware.rings import KeptRing
from eroica_otel.errors import HardwareError
from eroica_otel.hardware.ringreader import open_ring
from eroica_otel.hardware.shared import open_folder
from eroica_otel.hardware.source import Resource

place = Path(sys.argv[1])
RESOURCES = (Resource("r", "", "1", 1.0, False),)

def tried(call):
    try:
        call()
    except (OSError, HardwareError) as error:
        return getattr(error, "strerror", None) or str(error)
    return "done"

subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "none", place], check=True)
folder = open_folder(place)
ring = KeptRing(folder, "net")
print(tried(lambda: ring.prepare(RESOURCES, time.monotonic_ns())), sorted(os.listdir(folder)))

small = KeptRing(folder, "small", slots=100)
small.prepare(RESOURCES, time.monotonic_ns())
(place / "filler").write_bytes(b"x" * (os.statvfs(place).f_bavail * os.statvfs(place).f_bsize))
small.append(time.monotonic_ns(), [1.0])  # its space was taken at the beginning
print(len(open_ring(folder, "small.ring").read(0, time.monotonic_ns()).times))

subprocess.run(["mount", "-o", "remount,ro", place], check=False)
small.close()
subprocess.run(["mount", "-o", "remount,ro", place], check=True)
again = open_folder(place)
for call in (lambda: KeptRing(again, "net").prepare(RESOURCES, 1), lambda: listen(again), lambda: hold(again)):
    print(tried(call))

subprocess.run(["mount", "-o", "remount,rw,size=8m", place], check=True)
ring.prepare(RESOURCES, time.monotonic_ns())
ring.append(time.monotonic_ns(), [1.0])
print(len(open_ring(folder, "net.ring").read(0, time.monotonic_ns()).times), tried(lambda: listen(folder)))
"""


def test_a_folder_that_is_full_or_read_only_is_told_and_used_again_when_it_is_not(tmp_path: Path) -> None:
    command = ["unshare", "--map-root-user", "--mount"]
    subprocess.run([*command, "mount", "-t", "tmpfs", "none", tmp_path], check=True)  # root, or user namespaces
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(
        [*command, sys.executable, "-c", SCRIPT, tmp_path], env=environment, capture_output=True, text=True, check=False
    )
    assert done.stdout.splitlines() == [
        "No space left on device []",
        "1",
        "Read-only file system",
        "announce.sock in the shared folder cannot be made: Read-only file system",
        "agent.lock in the shared folder cannot be made: Read-only file system",
        "1 done",
    ], done.stderr
