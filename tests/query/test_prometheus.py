from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from backends import NOW, BackendServer, Request, backend, success
from eroica_otel import names
from eroica_otel.errors import QueryError
from eroica_otel.export.points import window_points
from eroica_otel.model import SCHEMA, Point, WorkerWindow
from eroica_otel.query.client import Backend
from eroica_otel.query.decode import decode, identity
from eroica_otel.query.look import RANKS_PER_QUERY, SETTLE_SECONDS
from eroica_otel.query.otlp import Delivery
from eroica_otel.query.prometheus import PrometheusSource
from eroica_otel.query.store import Store
from eroica_otel.table import Table
from factories_central import WINDOW, all_reduce, collect, pattern, status_points, window, windows
from factories_central import identity as who

WHOLE = {"compute": 0.4, "communication": 0.3, "python": 0.1, "idle": 0.2}


class Desk:
    """A source at a backend, with everything it delivered and said."""

    def __init__(self, server: BackendServer) -> None:
        self.server, self.now = server, 100.0
        self.deliveries: list[Delivery] = []
        self.lines: list[str] = []
        self.refuse: Callable[[Delivery], object] = lambda delivery: None
        self.source = self.make()

    def make(self, match: str = "") -> PrometheusSource:
        given = Backend(self.server.url, match=match, timeout_seconds=20)
        return PrometheusSource(given, self.take, say=self.lines.append, clock=lambda: self.now)

    def take(self, delivery: Delivery) -> None:
        self.refuse(delivery)
        self.deliveries.append(delivery)

    def look(self, *, after: float = 0.0) -> list[Delivery]:
        """Look once ``after`` seconds; return what that delivered."""
        self.now += after
        self.server.samples.now += after
        before = len(self.deliveries)
        self.source.look()
        return self.deliveries[before:]

    def windows(self) -> list[WorkerWindow]:
        decoded = (decode(delivery.points) for delivery in self.deliveries)
        return [one for one in decoded if one is not None]

    def standing(self, delivery: Delivery) -> dict[str, float]:
        return {point.name: point.value for point in delivery.points}


@pytest.fixture
def desk() -> Iterator[Desk]:
    with backend() as server:
        yield Desk(server)


def whole(**changes: object) -> list[WorkerWindow]:
    return windows(**({"kinds": WHOLE} | changes))  # type: ignore[arg-type]


def test_a_window_is_what_the_workers_export_showed(desk: Desk) -> None:
    given = [replace(one, patterns=(all_reduce(), pattern(noise_seconds=0.003))) for one in whole()]
    desk.server.samples.scrape(NOW - 20, NOW, given)
    desk.look()
    assert desk.windows() == given


def test_a_window_is_read_when_it_has_settled_and_only_once(desk: Desk) -> None:
    desk.server.samples.scrape(NOW - 1, NOW, whole())
    assert len(desk.look()) == 4
    assert desk.windows() == []
    assert desk.source._rest <= SETTLE_SECONDS
    desk.look(after=SETTLE_SECONDS)
    assert len(desk.windows()) == 4
    asked = len(desk.server.samples.questions)
    assert desk.look(after=5) == []
    assert len(desk.windows()) == 4
    assert len(desk.server.samples.questions) - asked == 5


def test_patterns_are_asked_for_in_shards_of_ranks(desk: Desk) -> None:
    size = RANKS_PER_QUERY + 1
    small = [window(rank, patterns=(pattern(),), kinds=WHOLE) for rank in range(size)]
    desk.server.samples.scrape(NOW - 5, NOW, small)
    desk.look(after=0)
    desk.look(after=SETTLE_SECONDS)
    assert len(desk.windows()) == size
    shards = [one for one in desk.server.samples.questions if names.PATTERN_BETA.name in one]
    assert len(shards) == 2
    assert all('training_job="llm-7b",team="vision",rank' in one for one in shards)


