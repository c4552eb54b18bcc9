from __future__ import annotations

import pytest

from eroica_otel.errors import QueryError
from eroica_otel.query.store import FORGOTTEN_SECONDS, Store
from factories_central import WINDOW, collect, delivery, identity, pattern, status_points, window

KEY = ("vision", "llm-7b")


def test_a_window_is_new_once_and_its_first_value_wins() -> None:
    store = Store()
    first = window(slow=True)
    assert store.add(delivery(collect(first)), 10.0) == first
    assert store.add(delivery(collect(window(slow=False))), 11.0) is None
    (job,) = store.jobs()
    assert job.windows[WINDOW].windows == {0: first}
    assert (job.windows[WINDOW].first, job.windows[WINDOW].latest, job.last_seen) == (10.0, 10.0, 11.0)


def test_the_latest_state_of_a_worker_is_kept() -> None:
    store = Store()
    store.add(delivery(status_points(identity(), "learning", iterations=5)), 1.0)
    store.add(delivery(status_points(identity(), "healthy", iterations=9)), 2.0)
    worker = store.jobs()[0].workers[0]
    assert (worker.state, worker.iterations, worker.last_seen, worker.identity) == ("healthy", 9, 2.0, identity())


def test_an_id_without_patterns_is_no_window() -> None:
    store = Store()
    assert store.add(delivery(collect(window(patterns=(), kinds={}))), 1.0) is None
    assert store.jobs()[0].windows == {}


def test_a_stopped_worker_has_a_window_without_patterns() -> None:
    stopped = window(patterns=(), kinds={}, stopped_seconds=4.0)
    assert Store().add(delivery(collect(stopped)), 1.0) == stopped


def test_the_oldest_windows_and_jobs_are_dropped() -> None:
    store = Store(windows=2, jobs=2)
    for index in range(3):
        store.add(delivery(collect(window(window_id=WINDOW + index))), float(index))
    assert list(store.jobs()[0].windows) == [WINDOW + 1, WINDOW + 2]
    for name in ("b", "c"):
        store.add(delivery(collect(window(who=identity(training_job=name)))), 9.0)
    assert [job.key for job in store.jobs()] == [("vision", "b"), ("vision", "c")]


def test_spacing_is_that_of_a_typical_worker() -> None:
    store = Store()
    for rank, step in ((0, 2.0), (1, 4.0), (2, 60.0)):
        for tick in range(4):
            store.add(delivery(status_points(identity(rank))), 100 + tick * step)
    assert store.jobs()[0].spacing == 4.0


def test_labels_of_another_program_change_nothing() -> None:
    store = Store()
    with pytest.raises(QueryError):
        store.add(delivery(status_points(identity(rank=-1))), 1.0)
    assert store.jobs() == ()


def test_jobs_of_two_teams_with_one_name_are_two() -> None:
    store = Store()
    store.add(delivery(collect(window())), 1.0)
    store.add(delivery(collect(window(who=identity(team="speech")))), 1.0)
    assert {job.key for job in store.jobs()} == {KEY, ("speech", "llm-7b")}


def alternate(store: Store, *processes: tuple[str, str, str], start: float = 0.0) -> tuple[str, ...]:
    """Deliver as (host, run id, pid) in this order, a second apart, and return the duplicates of rank 0."""
    for tick, (host, run_id, pid) in enumerate(processes):
        store.add(delivery(status_points(identity(host=host, run_id=run_id)), pid), start + tick)
    return store.jobs()[0].workers[0].duplicates


A, B, UNKNOWN = ("host-a", "run-1", "7"), ("host-b", "run-1", "9"), ("host-a", "", "")


def test_two_live_processes_with_one_identity_are_named() -> None:
    assert alternate(Store(), A, B, A, B) == ("host-a pid 7 run run-1", "host-b pid 9 run run-1")


def test_a_restart_is_no_duplicate() -> None:
    assert alternate(Store(), A, A, B, B, B) == ()


def test_a_process_that_knows_its_run_only_later_is_no_duplicate() -> None:
    assert alternate(Store(), UNKNOWN, A, UNKNOWN, A) == ()


def test_a_duplicate_is_forgotten_when_one_of_the_two_has_gone() -> None:
    store = Store()
    alternate(store, A, B, A, B)
    assert alternate(store, A, A, start=100.0) == ()


def test_a_released_window_is_known_but_not_held() -> None:
    store = Store()
    store.add(delivery(collect(window())), 1.0)
    store.release(KEY, WINDOW)
    assert store.jobs()[0].windows == {}
    assert store.add(delivery(collect(window())), 2.0) is None
    assert store.add(delivery(collect(window(1))), 3.0) == window(1)
    assert store.jobs()[0].windows == {}
    store.release(("none", "none"), WINDOW)


def test_a_restored_window_is_not_new_and_its_worker_not_alive() -> None:
    store = Store()
    given = window(patterns=(pattern(),))
    store.restore(given, 5.0)
    (job,) = store.jobs()
    assert (job.workers, job.windows[WINDOW].windows) == ({}, {0: given})
    assert store.add(delivery(collect(given)), 6.0) is None


def test_there_is_a_most_of_workers_and_those_that_are_known_go_on() -> None:
    store = Store(workers=2)
    for rank in (0, 1):
        store.add(delivery(status_points(identity(rank))), 1.0)
    for who in (identity(2), identity(0, training_job="another")):
        with pytest.raises(QueryError, match=r"^2 workers are followed already .*; raise --workers, or .*--match"):
            store.add(delivery(status_points(who)), 2.0)
    store.add(delivery(status_points(identity(1), "healthy")), 3.0)
    assert store.jobs()[0].workers[1].state == "healthy"
    assert len(store.jobs()) == 1


def test_jobs_that_have_ended_take_no_place_of_those_that_live() -> None:
    store = Store(workers=3)
    for rank in (0, 1):
        store.add(delivery(status_points(identity(rank, training_job="ended"))), 0.0)
    store.add(delivery(status_points(identity(0, training_job="lives"))), 1.0)
    store.add(delivery(status_points(identity(0, training_job="lives"))), FORGOTTEN_SECONDS - 1)
    with pytest.raises(QueryError, match="3 workers are followed already"):
        store.add(delivery(status_points(identity(0, training_job="new"))), FORGOTTEN_SECONDS - 1)
    store.add(delivery(status_points(identity(0, training_job="new"))), FORGOTTEN_SECONDS)
    assert [job.key[1] for job in store.jobs()] == ["lives", "new"]
    store.add(delivery(status_points(identity(1, training_job="lives"))), FORGOTTEN_SECONDS)
    with pytest.raises(QueryError, match="3 workers are followed already and no more of lives"):
        store.add(delivery(status_points(identity(2, training_job="lives"))), FORGOTTEN_SECONDS)


def test_beyond_the_most_of_patterns_the_oldest_window_is_let_go() -> None:
    store = Store(patterns=6)  # a window has three
    for index in range(3):
        store.add(delivery(collect(window(window_id=WINDOW + index))), float(index))
    assert list(store.jobs()[0].windows) == [WINDOW + 1, WINDOW + 2]
    assert store.add(delivery(collect(window(window_id=WINDOW))), 5.0) is None


def test_one_rank_of_many_processes_names_four() -> None:
    many = [("host-a", "run-1", str(pid)) for pid in range(50)]
    assert len(alternate(Store(), *many, many[-2])) == 4
