"""instrument(), from the first line to close(), in real processes with real torch."""

from __future__ import annotations

import gc
import json
import logging
import os
import pickle
import subprocess
import sys
import textwrap
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from opentelemetry.sdk.metrics import MeterProvider
from torch.utils.data import DataLoader, Dataset
from torch.utils.data._utils import worker as worker_module

import eroica_otel
from eroica_otel import plugin, worker
from eroica_otel.export.metered import Metered
from eroica_otel.plugin import Guard, Handle, instrument, step, watch_input
from eroica_otel.profile.loaders import WorkerLoop


class Items(Dataset[int]):
    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> int:
        return index


class Job:
    """What worker.start would have made: it only notes when it is started and ended."""

    def __init__(self) -> None:
        self.events: list[object] = []

    def start(
        self, recorder: Any, config: Any, guard: Any, say: Any, disable: Any, again: Any, metered: Any = None
    ) -> Any:
        self.events.append("start")
        self.metered = metered
        self.again = again
        return self

    def stop(self, wait: bool) -> None:
        self.events.append(("stop", wait))


@pytest.fixture
def job(monkeypatch: pytest.MonkeyPatch) -> Job:
    made = Job()
    monkeypatch.setattr(worker, "start", made.start)
    return made


@pytest.fixture(autouse=True)
def _nobody_is_attached() -> Iterator[None]:
    assert plugin._ACTIVE == []
    plugin._COUNTED.clear()
    yield
    while plugin._ACTIVE:
        plugin._ACTIVE[-1].close()


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("EROICA_")]:
        monkeypatch.delenv(name)


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def test_nothing_starts_before_the_first_event_and_everything_once_at_it(job: Job) -> None:
    handle = instrument()
    assert job.events == []
    assert len(list(DataLoader(Items()))) == 4
    assert len(list(DataLoader(Items()))) == 4
    assert job.events == ["start"]
    handle.close()
    assert job.events == ["start", ("stop", True)]
    handle.close()
    list(DataLoader(Items()))
    assert job.events == ["start", ("stop", True)]


def test_a_second_call_gives_the_first_handle_and_says_that_its_options_do_nothing(
    job: Job, caplog: pytest.LogCaptureFixture
) -> None:
    handle = instrument(role="a")
    assert instrument() is handle
    assert warnings(caplog) == []
    assert instrument(role="b") is handle
    assert handle.config.role == "a"
    assert warnings(caplog) == ["eroica_otel: config: attached already: role not changed"]


def test_it_can_be_attached_again_after_close(job: Job) -> None:
    instrument().close()
    again = instrument()
    list(DataLoader(Items()))
    assert job.events == ["start"]
    assert len(again.recorder.rows) == 4


def test_a_meter_provider_gets_one_set_of_instruments_however_often_it_is_given(job: Job) -> None:
    provider = MeterProvider(shutdown_on_exit=False)
    handle = instrument(meter_provider=provider, role="a")
    assert (handle.config.own_provider, handle.config.role) == (True, "a")
    list(DataLoader(Items()))
    first = job.metered
    assert isinstance(first, Metered)
    handle.close()
    instrument(meter_provider=provider)
    list(DataLoader(Items()))
    assert job.metered is first
    plugin._ACTIVE[-1].close()
    instrument(meter_provider=MeterProvider(shutdown_on_exit=False))
    list(DataLoader(Items()))
    assert isinstance(job.metered, Metered)
    assert job.metered is not first


def test_without_a_meter_provider_the_helper_delivers(job: Job) -> None:
    assert not instrument().config.own_provider
    list(DataLoader(Items()))
    assert job.metered is None


def test_what_is_no_meter_provider_is_said_and_the_helper_delivers(job: Job, caplog: pytest.LogCaptureFixture) -> None:
    wrong: Any = "prometheus"
    assert not instrument(meter_provider=wrong).config.own_provider
    assert warnings(caplog) == ["eroica_otel: config: meter_provider is no MeterProvider; it is ignored"]
    instrument(meter_provider=MeterProvider(shutdown_on_exit=False))
    assert warnings(caplog)[1] == "eroica_otel: config: attached already: meter_provider not changed"