def test_what_an_earlier_window_left_is_not_read_again(desk: Desk) -> None:
    samples = desk.server.samples
    samples.scrape(NOW - 60, NOW - 30, whole(reason="reference", patterns=(pattern("old000000000", beta=0.9),)))
    later = whole(window_id=WINDOW + 60, patterns=(pattern("new000000000", beta=0.2),))
    samples.scrape(NOW - 30, NOW, later)
    desk.look()
    both = desk.windows()
    assert [(one.window_id, one.reason) for one in both] == [(WINDOW, "reference")] * 4 + [
        (WINDOW + 60, "degraded")
    ] * 4
    assert [[p.function_id for p in one.patterns] for one in both] == [["old000000000"]] * 4 + [["new000000000"]] * 4


def test_a_backend_that_keeps_showing_old_series_does_not_mix_windows(desk: Desk) -> None:
    """By remote write without stale markers, series of the earlier window end with no sign."""
    samples = desk.server.samples
    samples.scrape(NOW - 40, NOW - 30, whole(patterns=(pattern("old000000000"),)))
    samples.scrape(NOW - 29, NOW, whole(window_id=WINDOW + 60, patterns=(pattern("new000000000"),)))
    desk.look()
    assert {p.function_id for one in desk.windows()[4:] for p in one.patterns} == {"new000000000"}


def test_a_worker_is_delivered_once_for_each_new_sample_with_its_spacing(desk: Desk) -> None:
    samples = desk.server.samples
    samples.scrape(NOW - 60, NOW, [], state="healthy")
    for when in (NOW - 45, NOW - 30, NOW - 15):
        samples.add(when, status_points(who(2), "healthy", iterations=600 + when), instance="a")
    (delivery,) = desk.look()
    assert delivery.spacing_seconds == 15
    assert desk.standing(delivery)[names.ITERATIONS.name] == 600 + NOW - 15
    assert identity(delivery.points) == who(2)
    assert desk.look(after=5) == []
    samples.add(NOW + 5, status_points(who(2), "degraded", iterations=900), instance="a")
    (second,) = desk.look(after=5)
    assert [point.labels["state"] for point in second.points if point.name == names.WORKER_STATE.name] == ["degraded"]


def test_the_store_learns_the_spacing_of_the_samples_not_of_the_looks(desk: Desk) -> None:
    for when in (NOW - 120, NOW - 60, NOW):
        desk.server.samples.add(when, status_points(who(0), "healthy"), instance="a")
    store = Store()
    desk.refuse = lambda delivery: store.add(delivery, desk.now)
    desk.look()
    (job,) = store.jobs()
    assert job.spacing == 60


def test_two_jobs_and_a_backend_that_answers_with_more_than_it_was_asked(desk: Desk) -> None:
    given = whole()
    other = [replace(one, identity=replace(one.identity, training_job="other", team=""), seconds=7.0) for one in given]
    desk.server.samples.scrape(NOW - 20, NOW, given)
    desk.server.samples.scrape(NOW - 20, NOW, other)

    def careless(request: Request) -> None:
        question = request.fields["query"]
        loose = question[: question.index(",training_job")] + question[question.index("}") :]
        request.send(200, desk.server.samples.answer(request.fields | {"query": loose}))

    def reply(request: Request) -> None:
        (careless if ",training_job" in request.fields["query"] else desk.server.good)(request)

    desk.server.reply = reply
    desk.look()
    key = {(one.identity.training_job, one.identity.team): one.seconds for one in desk.windows()}
    assert key == {("llm-7b", "vision"): 5.0, ("other", ""): 7.0}
    assert len(desk.windows()) == 8


def test_nothing_is_handed_over_after_the_end(desk: Desk) -> None:
    desk.server.samples.scrape(NOW - 20, NOW, whole())
    desk.source.stop()
    assert desk.look() == []


def test_labels_that_scraping_adds_do_not_disturb(desk: Desk) -> None:
    given = whole()
    added = {
        "pod": "p",
        "namespace": "ml",
        "host": "gateway",
        "rank": "0",
        "team": "infra",
        "kind": "gpu",
        "group": "g",
    }
    for when in (NOW - 20, NOW - 15):
        for one in given:
            target = {"instance": f"10.0.0.{one.identity.rank}:9464", "job": "training"}
            desk.server.samples.add(when, collect(one), **target, **added)
    desk.look()
    assert desk.windows() == given


