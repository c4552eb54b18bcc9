"""The rules of conftest.py themselves, by running pytest on small files with it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HEAD = "from __future__ import annotations\nimport pytest\n"


def run_pytest(folder: Path, **files: str) -> subprocess.CompletedProcess[str]:
    """Run pytest in ``folder`` on files given as name without suffix, "__" for a folder border."""
    shutil.copy(Path(__file__).with_name("conftest.py"), folder)
    (folder / "pytest.ini").write_text("[pytest]\nmarkers = e2e\n")
    for name, text in files.items():
        path = folder / f"{name.replace('__', '/')}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(HEAD + text)
    command = [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", "--import-mode=importlib", "."]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    "text",
    [
        "def test_b(): pytest.skip('no')\n",
        "pytest.skip('no', allow_module_level=True)\n",
        "@pytest.mark.xfail\ndef test_b(): assert False\n",
        "@pytest.mark.xfail\ndef test_b(): pass\n",
    ],
)
def test_a_run_that_leaves_a_test_out_fails(text: str, tmp_path: Path) -> None:
    done = run_pytest(tmp_path, test_x=text, test_y="def test_fine(): pass\n")
    assert done.returncode == 1, done.stdout
    assert "1 not run or expected to fail: this project allows neither" in done.stdout


def test_a_run_of_passing_tests_passes(tmp_path: Path) -> None:
    done = run_pytest(tmp_path, test_y="def test_fine(): pass\n")
    assert done.returncode == 0, done.stdout
    assert "allows neither" not in done.stdout


def test_the_end_to_end_tests_are_marked_and_run_last(tmp_path: Path) -> None:
    check = "def test_loop(request): assert request.node.get_closest_marker('e2e')\n"
    done = run_pytest(tmp_path, e2e__test_a=check, z__test_z="def test_unit(): pass\n")
    assert done.returncode == 0, done.stdout
    assert done.stdout.index("test_unit") < done.stdout.index("test_loop")


@pytest.mark.parametrize(
    "text",
    [
        "def test_a():\n"
        "    from torch.utils.data.dataloader import _BaseDataLoaderIter as Loader\n"
        "    inner = Loader.__next__\n"
        "    Loader.__next__ = lambda self: inner(self)\n",
        "def test_a():\n"
        "    from torch.optim.optimizer import register_optimizer_step_post_hook\n"
        "    register_optimizer_step_post_hook(lambda *_: None)\n",
    ],
)
def test_what_stays_hooked_fails_the_test(text: str, tmp_path: Path) -> None:
    done = run_pytest(tmp_path, test_x=text)
    assert done.returncode == 1
    assert "close the handle of instrument()" in done.stdout
