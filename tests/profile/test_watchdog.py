"""faulthandler's timer in processes of its own: what it writes while C holds the interpreter's lock; whose it is."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from eroica_otel.profile.frozen import parse_dump, parse_spy, resolve

HEAD = """
import ctypes, faulthandler, os, sys, threading, time
from pathlib import Path
from eroica_otel.profile.watchdog import Watchdog, _is_timer
path = Path(sys.argv[1])
def timers():
    return [thread for thread in os.listdir("/proc/self/task") if _is_timer(thread)]
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
        ctypes.PyDLL(None).usleep(1_500_000)  # C that does not let go of the lock
def train():
    Model().output
watchdog = Watchdog(path, 0.5)
watchdog.tick()
train()
print(threading.get_ident())
"""


def test_the_stack_of_a_call_that_holds_the_lock_is_written_and_resolved(tmp_path: Path) -> None:
    (ident,), path = run(tmp_path, HOLD)
    raw = parse_dump(path.read_text(), int(ident))
    assert [name for _, name, _ in raw] == ["<module>", "train", "output", "forward"]
    lines = (HEAD + HOLD).splitlines()
    place = [lines.index(text) + 1 for text in ("    @property", "    def forward(self):")]
    frames = resolve(raw)
    assert {frame.module for frame in frames} == {"__main__"}
    assert [frame.line for frame in frames[2:]] == place
    assert frames[-1].qualname in ("Model.forward", "forward")  # 3.10 does not know the class


def test_while_the_1_hz_thread_runs_nothing_is_written(tmp_path: Path) -> None:
    said, path = run(
        tmp_path,
        """
watchdog = Watchdog(path, 30.0)
for _ in range(3):
    watchdog.tick()
    print(len(timers()))
watchdog.close()
print(len(timers()))
""",
    )
    assert said == ["1", "1", "1", "0"]
    assert path.read_text() == ""


@pytest.mark.parametrize(
    "source",
    [
        "faulthandler.dump_traceback_later(60)\nwatchdog.tick()",  # set before ours
        "watchdog.tick()\nfaulthandler.dump_traceback_later(60)\nwatchdog.tick()",  # set after ours, which it replaces
    ],
)
def test_a_timer_of_the_training_is_left_alone(source: str, tmp_path: Path) -> None:
    said, _ = run(
        tmp_path,
        f"watchdog = Watchdog(path, 30.0)\n{source}\ntheirs = timers()\n"
        "watchdog.tick(); watchdog.before_fork(); watchdog.close()\n"
        "print(bool(watchdog.off), len(theirs), timers() == theirs)\n",
    )
    assert said == ["True 1 True"]


def test_a_child_that_was_forked_ends(tmp_path: Path) -> None:
    """The child has the locks of the timer but not its thread, for which it would wait at its end."""
    said, _ = run(
        tmp_path,
        """
watchdog = Watchdog(path, 30.0)
os.register_at_fork(before=watchdog.before_fork, after_in_parent=watchdog.after_fork)
watchdog.tick()
child = os.fork()
if not child:
    sys.exit(7)
for _ in range(100):
    done, status = os.waitpid(child, os.WNOHANG)
    if done:
        break
    time.sleep(0.1)
else:
    os.kill(child, 9)
watchdog.tick()
print(os.waitstatus_to_exitcode(status), len(timers()))
""",
    )
    assert said == ["7 1"]


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