def test_replicas_do_not_double_workers(desk: Desk) -> None:
    given = whole()
    for replica, lag in (("a", 0.0), ("b", 1.3)):
        desk.server.samples.scrape(NOW - 20 + lag, NOW, given, prometheus="ml/k8s", replica=replica)
    store = Store()
    desk.refuse = lambda delivery: store.add(delivery, desk.now)
    for _ in range(3):
        desk.look(after=5)
        for replica, lag in (("b", 0.0), ("a", 1.3)):
            now = desk.server.samples.now + lag
            desk.server.samples.scrape(now, now + 4, given, prometheus="ml/k8s", replica=replica)
    assert len(desk.windows()) == 4
    (job,) = store.jobs()
    assert [worker.duplicates for worker in job.workers.values()] == [()] * 4


def test_two_trainings_of_one_name_are_told_apart_by_their_targets(desk: Desk) -> None:
    store = Store()
    desk.refuse = lambda delivery: store.add(delivery, desk.now)
    for _ in range(3):
        for target in ("x:9464", "y:9464"):
            desk.server.samples.add(desk.server.samples.now, status_points(who(0), "healthy"), instance=target)
        desk.look(after=5)
    (job,) = store.jobs()
    assert job.workers[0].duplicates == ("host-0 at x:9464 run run-1", "host-0 at y:9464 run run-1")


def test_a_restarted_rank_is_no_double_and_its_first_run_is_still_read(desk: Desk) -> None:
    store = Store()
    desk.refuse = lambda delivery: store.add(delivery, desk.now)
    first, second = window(0, kinds=WHOLE), window(0, kinds=WHOLE, who=who(0, run_id="run-2"), window_id=WINDOW + 60)
    desk.server.samples.scrape(NOW - 100, NOW - 80, [first], instance="old:1")
    desk.server.samples.scrape(NOW - 10, NOW, [second], instance="new:1")
    for _ in range(3):
        desk.look(after=5)
        desk.server.samples.scrape(desk.server.samples.now - 1, desk.server.samples.now, [second], instance="new:1")
    assert [one.window_id for one in desk.windows()] == [WINDOW, WINDOW + 60]
    (job,) = store.jobs()
    assert job.workers[0].duplicates == ()
    assert job.workers[0].identity.run_id == "run-2"


def test_a_worker_that_had_ended_before_the_first_look_is_not_alive(desk: Desk) -> None:
    desk.server.samples.add(NOW - 200, status_points(who(1), "healthy"), instance="gone")
    desk.server.samples.add(NOW - 5, status_points(who(0), "healthy"), instance="here")
    assert [identity(delivery.points).rank for delivery in desk.look()] == [0]


def test_a_gap_in_which_the_backend_was_away_is_read_afterwards(desk: Desk) -> None:
    desk.server.samples.scrape(NOW - 10, NOW, [window(0, kinds=WHOLE)])
    desk.look()
    desk.server.reply = lambda request: request.send(503, b"starting")
    assert desk.look(after=300) == []
    desk.server.reply = desk.server.good
    desk.server.samples.scrape(NOW + 20, NOW + 40, [window(0, kinds=WHOLE, window_id=WINDOW + 60)])
    desk.server.samples.scrape(NOW + 500, NOW + 520, [window(0, kinds=WHOLE, window_id=WINDOW + 120)])
    desk.look(after=220)
    assert [one.window_id for one in desk.windows()] == [WINDOW, WINDOW + 60, WINDOW + 120]
    assert desk.lines == [
        f"cannot read {desk.server.url}: it answers 503: starting; trying again every 5 s",
        f"{desk.server.url} answers again",
    ]
    assert desk.source.failures == 1
    assert desk.source.requests() == {**desk.source.requests(), "ok": 13, "refused": 1}


