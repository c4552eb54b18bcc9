"""The agent with the rights that the manifests give it, and a worker of another user, in both kinds of shared folder.

No cluster: namespaces of this machine stand for the containers (hardware_pod.py), so it needs root, as nodes do.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PLAY = Path(__file__).with_name("hardware_pod.py")


def played(file: str, name: str) -> dict[str, Any]:
    path = os.pathsep.join(filter(None, sys.path))
    done = subprocess.run(
        ["unshare", "--mount", "--net", sys.executable, str(PLAY), "pod", file, name],
        env=os.environ | {"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


@pytest.mark.parametrize(("file", "name"), [("sidecar", "hardware"), ("daemonset", "agent")])
def test_an_agent_without_any_right_serves_a_worker_that_only_reads(file: str, name: str) -> None:
    told = played(file, name)
    assert told["healthy"] == "healthy\n"
    user = "\t".join(["65532"] * 4)
    nothing = "0" * 16
    assert told["rights"] == {"Uid": user, "CapPrm": nothing, "CapEff": nothing, "NoNewPrivs": "1"}
    assert told["worker"]["refusal"] == ""
    assert told["worker"]["written"] == "Read-only file system"
    assert "pressure.ring" in told["worker"]["rows"]
    assert ("net.ring" in told["worker"]["rows"]) is (file == "sidecar")
    assert 'eroica_hardware_announcements_total{host="node-7",outcome="accepted"} 1.0' in told["page"]
    assert told["code"] == 0
