from __future__ import annotations

from eroica_otel.jobtalk import Talk
from eroica_otel.query.store import Job, Store
from factories_central import WINDOW, collect, delivery, identity, status_points, window

SHARED = (
    "2 trainings deliver under the name 'llm-7b', so rank 0 is left out (rank 0: host-a pid 7 and host-b pid 9); "
    "give each training a name of its own, EROICA_TRAINING_JOB=NAME, or stop the one that is not wanted"
)


class Listener:
    def __init__(self) -> None:
        self.now, self.lines = 100.0, list[str]()
        self.talk = Talk(self.lines.append, lambda: self.now)

    def hear(self, job: Job, *judged: int, after: float = 1.0) -> list[str]:
        self.now += after
        before = len(self.lines)
        self.talk.about(job, judged)
        return self.lines[before:]


def shared(store: Store, now: float) -> Job:
    for tick, host in enumerate(("host-a", "host-b", "host-a", "host-b")):
        points = status_points(identity(host=host, run_id="", world_size=1), "healthy")
        store.add(delivery(points, {"host-a": "7", "host-b": "9"}[host]), now + tick)
    return store.jobs()[0]


def test_a_line_is_said_once_and_a_window_that_is_complete_at_once() -> None:
    store, listener = Store(), Listener()
    store.add(delivery(collect(window(0, who=identity(0, world_size=2)))), 1.0)
    assert listener.hear(store.jobs()[0])[1:] == [f"window {WINDOW} of llm-7b (degraded): patterns from 1 of 2 workers"]
    assert listener.hear(store.jobs()[0]) == []
    store.add(delivery(collect(window(1, who=identity(1, world_size=2)))), 2.0)
    assert listener.hear(store.jobs()[0], after=0.0)[1:] == [
        f"window {WINDOW} of llm-7b (degraded): patterns from 2 of 2 workers"
    ]


def test_a_window_that_was_judged_is_not_spoken_of() -> None:
    store, listener = Store(), Listener()
    store.add(delivery(collect(window(who=identity(0, world_size=1)))), 1.0)
    assert listener.hear(store.jobs()[0], WINDOW) == ["llm-7b: 1 of 1 worker; 1 degraded"]


def test_trainings_that_share_a_name_are_told_once_with_the_remedy() -> None:
    store, listener = Store(), Listener()
    states = "llm-7b: 2 processes deliver as 1 of 1 worker; 1 healthy"
    assert listener.hear(shared(store, 10.0)) == [states, SHARED]
    assert listener.hear(shared(store, 20.0)) == []


def test_they_are_told_again_when_it_happens_again() -> None:
    store, listener = Store(), Listener()
    listener.hear(shared(store, 10.0))
    store.add(delivery(status_points(identity(host="host-a", run_id="", world_size=1), "healthy"), "7"), 200.0)
    assert listener.hear(store.jobs()[0]) == ["llm-7b: 1 of 1 worker; 1 healthy"]
    assert listener.hear(shared(store, 300.0))[-1] == SHARED


def test_a_name_cannot_move_the_cursor() -> None:
    store, listener = Store(), Listener()
    store.add(delivery(status_points(identity(training_job="a\x1b[2J\nb", world_size=1))), 1.0)
    assert listener.hear(store.jobs()[0]) == ["a\\x1b[2J\\nb: 1 of 1 worker; 1 degraded"]


def test_what_was_said_of_jobs_that_are_gone_is_dropped() -> None:
    store, listener = Store(), Listener()
    store.add(delivery(status_points(identity(0, world_size=1))), 1.0)
    assert listener.hear(store.jobs()[0])
    listener.talk.keep(())
    assert listener.hear(store.jobs()[0])