@pytest.mark.parametrize(("missed", "found"), [(0, 0), (1500, 1), (9000, 0)])
def test_what_came_while_nobody_looked_is_read_up_to_an_hour_back(desk: Desk, missed: float, found: int) -> None:
    """The window was shown 1,500 s ago at the earliest, or longer ago than anybody reads back."""
    ago = max(missed, 1500)
    desk.server.samples.scrape(NOW - ago, NOW - ago + 60, [window(0, kinds=WHOLE)])
    desk.server.samples.add(NOW - 5, status_points(who(0), "healthy"), instance="rank-0")
    desk.source.missed_seconds = missed
    desk.look()
    assert len(desk.windows()) == found


def test_a_failure_is_said_once_and_again_when_it_changes(desk: Desk) -> None:
    for code, body in ((500, b"x"), (500, b"x"), (422, b'{"error":"too many samples"}')):
        desk.server.reply = lambda request, code=code, body=body: request.send(code, body)  # type: ignore[misc]
        desk.look()
    assert [line.partition(": ")[2] for line in desk.lines] == [
        "it answers 500: x; trying again every 5 s",
        "it answers 422: too many samples; raise --query.max-samples of Prometheus, or restrict the question "
        "(--match, --rank); trying again every 5 s",
    ]
    assert desk.source.failures == 3


def test_a_backend_without_our_series_says_so_once(desk: Desk) -> None:
    desk.source = desk.make('team="x"')
    desk.look()
    desk.look()
    (line,) = desk.lines
    assert f'holds no {names.ITERATIONS.name} under team="x"' in line
    assert "OTEL_METRICS_EXPORTER=prometheus" in line
    assert all('team="x"' in question for question in desk.server.samples.questions)


def test_another_program_s_series_under_our_names_cost_nothing_but_themselves(desk: Desk) -> None:
    def refuse(delivery: Delivery) -> None:
        identity(delivery.points)
        decode(delivery.points)

    desk.refuse = refuse
    strange = replace(who(0), training_job="strange").labels()
    bad = [
        Point(names.ITERATIONS.name, strange | {"rank": "first"}, 1.0),
        Point(names.ITERATIONS.name, {"x": "y"}, 1.0),
    ]
    desk.server.samples.add(NOW - 1, bad, instance="z")
    desk.server.samples.scrape(NOW - 20, NOW, whole())
    desk.look()
    desk.look(after=5)
    assert len(desk.windows()) == 4
    assert desk.source.failures == 1
    assert [line for line in desk.lines if "left out" in line] == [
        f"series of rank first in {desk.server.url} are left out: label rank='first' is not a whole number; the points "
        "come from another program"
    ]


def test_values_that_are_not_finite_are_not_measured(desk: Desk) -> None:
    given = whole()
    desk.server.samples.scrape(NOW - 20, NOW, given)
    labels = given[0].identity.labels()
    odd = [
        Point(names.WINDOW_GAP.name, labels, math.nan), Point(names.WINDOW_CPU.name, labels, math.inf),
        Point(names.WINDOW_ID.name, labels | {"reason": "degraded"}, math.nan),
    ]  # fmt: skip
    gap = (names.WINDOW_GAP.name, names.WINDOW_CPU.name)
    for key in [key for key in desk.server.samples.rows if dict(key)["__name__"] in gap and ("rank", "0") in key]:
        del desk.server.samples.rows[key]
    desk.server.samples.add(NOW - 20, odd, instance="10.0.0.0:9464", job="training")
    desk.look()
    first = next(one for one in desk.windows() if one.identity.rank == 0)
    assert first == replace(given[0], sampler_gap_seconds=None, cpu_seconds=None)


def test_a_window_whose_parts_arrive_late_is_read_when_they_are_there(desk: Desk) -> None:
    given = window(0, kinds=WHOLE)
    points = collect(given)
    early = [point for point in points if point.name != names.KIND_BETA.name or point.labels["kind"] != "idle"]
    late = [point for point in points if point not in early]
    target = {"instance": "10.0.0.0:9464"}
    desk.server.samples.add(NOW - 4, early, **target)
    desk.look()
    desk.look(after=SETTLE_SECONDS)
    assert desk.windows() == []
    desk.server.samples.add(NOW - 4, late, **target)
    desk.look(after=SETTLE_SECONDS)
    assert desk.windows() == [given]


