"""``eroica-hardware check`` and the command around it: what a person reads, and exit codes."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from eroica_hardware import check, passwords
from eroica_hardware.gpm import GpmSource
from eroica_hardware.main import main
from eroica_hardware.nvml import NvmlSource
from eroica_otel.hardware.net import SYS
from factories_hardware import Turned
from factories_nvml import Gpu, Recorded


def test_what_the_gpus_tell_and_what_not() -> None:
    nvml = Recorded(Gpu("h200", "GPU-a"), Gpu("h200_mig", "GPU-m"))
    found = [check.look("nvml", NvmlSource(nvml, Turned()), lambda seconds: None)]
    found.append(check.look("gpm", GpmSource(nvml, Turned()), lambda seconds: None))
    lines = list(check.table(found))
    assert lines[1].split() == ["nvml", str(found[0].resources), str(found[0].known), "GPU-a,", "GPU-m"]
    assert found[0].known == found[0].resources > 30
    assert "  gpm       the GPU is cut into instances (MIG): its activity is that of no single rank: GPU-m" in lines
    (not_supported,) = (line for line in lines if line.startswith("  nvml      not supported"))
    whole = " ".join(" ".join(lines[lines.index(not_supported) :]).split())
    assert "retired_pages_dbe, retired_pages_sbe of 2 devices" in whole
    assert "gpu_util, mem_util" in whole
    assert max(map(len, lines)) <= check.WIDTH


def test_a_source_without_anything_says_what_it_needs() -> None:
    nvml = Recorded()
    nvml.driver = 12
    row = check.look("nvml", NvmlSource(nvml, Turned()), lambda seconds: None)
    lines = list(check.table([row]))
    assert lines[1].split() == ["nvml", "0", "0", "-"]
    assert lines[-2:] == [
        "  nvml      nvml shared library not found",
        "  nvml      it needs an NVIDIA GPU, its driver and nvidia-ml-py",
    ]


def test_a_source_that_waits_for_workers_says_so_and_is_no_failure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nobody has announced a window to a check, so that it can know of no other network namespace."""
    assert main(["check", "--dir", str(tmp_path), "--sources", "netns"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "netns it needs a worker in another network namespace, which has announced a window" in said


def test_a_long_name_is_set_off_from_its_reason() -> None:
    nvml = Recorded()
    nvml.driver = 12
    rows = [check.look(name, NvmlSource(nvml, Turned(), quick=name == "nvml")) for name in ("nvml", "nvml_state")]
    lines = list(check.table(rows))
    assert "  nvml        nvml shared library not found" in lines
    assert "  nvml_state  nvml shared library not found" in lines
    assert len({line.index("0  ") for line in lines[1:3]}) == 1


def test_the_command_on_this_machine(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "shared"
    assert main(["check", "--dir", str(folder), "--sources", "net,pressure"]) == 0
    said = capsys.readouterr().out
    assert any(interface in said for interface in os.listdir(SYS / "class" / "net"))
    assert f"shared folder: {folder}: missing; the agent makes it" in said
    assert not folder.exists()


def test_what_was_asked_for_by_name_and_is_not_there_is_a_failure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["check", "--dir", str(tmp_path), "--dcgm", "http://127.0.0.1:1/metrics"]
    assert main([*words, "--sources", "dcgm,net"]) == 3
    assert "asked for by --sources and not there, hence exit code 3: dcgm" in capsys.readouterr().out
    assert main(words) == 0
    said = capsys.readouterr().out
    assert "dcgm        the exporter does not answer" in said
    assert said.endswith("no failure (exit code 0), unless it is asked for by --sources\n")


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--sources", "x"], "eroica-hardware: there is no source x; there are nvml, gpm"),
        (["check", "me"], "eroica-hardware: 'me' is one word too many"),
        (["password"], "eroica-hardware: give the name of the user"),
        (["--password-file", "/nowhere"], "eroica-hardware: --password-file /nowhere: No such file"),
        (["--dir", "/proc/nowhere"], "eroica-hardware: /proc/nowhere cannot be made"),
        (["--dir", "/nowhere/at/all"], "eroica-hardware: /nowhere/at/all cannot be made: /nowhere/at is missing"),
    ],
)
def test_wrong_usage_ends_with_2_and_a_remedy(
    words: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    assert capsys.readouterr().err.startswith(complaint)


def test_a_crash_ends_with_3_and_says_where(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    def crash(*arguments: object) -> None:
        raise RuntimeError("unforeseen")

    monkeypatch.setattr("eroica_hardware.main.Agent", crash)
    assert main(["--dir", str(tmp_path / "shared")]) == 3
    assert "please report what follows" in caplog.text
    assert "RuntimeError: unforeseen" in caplog.text


def test_a_link_in_place_of_the_folder_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "there")
    assert main(["--dir", str(tmp_path / "link")]) == 2
    assert "give a folder that this user may write by --dir" in capsys.readouterr().err


def test_a_password_from_a_pipe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("secret\n"))
    assert main(["password", "prom"]) == 0
    (tmp_path / "users").write_text(capsys.readouterr().out)
    assert passwords.read(str(tmp_path / "users"))["prom"].matches(b"secret")


def test_the_agent_imports_neither_torch_nor_the_sdk_of_opentelemetry() -> None:
    code = (
        "import sys, eroica_hardware.main\n"
        "heavy = {'torch', 'opentelemetry', 'opentelemetry.sdk', 'grpc', 'pynvml'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
