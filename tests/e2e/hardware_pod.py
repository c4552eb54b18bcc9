"""Plays a pod on this machine: runs the containers of a manifest in namespaces of their own, and tells what came of it.

Run as root by ``unshare --mount --net python hardware_pod.py pod FILE CONTAINER``. Paths, users, variables and the port
are those of the manifest. Rights are given up inside of Python, as it may lie where the user may not read.
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from eroica_hardware import agent as _agent  # noqa: F401   before the rights are gone
from eroica_hardware import main as agent_command
from eroica_otel.errors import HardwareError
from eroica_otel.hardware.announce import Announcement, announce
from eroica_otel.hardware.ringreader import open_rings
from eroica_otel.hardware.shared import trusted
from manifests import containers, environment, pod

TRAINER = 1000
PATIENCE_SECONDS = 60.0
_PR_SET_NO_NEW_PRIVS = 38
URL = "http://127.0.0.1:9466"


def drop(user: int) -> None:
    """Become a user without capabilities and without a way to get any (man 7 capabilities: leaving user 0)."""
    assert ctypes.CDLL(None).prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)


def mount(*words: str) -> None:
    subprocess.run(["mount", *words], check=True)


def until(reached: Callable[[], Any]) -> Any:
    """Return the first true answer, or the last one when time is over."""
    end = time.monotonic() + PATIENCE_SECONDS
    while not (answer := reached()) and time.monotonic() < end:
        time.sleep(0.05)
    return answer


def fetched(path: str) -> str:
    try:
        with urllib.request.urlopen(URL + path, timeout=20) as answer:
            return str(answer.read().decode())
    except OSError:
        return ""


def play(file: str, name: str) -> dict[str, Any]:
    """Make the volume as a kubelet does, start agent and worker, return what they told."""
    given = pod(file)
    container = containers(given)[name]
    (place,) = (each["mountPath"] for each in container["volumeMounts"])
    mount("--make-rprivate", "/")
    mount("-t", "tmpfs", "-o", "mode=0755", "none", "/run")
    os.mkdir(place)
    mount("-t", "tmpfs", "-o", "mode=0777" if file == "sidecar" else "mode=0755", "none", place)
    mount("-o", "remount,bind,ro", "/")
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    if "folder" in containers(given):
        step = containers(given)["folder"]
        may = ",".join(["-all", *(f"+{each.lower()}" for each in step["securityContext"]["capabilities"]["add"])])
        limits = ["setpriv", "--no-new-privs", f"--bounding-set={may}", f"--inh-caps={may}"]
        subprocess.run([*limits, *step["command"]], check=True)
    user = (given["spec"].get("securityContext", {}) | container["securityContext"])["runAsUser"]
    environments = environment(container)
    running = subprocess.Popen([sys.executable, __file__, "agent", str(user)], env=os.environ | environments)
    try:
        told = {
            "healthy": until(lambda: running.poll() is not None or fetched("/-/healthy")),
            "rights": rights(running),
        }
        told["worker"] = ask_worker(place, environments)
        told["page"] = fetched("/metrics")
    finally:
        running.terminate()
    return told | {"code": running.wait(timeout=30)}


def rights(running: subprocess.Popen[bytes]) -> dict[str, str]:
    lines = Path(f"/proc/{running.pid}/status").read_text().splitlines()
    return dict(line.split(":\t") for line in lines if line.startswith(("CapEff", "CapPrm", "NoNewPrivs", "Uid")))


def ask_worker(place: str, environments: Mapping[str, str]) -> dict[str, Any]:
    """Run the worker in a container of its own, which sees the volume read-only, and no processes but its own."""
    apart = ["unshare", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child"]
    command = [*apart, sys.executable, __file__, "worker", place]
    done = subprocess.run(command, env=os.environ | environments, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def work(place: str) -> dict[str, Any]:
    """Announce a window and read what is sampled, as another user than the agent's; try to write."""
    mount("-o", "remount,bind,ro", place)
    drop(TRAINER)
    folder = Path(os.environ.get("EROICA_HARDWARE_DIR", "/run/eroica-hardware"))
    said = Announcement(0, os.getpid(), 1_764_430_000, 1.0)
    refusal = announce(folder, said, trusted(folder), patience_seconds=10)
    rows = until(lambda: sampled(folder))
    try:
        (folder / "mine").touch()
    except OSError as error:
        return {"refusal": refusal, "rows": rows, "written": error.strerror}
    return {"refusal": refusal, "rows": rows, "written": "done"}


def sampled(folder: Path) -> dict[str, int]:
    """Return the samples in each ring, {} until each has one."""
    try:
        rings, refused = open_rings(folder, trusted(folder))
    except HardwareError:
        return {}
    rows = {name: len(ring.read(0, time.monotonic_ns()).times) for name, ring in rings.items()}
    for ring in rings.values():
        ring.close()
    return rows if rows and all(rows.values()) and not refused else {}


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["pod", file, name]:
            print(json.dumps(play(file, name)))
        case ["agent", user]:
            drop(int(user))
            sys.exit(agent_command.main([]))
        case ["worker", place]:
            print(json.dumps(work(place)))