def test_a_window_that_stays_in_parts_is_delivered_at_the_second_look(desk: Desk) -> None:
    given = window(0, kinds={"compute": 0.4, "python": 0.1})
    desk.server.samples.scrape(NOW - 10, NOW, [given])
    desk.look()
    assert desk.windows() == []
    desk.look(after=SETTLE_SECONDS)
    assert desk.windows() == [given]


def test_findings_that_are_read_back_do_not_confuse(desk: Desk) -> None:
    given = whole()
    desk.server.samples.scrape(NOW - 20, NOW, given)
    labels = given[2].identity.labels()
    function = {"function_id": "aaaaaaaaaaaa", "function": "augment", "kind": "python"}
    findings = [
        Point(names.FUNCTION_INFO.name, labels | {"function_id": "aaaaaaaaaaaa", "family": "x", "stack": "other"}, 1.0),
        Point(names.IMPACT.name, labels | function | {"cause": "unknown"}, 0.4),
        Point(names.LOCALIZER_WINDOW.name, {"training_job": "llm-7b", "team": "vision", "reason": "manual"}, 7.0),
    ]
    for when in (NOW - 20, NOW - 15):
        desk.server.samples.add(when, findings, instance="localizer:9465", job="eroica")
    desk.look()
    assert desk.windows() == given


def test_a_source_that_starts_again_delivers_again_and_the_store_takes_nothing_twice(desk: Desk) -> None:
    store = Store()
    taken: list[WorkerWindow] = []

    def add(delivery: Delivery) -> None:
        window_ = store.add(delivery, desk.now)
        taken.extend([window_] if window_ is not None else [])

    desk.refuse = add
    desk.server.samples.scrape(NOW - 20, NOW, whole())
    desk.look()
    desk.source = desk.make()
    desk.look()
    assert len(desk.windows()) == 8
    assert len(taken) == 4


def test_a_failure_that_nobody_foresaw_does_not_end_the_thread(desk: Desk) -> None:
    seen: list[Exception] = []
    failed = threading.Event()

    def guard(stage: str, act: Callable[[], None]) -> None:
        try:
            act()
        except ZeroDivisionError as error:
            seen.append(error)
            failed.set()

    def broken(delivery: Delivery) -> None:
        raise ZeroDivisionError

    desk.server.samples.scrape(NOW - 20, NOW, whole())
    source = PrometheusSource(Backend(desk.server.url), broken, say=desk.lines.append, guard=guard)
    source.start()
    assert failed.wait(20)
    assert source._rounds.stop(20)
    assert len(seen) == 1


def test_a_refusal_in_the_middle_of_a_window_leaves_it_for_the_next_look(desk: Desk) -> None:
    desk.server.samples.scrape(NOW - 20, NOW, whole())

    def only_small(request: Request) -> None:
        good = desk.server.samples.answer(request.fields)
        patterns = names.PATTERN_BETA.name in request.fields["query"]
        request.send(422 if patterns else 200, b'{"error":"too many samples"}' if patterns else good)

    desk.server.reply = only_small
    desk.look()
    assert desk.windows() == []
    assert "too many samples" in desk.lines[-1]
    desk.server.reply = desk.server.good
    desk.look(after=5)
    assert len(desk.windows()) == 4


