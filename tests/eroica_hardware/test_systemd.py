"""The unit of systemd: that it says what the agent needs and nothing more, and that systemd understands it."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

from eroica_hardware.options import OPTIONS
from eroica_otel.config import HARDWARE_DIRECTORY

ROOT = Path(__file__).parents[2]
UNIT = ROOT / "exporters" / "systemd" / "eroica-hardware.service"
MOST_EXPOSED = 20
"""Of systemd-analyze security, which says 16 of 100 (1.6); a unit without any of its restrictions has 96."""


def settings() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in UNIT.read_text("utf-8").splitlines():
        name, equals, value = line.partition("=")
        if equals and not line.startswith("#"):
            found.setdefault(name, []).append(value)
    return found


def test_the_unit_and_the_agent_mean_the_same_folder_and_command() -> None:
    said = settings()
    assert said["RuntimeDirectory"] == [HARDWARE_DIRECTORY.removeprefix("/run/")]
    assert said["RuntimeDirectoryMode"] == ["0755"]
    assert Path(said["ExecStart"][0]).name in (ROOT / "pyproject.toml").read_text("utf-8")


def test_variables_in_its_comments_exist() -> None:
    named = set(re.findall(r"EROICA_\w+", UNIT.read_text("utf-8")))
    assert named
    assert named <= {option.metadata["variable"] for option in OPTIONS.values()}


def test_it_is_begun_anew_after_what_the_agent_ends_for_and_not_after_wrong_usage() -> None:
    said = settings()
    assert (said["Restart"], said["RestartPreventExitStatus"]) == (["always"], ["2"])


def test_it_has_no_capability_and_only_the_device_files_of_gpus() -> None:
    said = settings()
    assert said["CapabilityBoundingSet"] == said["AmbientCapabilities"] == [""]
    assert said["DevicePolicy"] == ["closed"]
    assert said["DeviceAllow"] == ["char-nvidia* rw"]
    assert said["User"] != ["root"]


def test_systemd_understands_it_and_finds_it_hardened(tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:  # a system without systemd has no use for the unit either
        return
    unit = tmp_path / UNIT.name
    unit.write_text(UNIT.read_text("utf-8").replace(settings()["ExecStart"][0], "/bin/true"))
    done = subprocess.run([analyze, "verify", unit], capture_output=True, text=True, check=False)
    assert (done.returncode, UNIT.name in done.stderr) == (0, False), done.stderr
    judged: list[str | Path] = [analyze, "security", "--offline=yes", "--no-pager", f"--threshold={MOST_EXPOSED}", unit]
    assert subprocess.run(judged, capture_output=True, check=False).returncode == 0
