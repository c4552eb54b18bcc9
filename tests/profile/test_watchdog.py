"""The signal on which a thread writes its own stack, in processes of its own; what is read from it, and from py-spy."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from eroica_otel.profile.frozen import parse_dump, parse_spy, resolve

HEAD = """
import ctypes, faulthandler, os, signal, sys, threading, time
from pathlib import Path
from eroica_otel.profile.asking import Question, send
from eroica_otel.profile.watchdog import Watchdog, handles, task_of
path = Path(sys.argv[1])
def handled():
    return handles(Path("/proc/self/status").read_text(), signal.SIGURG)
"""


def run(tmp_path: Path, source: str) -> tuple[list[str], Path]:
    """Run ``source`` after HEAD in a Python of its own; return the lines that it printed, and the watchdog's file."""
    script, path = tmp_path / "script.py", tmp_path / "watchdog"
    script.write_text(HEAD + source)
    done = subprocess.run([sys.executable, script, path], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines(), path


HOLD = """
class Model:
    @property
    def output(self):
        return self.forward()
    def forward(self):
        ctypes.PyDLL(None).usleep(600_000)  # C that does not let go of the lock
def train():
    Model().output
watchdog = Watchdog(path)
task = task_of(threading.get_ident())
child = os.fork()
if not child:
    time.sleep(0.3)
    send(os.getppid(), task)
    os._exit(0)
train()
os.waitpid(child, 0)
print(os.getpid() == task)
"""


def test_the_stack_of_a_call_that_holds_the_lock_is_written_and_resolved(tmp_path: Path) -> None:
    said, path = run(tmp_path, HOLD)
    assert said == ["True"]
    raw = parse_dump(path.read_text())
    assert [name for _, name, _ in raw] == ["<module>", "train", "output", "forward"]
    lines = (HEAD + HOLD).splitlines()
    place = [lines.index(text) + 1 for text in ("    @property", "    def forward(self):")]
    frames = resolve(raw)
    assert {frame.module for frame in frames} == {"__main__"}
    assert [frame.line for frame in frames[2:]] == place
    assert frames[-1].qualname in ("Model.forward", "forward")  # 3.10 does not know the class


def test_unasked_nothing_is_written_and_in_the_end_a_signal_does_nothing(tmp_path: Path) -> None:
    said, path = run(
        tmp_path,
        """
watchdog = Watchdog(path)
print(handled())
watchdog.close()
watchdog.close()
print(handled())
send(os.getpid(), threading.get_native_id())
""",
    )
    assert said == ["True", "False"]
    assert path.read_text() == ""


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_handler_of_the_training_is_left_alone(when: str, tmp_path: Path) -> None:
    """Set before ours, ours is not set; set after ours, which it replaces, it is not taken away."""
    theirs = "got = []\nsignal.signal(signal.SIGURG, lambda *_: got.append(1))\n"
    ours = "watchdog = Watchdog(path)\n"
    said, _ = run(
        tmp_path,
        f"{theirs + ours if when == 'before' else ours + theirs}"
        "watchdog.close(); send(os.getpid(), threading.get_native_id())\nprint(got, bool(watchdog.off))\n",
    )
    assert said == ["[1] True"]


def test_a_child_that_was_forked_lets_go_and_may_set_its_own(tmp_path: Path) -> None:
    said, _ = run(
        tmp_path,
        """
watchdog = Watchdog(path)
child = os.fork()
if not child:
    watchdog.forget()
    free = not handled()
    again = Watchdog(Path(f"{path}-child"))
    sys.exit(7 if free and not again.off else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), handled())
""",
    )
    assert said == ["7 True"]


def test_what_py_spy_says_is_read_outermost_first() -> None:
    threads = [
        {"thread_id": 5, "frames": [{"name": "other", "filename": "a.py", "line": 1}]},
        {
            "thread_id": 7,
            "frames": [
                {"name": "Model.forward", "filename": "m.py", "line": 9},
                {"name": "<module>", "filename": "m.py", "line": 20},
            ],
        },
    ]
    assert parse_spy(threads, 7) == [("m.py", "<module>", 20), ("m.py", "forward", 9)]
    assert parse_spy(threads, 8) == []
    with pytest.raises(ValueError, match="another version of py-spy"):
        parse_spy([{"id": 7}], 7)


def test_what_has_no_source_stays_bare() -> None:
    (frame,) = resolve([("/nowhere/model.py", "forward", 12)])
    assert frame == ("model", "forward", "/nowhere/model.py", 12)


def test_a_module_has_the_name_under_which_it_is_imported() -> None:
    frames = resolve([(subprocess.__file__, "run", 550)])
    assert frames[0].module == "subprocess"