def test_a_job_whose_window_is_refused_holds_up_no_other(desk: Desk) -> None:
    broken = [replace(one, identity=who(one.identity.rank, training_job="a broken one")) for one in whole()]
    desk.server.samples.scrape(NOW - 30, NOW, broken)
    desk.server.samples.scrape(NOW - 20, NOW, whole())

    def not_that_job(request: Request) -> None:
        if "a broken one" in request.fields["query"]:
            request.send(422, b'{"error":"too many samples"}')
        else:
            request.send(200, desk.server.samples.answer(request.fields))

    desk.server.reply, desk.now = not_that_job, 10_000.0
    desk.look()
    assert {one.identity.training_job for one in desk.windows()} == {"llm-7b"}
    assert len(desk.deliveries) == 4 + 8  # the windows of one job, the states of both
    assert "too many samples" in desk.lines[-1]
    for _ in range(3):
        desk.server.samples.scrape(desk.server.samples.now + 580, desk.server.samples.now + 600, broken)
        desk.look(after=600)
        assert desk.source._look_back() == 360
    desk.server.reply = desk.server.good
    desk.look()
    assert {one.identity.training_job for one in desk.windows()} == {"llm-7b", "a broken one"}


def test_what_is_too_much_at_once_is_asked_for_in_halves(desk: Desk) -> None:
    desk.server.samples.scrape(NOW - 20, NOW, whole())

    def one_rank_at_most(request: Request) -> None:
        if "rank=~" in request.fields["query"]:
            request.send(422, b'{"error":"query processing would load too many samples"}')
        else:
            request.send(200, desk.server.samples.answer(request.fields))

    desk.server.reply = one_rank_at_most
    desk.look()
    assert len(desk.windows()) == 4
    assert desk.lines == []
    assert desk.source.requests()["too_large"] == 3


def few_at_once(desk: Desk, most: int) -> Callable[[Request], None]:
    """Return a reply that refuses answers of more than ``most`` series."""

    def reply(request: Request) -> None:
        answer = desk.server.samples.answer(request.fields)
        if answer.count(b'"metric"') > most:
            request.send(422, b'{"error":"query processing would load too many samples into memory"}')
        else:
            request.send(200, answer)

    return reply


def test_a_job_that_is_too_large_for_one_question_is_followed_in_parts(desk: Desk) -> None:
    many = [replace(one, identity=who(rank)) for rank in range(15) for one in whole()[:1]]
    desk.server.samples.scrape(NOW - 20, NOW, many)
    desk.server.reply = few_at_once(desk, 3)
    assert len({point.labels["rank"] for one in desk.look() for point in one.points}) == 15
    assert desk.source.requests()["too_large"] == 1 + 4  # all; then the windows of 15, 7, 3 and 1
    assert "too many samples" in desk.lines[0]
    desk.server.reply = desk.server.good
    desk.look(after=5)
    assert sorted(one.identity.rank for one in desk.windows()) == list(range(15))


def test_more_workers_than_a_look_may_hold_are_refused_with_the_remedy(desk: Desk) -> None:
    desk.server.samples.scrape(NOW - 20, NOW, whole())
    desk.source = PrometheusSource(Backend(desk.server.url), desk.take, say=desk.lines.append, workers=0)
    assert desk.look() == []
    assert desk.lines[-1].startswith(f"cannot read {desk.server.url}: it holds more than 0 series of one name; let")


def test_an_answer_that_is_nonsense_is_counted_as_such(desk: Desk) -> None:
    desk.server.reply = lambda request: request.send(200, b"<html>login</html>")
    desk.look()
    assert desk.source.requests()["malformed"] == 1
    desk.server.reply = lambda request: request.send(200, success([]))
    desk.look()
    assert desk.source.requests()["ok"] == 5


def test_an_error_of_the_one_who_takes_is_counted(desk: Desk) -> None:
    def refuse(delivery: Delivery) -> None:
        raise QueryError("131,072 workers are followed already; raise --workers")

    desk.refuse = refuse
    desk.server.samples.add(NOW - 5, [*window_points(window(0)), *status_points(who(0))], instance="a")
    desk.look()
    assert desk.source.failures == 1
    assert "raise --workers" in desk.lines[-1]


def large(desk: Desk, size: int = 4) -> list[tuple[tuple[str, str], Table]]:
    """Let jobs of ``size`` workers be large; return the list into which their windows go."""
    taken: list[tuple[tuple[str, str], Table]] = []
    given = Backend(desk.server.url, timeout_seconds=20)
    desk.source = PrometheusSource(
        given, desk.take, take=lambda key, table: taken.append((key, table)), say=desk.lines.append,
        clock=lambda: desk.now, large=size,
    )  # fmt: skip
    return taken