def test_a_meter_provider_that_fails_costs_the_series_and_not_the_training(
    job: Job, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken:
        def get_meter(self, *given: str) -> None:
            raise RuntimeError("no meter today")

    broken: Any = Broken()
    instrument(meter_provider=broken)
    assert len(list(DataLoader(Items()))) == 4
    assert job.events == ["start"]
    assert job.metered is None
    assert "meter: RuntimeError: no meter today" in warnings(caplog)[0]


def test_an_older_handle_that_is_closed_late_leaves_the_newer_one_alone(job: Job) -> None:
    old = instrument()
    old.close()
    new = instrument()
    old.close()
    assert instrument() is new
    list(DataLoader(Items()))
    assert len(new.recorder.rows) == 4


@pytest.mark.parametrize(("text", "said"), [("1", 0), ("maybe", 1)])
def test_the_kill_switch_hooks_nothing(
    text: str, said: int, job: Job, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EROICA_DISABLED", text)
    owner: Any = torch.utils.data.dataloader._BaseDataLoaderIter
    before = owner.__next__
    handle = instrument()
    assert owner.__next__ is before
    list(DataLoader(Items()))
    assert job.events == []
    assert len(handle.recorder.rows) == 0
    assert len(warnings(caplog)) == said


def test_an_unknown_option_is_named_and_the_others_hold(job: Job, caplog: pytest.LogCaptureFixture) -> None:
    handle = instrument(unknown=1, role="encoder")
    assert handle.config.role == "encoder"
    assert "instrument() has no option unknown; it has disabled, " in warnings(caplog)[0]
    list(DataLoader(Items()))
    assert job.events == ["start"]


def test_each_malformed_option_is_said_and_counted(
    job: Job, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EROICA_WINDOW_SECONDS", "long")
    handle = instrument(capture="all")
    assert [text.split(" is not usable")[0] for text in warnings(caplog)] == [
        "eroica_otel: config: EROICA_WINDOW_SECONDS='long'",
        "eroica_otel: config: capture='all'",
    ]
    assert handle._guard.counts == {"config": 2}
    list(DataLoader(Items()))
    assert job.events == ["start"]


def test_a_rank_that_cannot_be_is_said_once_at_the_first_event(
    job: Job, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANK", "5")
    monkeypatch.setenv("WORLD_SIZE", "2")
    handle = instrument()
    assert warnings(caplog) == []
    list(DataLoader(Items()))
    list(DataLoader(Items()))
    (text,) = warnings(caplog)
    assert text.startswith("eroica_otel: config: RANK='5' with WORLD_SIZE='2' cannot be: give")
    assert handle._guard.counts == {"config": 1}
    assert job.events == ["start"]


def test_what_goes_wrong_on_our_side_is_counted_said_once_and_does_not_reach_the_training(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*arguments: Any) -> None:
        raise OSError("the folder belongs to another user")

    monkeypatch.setattr(worker, "start", broken)
    handle = instrument()
    assert len(list(DataLoader(Items()))) == 4
    assert warnings(caplog) == [
        "eroica_otel: start: OSError: the folder belongs to another user; training is not affected"
    ]
    assert handle._guard.counts == {"start": 1}


def test_the_guard_counts_every_failure_and_logs_the_first_of_each_stage(caplog: pytest.LogCaptureFixture) -> None:
    guard = Guard()
    for _ in range(3):
        guard("capture", lambda: [][0])
    guard("monitor", lambda: None)
    guard.failed("monitor", "x")
    assert guard.counts == {"capture": 3, "monitor": 1}
    assert [text.split(":")[1] for text in warnings(caplog)] == [" capture", " monitor"]


def test_what_a_log_handler_of_the_training_raises_is_not_let_out() -> None:
    class Broken(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            raise ValueError("a handler that writes to a socket, say")

    broken, guard = Broken(), Guard()
    plugin.LOGGER.addHandler(broken)
    try:
        guard.failed("capture", "it failed")
        guard("monitor", lambda: [][0])
    finally:
        plugin.LOGGER.removeHandler(broken)
    assert guard.counts == {"capture": 1, "monitor": 1}


def test_a_hook_that_cannot_be_set_does_not_reach_the_training(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*arguments: object) -> None:
        raise AttributeError("another torch")

    monkeypatch.setattr(plugin, "Hooks", broken)
    handle = instrument()
    assert handle._guard.counts == {"start": 1}
    handle.close()


def test_the_guard_lets_the_user_interrupt() -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Guard()("capture", interrupted)


def test_an_error_of_the_user_passes_through_unchanged(job: Job) -> None:
    class Broken(Items):
        def __getitem__(self, index: int) -> int:
            raise LookupError("the user's own")

    instrument()
    with pytest.raises(LookupError, match="the user's own"):
        list(DataLoader(Broken(), batch_size=None))
    parameter = torch.zeros(1, requires_grad=True)

    def diverging() -> float:
        raise FloatingPointError("diverged")

    with pytest.raises(FloatingPointError, match="diverged"):
        torch.optim.SGD([parameter], lr=0.1).step(diverging)


def test_watch_and_step_serve_loops_without_loader_and_optimizer(job: Job) -> None:
    batches = eroica_otel.watch([1, 2, 3])
    for _ in batches:
        eroica_otel.step()
    handle = instrument()
    assert [begin < 0 for _, begin, _ in handle.recorder.rows] == [False, True] * 3
    assert handle.recorder.steps == 3


def test_who_learns_of_another_rank_starts_anew_unless_it_was_closed_or_taken_off(job: Job) -> None:
    handle = instrument()
    list(DataLoader(Items()))
    job.again()
    assert job.events == ["start", ("stop", True), "start"]
    handle.disable()
    job.again()
    handle.close()
    job.again()
    assert job.events == ["start", ("stop", True), "start", ("stop", True)]


def test_in_a_loader_worker_it_takes_itself_away(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.utils.data, "get_worker_info", lambda: "worker 0 of 2")
    owner: Any = torch.utils.data.dataloader._BaseDataLoaderIter
    before = owner.__next__
    instrument()
    list(DataLoader(Items()))
    assert job.events == []
    assert owner.__next__ is before
    assert plugin._ACTIVE == []


def test_a_handle_that_nobody_holds_is_free_after_close(job: Job) -> None:
    handle = instrument()
    gone = weakref.ref(handle)
    handle.close()
    del handle
    gc.collect()
    assert gone() is None


def run(script: str, tmp_path: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a training script in a process of its own, with its status files under ``tmp_path``."""
    path = tmp_path / "training.py"
    path.write_text(script)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("EROICA_", "OTEL_", "RANK"))}
    given = {"EROICA_DIR": str(tmp_path / "workers"), "OTEL_METRICS_EXPORTER": "none"}
    given["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    return subprocess.run(
        [sys.executable, str(path), *arguments],
        env=kept | given | variables, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip


LOOP = """
import json, os, sys, threading, time
import torch
from torch.utils.data import DataLoader, Dataset
class Items(Dataset):
    def __len__(self): return 4
    def __getitem__(self, index): return index
def train(workers=0):
    list(DataLoader(Items(), num_workers=workers))
def threads():
    return sorted(thread.name for thread in threading.enumerate() if thread.name.startswith("eroica"))
"""


def script(text: str) -> str:
    return LOOP + textwrap.dedent(text)


def test_threads_start_at_the_first_event_and_close_leaves_neither_thread_nor_folder(tmp_path: Path) -> None:
    done = run(
        script("""
        import eroica_otel
        handle = eroica_otel.instrument()
        seen = [threads(), os.path.exists(os.environ["EROICA_DIR"])]
        train()
        seen += [threads(), os.listdir(os.environ["EROICA_DIR"]) == ["pid-" + str(os.getpid())]]
        time.sleep(1.5)  # the first round starts the helper
        begin = time.monotonic()
        handle.close()
        seen += [threads(), os.listdir(os.environ["EROICA_DIR"]), time.monotonic() - begin < 20]
        print(json.dumps(seen))
        """),
        tmp_path,
    )
    assert json.loads(done.stdout) == [[], False, ["eroica-monitor", "eroica-poller"], True, [], [], True]


def test_a_process_group_that_comes_after_the_first_input_tells_who_this_is(tmp_path: Path) -> None:
    """As where torch.multiprocessing.spawn starts the ranks, and statistics of the data are made first."""
    done = run(
        script("""
        from pathlib import Path
        from eroica_otel.status import live_workers
        import eroica_otel, torch.distributed
        handle = eroica_otel.instrument()
        train()
        def until(rank):
            while [status.identity.rank for _, status in live_workers(Path(os.environ["EROICA_DIR"]))] != [rank]:
                time.sleep(0.05)
        until(0)
        torch.distributed.is_initialized = lambda: True
        torch.distributed.get_rank, torch.distributed.get_world_size = lambda: 3, lambda: 4
        until(3)
        ((folder, status),) = live_workers(Path(os.environ["EROICA_DIR"]))
        print(json.dumps([status.identity.world_size, status.identity.local_rank, threads()]))
        handle.close()
        """),
        tmp_path,
    )
    assert json.loads(done.stdout) == [4, 3, ["eroica-monitor", "eroica-poller"]], done.stderr


IN_CHILD = """
def in_child(call):
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, json.dumps(call()).encode())
        sys.exit(0)  # runs the child's exit handlers too
    assert os.waitpid(child, 0)[1] == 0
    return json.loads(os.read(read, 1000))
def update():
    parameter = torch.zeros(1, requires_grad=True)
    parameter.grad = torch.zeros(1)
    torch.optim.SGD([parameter], lr=0.1).step()
"""


def test_a_forked_child_of_a_training_only_reads_data_and_nothing_starts_nor_ends_for_the_parent(
    tmp_path: Path,
) -> None:
    done = run(
        script(
            IN_CHILD
            + """
import eroica_otel
handle = eroica_otel.instrument()
train()
def reads():
    train()
    return threads()
seen = [in_child(reads), threads()]
folder = os.path.join(os.environ["EROICA_DIR"], "pid-" + str(os.getpid()))
print(json.dumps([*seen, os.listdir(os.environ["EROICA_DIR"]) == [os.path.basename(folder)]]))
handle.close()
"""
        ),
        tmp_path,
    )
    assert json.loads(done.stdout) == [[], ["eroica-monitor", "eroica-poller"], True], done.stderr


def test_a_forked_child_that_trains_is_watched_for_itself(tmp_path: Path) -> None:
    done = run(
        script(
            IN_CHILD
            + """
import eroica_otel
handle = eroica_otel.instrument()
train(); update()
def trains():
    seen = [handle.recorder.steps, len(handle.recorder.rows), threads()]
    train(); update()
    seen += [handle.recorder.steps, threads()]
    seen += [len(os.listdir(os.environ["EROICA_DIR"]))]
    return seen
seen = [in_child(trains), handle.recorder.steps, len(os.listdir(os.environ["EROICA_DIR"])), threads()]
handle.close()
print(json.dumps(seen))
"""
        ),
        tmp_path,
    )
    names = ["eroica-monitor", "eroica-poller"]
    assert json.loads(done.stdout) == [[0, 0, [], 1, names, 2], 1, 1, names], done.stderr


def test_ranks_that_multiprocessing_forks_are_watched_and_end_as_ranks_do(tmp_path: Path) -> None:
    """As notebook_launcher and torch.multiprocessing.start_processes(start_method="fork") do."""
    done = run(
        script(
            IN_CHILD
            + """
import multiprocessing
import eroica_otel
from eroica_otel.status import live_workers
handle = eroica_otel.instrument()
def rank(number, queue, seen):
    train(); update()
    time.sleep(1.5)  # the first round writes the status
    queue.put([number, threads()])
    seen.wait()
context = multiprocessing.get_context("fork")
queue, seen = context.Queue(), context.Event()
children = [context.Process(target=rank, args=(number, queue, seen)) for number in range(2)]
for child in children: child.start()
ranks = sorted(queue.get() for _ in children)
from pathlib import Path
live = sorted(status.pid for _, status in live_workers(Path(os.environ["EROICA_DIR"])))
seen.set()
for child in children: child.join()
for _ in range(100):  # each helper removes its folder after a last delivery
    if not os.listdir(os.environ["EROICA_DIR"]): break
    time.sleep(0.1)
print(json.dumps([ranks, live == sorted(child.pid for child in children), os.listdir(os.environ["EROICA_DIR"]),
                  threads(), [child.exitcode for child in children]]))
"""
        ),
        tmp_path,
    )
    names = ["eroica-monitor", "eroica-poller"]
    assert json.loads(done.stdout) == [[[0, names], [1, names]], True, [], [], [0, 0]], done.stderr


def test_two_hundred_forks_of_loader_workers_start_nothing_but_the_thread_that_sleeps(tmp_path: Path) -> None:
    done = run(
        script("""
        import eroica_otel.auto
        class Seen(Items):
            def __getitem__(self, index):
                list(DataLoader(Items()))
                return len(threads())
        seen = sum(sum(DataLoader(Seen(), num_workers=4, batch_size=None)) for _ in range(50))
        print(json.dumps([seen, os.listdir(os.environ["EROICA_DIR"]) == ["pid-" + str(os.getpid())]]))
        """),
        tmp_path,
    )
    # 50 times 4 items, each seen beside one thread.
    assert json.loads(done.stdout) == [200, True], done.stderr


def test_attached_again_it_goes_on_counting_where_it_was(job: Job) -> None:
    """Windows that were agreed on before lie in the job's store under the numbers of then."""
    first = instrument()
    for _ in range(5):
        first.step()
    first.close()
    second = instrument()
    assert second.recorder.steps == 5
    second.step()
    assert second.recorder.steps == 6


UNSEEN = "no input and no update was seen in this process"


@pytest.mark.parametrize(
    ("text", "rank", "said"),
    [
        ("import torch", "0", 1),
        ("import torch", "1", 0),
        ("import torch", "", 0),
        ("", "0", 0),
        ("train()", "0", 0),
        ("subprocess.run([sys.executable, '-c', 'import eroica_otel.auto, torch'], check=True); train()", "0", 0),
    ],
    ids=["rank 0", "another rank", "no rank", "no torch", "a training", "a child of a rank"],
)
def test_a_rank_of_which_nothing_was_seen_says_so_at_its_end(
    text: str, rank: str, said: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = script(f"import subprocess, eroica_otel.auto\n{text}") if text else "import eroica_otel.auto"
    done = run(body, tmp_path, RANK=rank)
    assert done.returncode == 0
    assert done.stderr.count(UNSEEN) == said


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_loader_workers_stay_inert_and_the_training_is_watched(method: str, tmp_path: Path) -> None:
    """Spawn imports the script again in each worker, and with it the one line."""
    done = run(
        script("""
        import eroica_otel.auto
        class Seen(Items):
            def __getitem__(self, index):
                list(DataLoader(Items()))  # a loader inside a worker is no input of the training
                return threads()
        if __name__ == "__main__":
            loader = DataLoader(Seen(), num_workers=2, batch_size=None, multiprocessing_context=sys.argv[1])
            seen = list(loader)
            recorder = eroica_otel.auto.HANDLE.recorder
            seen += [recorder.latest == id(loader.dataset), len(threads())]
            print(json.dumps([seen, os.listdir(os.environ["EROICA_DIR"]) == ["pid-" + str(os.getpid())]]))
        """),
        tmp_path,
        method,
    )
    sleeps = ["eroica-loader"]
    assert json.loads(done.stdout) == [[sleeps, sleeps, sleeps, sleeps, True, 2], True], done.stderr


def test_a_folder_that_is_removed_is_made_again_with_a_helper_and_that_is_said_in_one_line(tmp_path: Path) -> None:
    done = run(
        script("""
        import shutil, time
        from pathlib import Path
        import eroica_otel
        def helper():
            worker = handle._worker
            return worker.helper.pid if worker is not None and (own / "status").exists() else None
        def wait(there):
            for _ in range(600):
                if there():
                    return
                time.sleep(0.1)
        own = Path(os.environ["EROICA_DIR"], f"pid-{os.getpid()}")
        handle = eroica_otel.instrument()
        train()
        wait(helper)
        before = helper()
        shutil.rmtree(own.parent)
        wait(lambda: helper() not in (None, before))
        print(json.dumps([helper() not in (None, before), sorted(os.listdir(own))]))
        handle.close()
        """),
        tmp_path,
    )
    again, there = json.loads(done.stdout)
    assert again
    assert {"config.json", "status"} <= set(there)
    assert done.stderr.count("was removed; all is started anew") == 1
    assert "Traceback" not in done.stderr
    assert os.listdir(tmp_path / "workers") == []


def test_few_lines_reach_stderr_where_the_training_has_no_logging_and_none_stay_after_close(tmp_path: Path) -> None:
    done = run(
        script("""
        import logging
        import eroica_otel
        handle = eroica_otel.instrument(training_job="mine")
        train()
        handle.close()
        print(logging.getLogger("eroica_otel").handlers, logging.getLogger("eroica_otel").level)
        eroica_otel.instrument()
        train()  # and it ends before the first round has started a helper
        """),
        tmp_path,
    )
    assert os.listdir(tmp_path / "workers") == []
    assert done.stderr.splitlines()[0].endswith(
        "watching job mine, 1 ranks; series go nowhere (OTEL_METRICS_EXPORTER); EROICA_DISABLED=1 turns it off"
    )
    assert done.stdout == "[] 0\n"


def test_a_handle_works_without_the_module_level(job: Job) -> None:
    handle = Handle(instrument().config)
    assert list(handle.watch([1, 2])) == [1, 2]
    handle.step()
    assert handle.recorder.steps == 1
    handle.close()


def test_what_is_detached_from_outside_stays_so_until_instrument_is_called(job: Job) -> None:
    handle = instrument()
    for _ in watch_input(range(3)):
        step()
    assert job.events == ["start"]
    handle.disable()
    assert job.events == ["start", ("stop", True)]
    for _ in watch_input(range(2)):
        step()
    assert job.events == ["start", ("stop", True)]
    again = instrument()
    assert again is not handle
    step()
    assert again.recorder.steps == 6, "the count goes on, or the ranks would not meet at an iteration"
    assert job.events == ["start", ("stop", True), "start"]


@pytest.mark.parametrize(
    "variables",
    [
        {"EROICA_PULL": "node"},
        {"EROICA_DELIVERIES": "remote_write"},
        {"EROICA_REMOTE_WRITE_URL": "http://127.0.0.1:1/write"},
        {"EROICA_REMOTE_WRITE_USER": "eroica"},
    ],
    ids=" ".join,
)
def test_options_that_contradict_are_said_and_counted_and_the_training_is_watched(
    variables: dict[str, str], job: Job, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv("OTEL_METRICS_EXPORTER", raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    handle = instrument()
    (said,) = warnings(caplog)
    assert "set " in said or "add " in said
    assert handle._guard.counts["config"] == 1
    assert len(list(DataLoader(Items()))) == 4
    assert job.events == ["start"]


def test_the_loop_of_the_loaders_processes_is_replaced_until_close(job: Job) -> None:
    loop = worker_module._worker_loop
    handle = instrument(directory="/somewhere")
    ours = worker_module._worker_loop
    assert isinstance(ours, WorkerLoop)
    assert ours.original is loop
    assert pickle.loads(pickle.dumps(ours)).original is loop
    handle.close()
    assert worker_module._worker_loop is loop
    handle = instrument()
    handle.disable()
    assert worker_module._worker_loop is loop


def test_the_loop_of_the_loaders_processes_stays_where_that_is_asked_for(job: Job) -> None:
    loop = worker_module._worker_loop
    instrument(loaders=False)
    assert worker_module._worker_loop is loop