def test_the_window_of_a_large_job_comes_as_a_table_and_only_once(desk: Desk) -> None:
    taken = large(desk)
    desk.server.samples.scrape(NOW - 20, NOW, whole())
    assert len(desk.look()) == 4  # what they are, without their windows
    assert desk.windows() == []
    ((key, table),) = taken
    assert key == ("vision", "llm-7b")
    assert sorted(zip(table.workers.rank.tolist(), table.workers.reason, strict=True)) == [
        (rank, "degraded") for rank in range(4)
    ]
    assert table.beta.size == sum(len(one.patterns) for one in whole())
    desk.look(after=5)
    assert len(taken) == 1


def test_a_smaller_job_and_a_hang_are_read_worker_by_worker(desk: Desk) -> None:
    taken = large(desk, 5)
    desk.server.samples.scrape(NOW - 20, NOW, whole())
    desk.look()
    assert (len(desk.windows()), taken) == (4, [])
    again = large(desk)
    desk.deliveries.clear()
    desk.server.samples.scrape(NOW, NOW + 20, whole(window_id=WINDOW + 60, reason="blocked"))
    desk.look(after=20)
    assert [one.reason for one in desk.windows()] == ["blocked"] * 4
    assert [table.workers.reason[0] for _, table in again] == ["degraded"]


def test_rows_that_are_not_whole_wait_for_the_next_look_and_then_are_all_there_is(desk: Desk) -> None:
    taken = large(desk)
    half = [replace(one, kinds={"compute": 0.4}) if one.identity.rank == 3 else one for one in whole()]
    desk.server.samples.scrape(NOW - 20, NOW, half)
    desk.look()
    assert [sorted(table.workers.rank.tolist()) for _, table in taken] == [[0, 1, 2]]
    assert not desk.source.settled
    desk.look(after=5)
    assert [sorted(table.workers.rank.tolist()) for _, table in taken] == [[0, 1, 2], [3]]
    assert desk.source.settled


def told(rank: int, schema: str) -> Point:
    """Return what a worker says of its version."""
    return Point(names.BUILD_INFO.name, who(rank).labels() | {"schema": schema, "version": "9"}, 1.0)


def test_of_a_large_job_workers_of_another_schema_are_handed_over_to_be_refused(desk: Desk) -> None:
    taken = large(desk)
    given = whole()
    for one in given:
        instance = f"10.0.0.{one.identity.rank}:9464"
        schemas = {1: [str(SCHEMA + 1)], 3: [str(SCHEMA + 1), str(SCHEMA)]}  # rank 3 was updated since
        for when, schema in enumerate(schemas.get(one.identity.rank, [str(SCHEMA), str(SCHEMA)])):
            says = [told(one.identity.rank, schema)]
            desk.server.samples.add(NOW - 30 + when, says, instance=instance, job="training")
    desk.server.samples.scrape(NOW - 20, NOW, given)
    desk.look()
    ((_, table),) = taken
    assert sorted(table.workers.rank.tolist()) == [0, 2, 3]
    build = [point for one in desk.deliveries for point in one.points if point.name == names.BUILD_INFO.name]
    assert [(point.labels["rank"], point.labels["schema"]) for point in build] == [("1", str(SCHEMA + 1))]
    desk.look(after=5)
    assert len(taken) == 1


def test_a_rank_that_is_none_holds_up_no_large_job(desk: Desk) -> None:
    taken = large(desk)
    strange = who(0).labels() | {"rank": "first"}
    ours = [
        Point(names.ITERATIONS.name, strange, 1.0),
        Point(names.WINDOW_ID.name, strange | {"reason": "degraded"}, WINDOW),
    ]
    for when in (NOW - 10, NOW - 5):
        desk.server.samples.add(when, ours, instance="z")
    desk.server.samples.scrape(NOW - 20, NOW, whole())
    desk.look()
    ((_, table),) = taken
    assert sorted(table.workers.rank.tolist()) == [0, 1, 2, 3]
