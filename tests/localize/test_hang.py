"""The table for windows in which nothing moved: who holds up the job, or why nobody is named."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from eroica_otel.localize.presence import Presence
from eroica_otel.localize.verdict import judge
from eroica_otel.model import Finding, Report, WorkerWindow
from factories_localize import (
    IN_ALL_REDUCE,
    IN_AUGMENT,
    IN_BACKWARD,
    IN_SAVE,
    TRAIN,
    rank,
    reference_of,
    stuck,
    window_of,
)

WAITS = {"0": (42, 41)}
BEHIND = {"0": (41, 41)}


def there(states: Mapping[int, str] | None = None, size: int = 4, **gone: float) -> dict[int, Presence]:
    """Return ranks that live and are blocked; ``r3=70.0`` is gone for so long."""
    known = {at: Presence("blocked", 2.0, False, f"node-{at}", "all") for at in range(size)}
    known |= {at: replace(known[at], state=state) for at, state in (states or {}).items()}
    lost = {int(name[1:]): seconds for name, seconds in gone.items()}
    return known | {at: replace(known[at], silent_seconds=s, gone=True) for at, s in lost.items()}


def verdict(
    windows: Sequence[WorkerWindow],
    presence: Mapping[int, Presence] | None = None,
    *,
    expected: int = 4,
    reference: Sequence[WorkerWindow] = (),
) -> Report:
    known = there(size=expected) if presence is None else presence
    return judge(windows, reference, expected=expected, presence=known)


def only(report: Report) -> Finding:
    (found,) = report.findings
    return found


def told(report: Report) -> tuple[str, tuple[int, ...], str]:
    found = only(report)
    return found.cause, found.ranks, found.confidence


def others(*culprits: int, size: int = 4, **changes: Any) -> list[WorkerWindow]:
    return [stuck(at, world=size, **changes) for at in range(size) if at not in culprits]


def test_a_stopped_process_comes_before_everything_it_also_shows() -> None:
    stopped = stuck(1, IN_AUGMENT, stopped_seconds=9.5, progress=BEHIND)
    report = verdict([*others(1, progress=WAITS), stopped])
    assert told(report) == ("process_stopped", (1,), "high")
    found = only(report)
    assert (found.severity, found.impact_ratio, found.impact_seconds, found.scope) == ("critical", 1.0, 34.0, "worker")
    assert found.hosts == ("node-1",)
    assert found.evidence == (
        "its process was in state T (stopped) for 9.5 s of 10 s",
        "ranks 0, 2, 3 wait in all_reduce (distributed_c10d.py:300)",
    )
    (victims,) = report.victims
    assert (victims.ranks, victims.waits_for) == ((0, 2, 3), (1,))


def test_a_stopped_process_without_any_stack_is_found() -> None:
    stopped = replace(stuck(0, stopped_seconds=10.0), patterns=(), progress={})
    assert told(verdict([stopped, *others(0)])) == ("process_stopped", (0,), "high")


def test_a_short_stop_is_none() -> None:
    assert not verdict([*others(1), stuck(1, stopped_seconds=0.4)]).findings


def test_a_rank_that_is_both_stopped_and_missing_is_gone() -> None:
    report = verdict(others(3), there(r3=70.0))
    assert told(report) == ("hang_missing_rank", (3,), "high")
    assert only(report).evidence[0] == "rank 3 is gone: nothing has come from it for 70 s"
    assert only(report).hosts == ("node-3",)
    assert (report.missing_ranks, report.workers_seen) == ((3,), 3)


def test_a_missing_rank_that_lives_is_not_gone() -> None:
    report = verdict(others(3))
    assert not report.findings
    assert report.notes[0].startswith("not enough evidence: ranks 0, 1, 2 wait in all_reduce")
    assert report.notes[0].endswith("and the others have not reported")


def test_a_rank_that_never_delivered_is_named_with_low_confidence_and_after_all_others() -> None:
    known = there(size=3)
    report = verdict(others(3), known)
    assert told(report) == ("hang_missing_rank", (3,), "low")
    assert told(verdict([*others(2, 3), stuck(2, IN_AUGMENT)], known)) == ("hang_in_python", (2,), "high")


def test_where_half_of_the_ranks_never_delivered_it_is_the_deliveries_that_are_missing() -> None:
    assert verdict(others(2, 3), there(size=2)).findings == ()
    assert told(verdict(others(3), there(size=3))) == ("hang_missing_rank", (3,), "low")


def test_half_of_the_ranks_report_nothing_and_are_gone_with_their_node() -> None:
    known = there(size=8, r4=80.0, r5=80.0, r6=80.0, r7=80.0)
    known = {at: replace(one, host=f"node-{at // 4}") for at, one in known.items()}
    windows = [
        replace(w, identity=replace(w.identity, host=f"node-{w.identity.rank // 4}"))
        for w in others(4, 5, 6, 7, size=8)
    ]
    report = verdict(windows, known, expected=8)
    assert told(report) == ("hang_missing_rank", (4, 5, 6, 7), "high")
    assert (only(report).scope, only(report).hosts) == ("node", ("node-1",))


def test_half_of_the_ranks_report_nothing_and_live() -> None:
    report = verdict(others(4, 5, 6, 7, size=8), expected=8)
    assert not report.findings
    assert report.missing_ranks == (4, 5, 6, 7)


def test_a_gone_rank_beside_one_that_hangs_in_python_is_told_with_low_confidence() -> None:
    report = verdict([*others(1, 3), stuck(1, IN_AUGMENT)], there(r3=70.0))
    assert [(f.cause, f.ranks, f.confidence) for f in report.findings] == [
        ("hang_missing_rank", (3,), "low"),
        ("hang_in_python", (1,), "high"),
    ]


def test_who_left_out_a_collective_waits_too_and_is_behind() -> None:
    report = verdict([*others(1, progress=WAITS), stuck(1, IN_BACKWARD, progress=BEHIND)])
    assert told(report) == ("hang_missing_rank", (1,), "high")
    found = only(report)
    assert found.stack == IN_BACKWARD
    assert found.evidence[0] == (
        "left out a collective of process group '0': it has entered 41, ranks 0, 2, 3 have entered 42 and wait"
    )
    assert report.victims[0].ranks == (0, 2, 3)


def test_who_is_behind_in_its_own_code_hangs_there() -> None:
    report = verdict([*others(2, progress=WAITS), stuck(2, IN_AUGMENT, progress=BEHIND, cpu_seconds=9.9)])
    assert told(report) == ("hang_in_python", (2,), "high")
    assert (only(report).function, only(report).stack) == ("augment (train.py:41)", IN_AUGMENT)
    assert only(report).evidence[:3] == (
        "is behind in process group '0': it has entered 41 collectives, ranks 0, 1, 3 have entered 42 and wait",
        "it stands in augment (train.py:41) in 100 % of the samples",
        "its training thread used 9.9 s of CPU time in 10 s: it computes",
    )


def test_who_is_behind_without_a_stack_is_missing() -> None:
    mute = replace(stuck(2, progress=BEHIND), patterns=())
    assert told(verdict([*others(2, progress=WAITS), mute])) == ("hang_missing_rank", (2,), "high")


def test_a_stack_in_no_wait_frame_is_found_without_any_progress() -> None:
    report = verdict([*others(2), stuck(2, IN_AUGMENT)])
    assert told(report) == ("hang_in_python", (2,), "high")
    assert only(report).domain == "code"


def test_a_loop_that_never_ends_is_the_function_that_is_not_left() -> None:
    inner = [(*IN_AUGMENT, f"train:part_{at}:{at}") for at in range(50, 60)]
    found = only(verdict([*others(2), stuck(2, *inner)]))
    assert (found.stack, found.function) == (IN_AUGMENT, "augment (train:41)")


def test_two_ranks() -> None:
    report = verdict([stuck(0, world=2), stuck(1, IN_AUGMENT, world=2)], expected=2)
    assert told(report) == ("hang_in_python", (1,), "high")
    assert told(verdict([stuck(0, world=2)], there(size=2, r1=61.0), expected=2)) == ("hang_missing_rank", (1,), "high")


def test_one_rank_alone_in_a_function_of_its_loop() -> None:
    loop = [replace(stuck(0, IN_AUGMENT, IN_BACKWARD, world=1), reason="reference", iterations=30, window_id=1)]
    report = verdict([stuck(0, IN_AUGMENT, world=1)], expected=1, reference=loop)
    assert told(report) == ("hang_in_python", (0,), "low")
    assert (only(report).verdict, only(report).scope) == ("culprit", "worker")
    assert not verdict([stuck(0, IN_AUGMENT, world=1)], expected=1).findings


def test_one_rank_alone_that_left_its_loop() -> None:
    loop = [replace(stuck(0, IN_AUGMENT, IN_BACKWARD, world=1), reason="reference", iterations=30, window_id=1)]
    after = ("__main__:<module>:1", "train:main:12", "train:plot:90")
    report = verdict([stuck(0, after, world=1)], expected=1, reference=loop)
    assert not report.findings
    assert report.notes[0] == (
        "the training has left its loop: the only rank stands in plot (train.py:90), outside of it, and nobody waits "
        "in a collective"
    )


def test_all_ranks_in_the_input_are_a_finding_about_the_job() -> None:
    reading = (*TRAIN, "torch.utils.data.dataloader:_SingleProcessDataLoaderIter._next_data:700", "data:read:9")
    report = verdict([stuck(at, reading) for at in range(4)])
    found = only(report)
    assert (found.verdict, found.cause, found.ranks, found.confidence) == ("job", "hang_in_python", (), "low")
    assert not report.victims


def test_all_ranks_left_their_loop() -> None:
    loop = [replace(w, reason="reference", iterations=30, window_id=1) for w in others()]
    loop = [replace(w, patterns=stuck(0, IN_AUGMENT, IN_BACKWARD).patterns) for w in loop]
    after = ("__main__:<module>:1", "train:main:12", "train:plot:90")
    report = verdict([stuck(at, after) for at in range(4)], reference=loop)
    assert not report.findings
    assert report.notes[0].startswith("the training has left its loop")


IN_LOADER = (
    "torch.utils.data._utils.worker:_worker_loop:244",
    "torch.utils.data._utils.fetch:_MapDatasetFetcher.fetch:49",
    "__main__:Remote.read:10",
)


def of_loader(window: WorkerWindow, beta: float = 1.0) -> WorkerWindow:
    """Return the window as of a worker that waits for a process of its loader, which stands in ``read``."""
    (held,) = stuck(0, IN_LOADER).patterns
    others = () if beta == 1.0 else tuple(replace(one, beta=(1 - beta) * one.beta) for one in window.patterns)
    return replace(window, patterns=(*others, replace(held, beta=beta, family="loader")))


def test_a_process_of_the_loader_that_hangs_is_named_with_its_function() -> None:
    report = verdict([of_loader(stuck(1, progress=BEHIND)), *others(1, progress=WAITS)])
    assert told(report) == ("hang_in_python", (1,), "high")
    assert only(report).stack == IN_LOADER
    assert only(report).function.startswith("Remote.read")


def test_a_loop_that_had_a_loader_is_left_like_any_other() -> None:
    """Stacks of the loader's processes do not begin with the training's, so what all others share stays outside."""
    loop = [replace(w, reason="reference", iterations=30, window_id=1) for w in others()]
    loop = [of_loader(replace(w, patterns=stuck(0, IN_AUGMENT, IN_BACKWARD).patterns), 0.3) for w in loop]
    after = ("__main__:<module>:1", "train:main:12", "train:plot:90")
    report = verdict([stuck(at, after) for at in range(4)], reference=loop)
    assert not report.findings
    assert report.notes[0].startswith("the training has left its loop")


def test_all_ranks_wait_with_identical_stacks_and_equal_counts() -> None:
    report = verdict(others(progress=WAITS))
    assert not report.findings
    assert report.notes == (
        "not enough evidence: all 4 ranks wait in all_reduce (distributed_c10d.py:300); collective 42 of process group "
        "'0' was entered by all and completed by none: look at the network and at the library between them",
    )


def test_all_ranks_wait_and_nothing_is_known_of_collectives() -> None:
    assert verdict(others()).notes[0].endswith("and nothing shows for whom")


def test_the_one_in_another_collective_than_all_others() -> None:
    report = verdict([*others(3, progress=WAITS), stuck(3, IN_BACKWARD, progress=WAITS)])
    assert told(report) == ("hang_missing_rank", (3,), "low")
    half = [stuck(at, IN_BACKWARD if at > 1 else IN_ALL_REDUCE, progress=WAITS) for at in range(4)]
    assert not verdict(half).findings


def test_progress_missing_on_some_and_unknown_completions() -> None:
    report = verdict([stuck(0, progress={"0": (42, None)}), stuck(1), stuck(2, IN_AUGMENT, progress=BEHIND), stuck(3)])
    assert told(report) == ("hang_in_python", (2,), "high")
    assert "rank 0 has entered 42 and waits" in only(report).evidence[0]


def test_groups_of_different_names_prove_nothing() -> None:
    windows = [stuck(at, progress={f"group-{at}": (42 + at, 41 + at)}) for at in range(4)]
    assert not verdict(windows).findings


def test_two_groups_of_one_name_are_not_compared() -> None:
    apart = [stuck(at, progress={"tp": (90, 89) if at < 2 else (70, 69)}) for at in range(4)]
    assert not verdict(apart).findings


def test_who_waits_for_the_one_that_is_missing_is_a_victim_though_others_wait_for_it() -> None:
    tp, dp = "tp", "dp"
    windows = [
        stuck(0, progress={tp: (10, 9), dp: (4, 4)}),
        stuck(1, IN_AUGMENT, progress={tp: (9, 9), dp: (4, 4)}),
        stuck(2, progress={dp: (5, 4)}),
        stuck(3, progress={dp: (5, 4)}),
    ]
    assert told(verdict(windows)) == ("hang_in_python", (1,), "high")


def test_ranks_that_wait_for_each_other() -> None:
    windows = [stuck(0, progress={"a": (5, 4), "b": (3, 3)}), stuck(1, progress={"a": (4, 4), "b": (4, 3)})]
    report = verdict(windows, expected=2)
    assert told(report) == ("hang_missing_rank", (0, 1), "low") or only(report).verdict == "job"
    assert only(report).evidence[0].startswith("waits for ranks that wait for it")


def test_of_ranks_that_wait_for_each_other_the_few_went_another_way_than_the_many() -> None:
    """One leaves a collective of "a" out and goes on to the next of "b", where the others do not come."""
    windows = [stuck(rank, progress={"a": (5, 4), "b": (3, 3)}) for rank in (0, 2, 3)]
    elsewhere = (*TRAIN[:2], "train:gradients:44", *IN_ALL_REDUCE[-2:])
    windows.append(stuck(1, elsewhere, progress={"a": (4, 4), "b": (4, 3)}))
    report = verdict(windows, expected=4)
    assert told(report) == ("hang_missing_rank", (1,), "low")
    assert [(victims.ranks, victims.waits_for) for victims in report.victims] == [((0, 2, 3), (1,))]


def test_a_call_that_holds_the_interpreter_shows_no_stack() -> None:
    mute = replace(stuck(2), patterns=())
    report = verdict([*others(2), mute], there({2: ""}))
    assert told(report) == ("hang_in_python", (2,), "low")
    assert only(report).evidence[0].startswith("no stack of rank 2 could be read")


def test_a_rank_that_saves_pauses_all() -> None:
    report = verdict([stuck(0, IN_SAVE), *others(0)], there({0: "paused"}))
    assert not report.findings
    assert report.notes == ("rank 0 saves a checkpoint (torch.serialization:save); the others wait for it",)


def test_a_rank_that_says_that_it_pauses_and_reports_nothing() -> None:
    report = verdict(others(0), there({0: "paused"}))
    assert not report.findings
    assert report.notes[0] == "rank 0 pauses on purpose; the others wait for it"


def test_a_save_that_says_itself_that_it_is_blocked_is_the_cause() -> None:
    writing = (*IN_SAVE, "torch.serialization:_save:950")
    report = verdict([stuck(0, writing), *others(0)])
    assert told(report) == ("checkpoint_stall", (0,), "high")
    assert only(report).stack == writing
    assert report.victims[0].ranks == (1, 2, 3)


def test_a_save_of_an_unknown_state_is_a_pause_for_ten_minutes() -> None:
    unknown = there({0: ""})
    assert not verdict([stuck(0, IN_SAVE), *others(0)], unknown).findings
    assert only(verdict([stuck(0, IN_SAVE, silent_seconds=600.0), *others(0)], unknown)).cause == "checkpoint_stall"


def test_activation_checkpointing_is_no_pause() -> None:
    inside = (*TRAIN, "torch.utils.checkpoint:checkpoint:100", "model:forward_with_checkpointing:8")
    assert told(verdict([stuck(0, inside), *others(0)], there({0: ""})))[0] == "hang_in_python"


@pytest.mark.parametrize("frame", ["pdb:Pdb.interaction:300", "bdb:Bdb.dispatch_line:90", "IPython.core.debugger:x:1"])
def test_a_debugger_is_no_hang_however_long(frame: str) -> None:
    report = verdict([stuck(0, (*TRAIN, frame), silent_seconds=9999.0), *others(0)])
    assert not report.findings
    assert "is held in a debugger" in report.notes[0]


def test_a_validation_is_a_pause() -> None:
    inside = (*TRAIN, "transformers.trainer:Trainer.evaluate:4000", "train:metric:7")
    report = verdict([stuck(0, inside), *others(0)], there({0: "paused"}))
    assert report.notes[0].startswith("rank 0 runs an evaluation (transformers.trainer:Trainer.evaluate)")


def test_a_stopped_or_dead_rank_is_no_pause_though_another_saves() -> None:
    saving = [stuck(0, IN_SAVE), *others(0, 3)]
    assert told(verdict(saving, there({0: "paused"}, r3=70.0)))[0] == "hang_missing_rank"
    stopped = [*saving, stuck(3, stopped_seconds=9.0)]
    assert told(verdict(stopped, there({0: "paused"})))[0] == "process_stopped"


def test_the_end_of_the_training_is_no_hang() -> None:
    report = verdict([stuck(0, (*TRAIN, "train:plot:90"))], there(dict.fromkeys((1, 2, 3), "finished")))
    assert not report.findings
    assert report.notes[0].startswith("the training has ended: ranks 1, 2, 3 have finished")


def test_who_ended_while_others_are_in_a_collective_is_missing() -> None:
    report = verdict(others(3, progress=WAITS), there({3: "finished"}))
    assert told(report) == ("hang_missing_rank", (3,), "high")
    assert "rank 3 has ended the training" in only(report).evidence[0]


def test_a_job_that_moves_again_is_not_blamed() -> None:
    report = verdict([stuck(1, IN_AUGMENT), *others(1)], there(dict.fromkeys(range(4), "healthy")))
    assert not report.findings
    assert report.notes[0].startswith("the training goes on")


def test_a_hang_inside_a_window_of_another_reason() -> None:
    windows = [replace(w, reason="manual") for w in (*others(1), stuck(1, IN_AUGMENT))]
    assert told(verdict(windows)) == ("hang_in_python", (1,), "high")
    short = [replace(w, silent_seconds=3.0) for w in windows]
    assert not verdict(short).findings


def test_no_finding_without_any_knowledge_of_the_ranks() -> None:
    assert judge(others(3), expected=4).findings == ()
    assert judge([], expected=4, presence=there()).findings == ()


def test_a_hang_in_the_history_does_not_make_a_later_fault_a_new_one() -> None:
    report = verdict(others(progress=WAITS))
    calm = window_of([rank() for _ in range(4)])
    assert judge(calm, reference_of(), expected=4, history=[report]).findings == ()


NONSENSE: list[dict[str, Any]] = [
    {"seconds": 0.0}, {"seconds": math.nan}, {"seconds": -1.0}, {"silent_seconds": None}, {"silent_seconds": math.inf},
    {"stopped_seconds": math.nan}, {"cpu_seconds": math.inf}, {"patterns": ()}, {"progress": {"": (0, 0)}},
    {"progress": {"0": (41, 42)}}, {"progress": {str(at): (at, None) for at in range(64)}}, {"iterations": 7},
]  # fmt: skip


@pytest.mark.parametrize("changes", NONSENSE)
@pytest.mark.parametrize("count", [1, 2, 4])
def test_nonsense_is_never_an_exception_and_never_a_number_that_is_none(changes: dict[str, Any], count: int) -> None:
    windows = [stuck(at, world=count, **changes) for at in range(count)]
    report = verdict(windows, expected=count)
    assert all(finding.impact_ratio == 1.0 for finding in report.findings)
    assert report.workers_seen == count


@pytest.mark.parametrize("stack", [(), ("",), ("...",), ("...", "a:b"), (":::",), ("x" * 2000,)])
def test_stacks_that_are_none(stack: tuple[str, ...]) -> None:
    odd = replace(stuck(1), patterns=(replace(stuck(1).patterns[0], stack=stack, function="f"),))
    report = verdict([*others(1), odd])
    assert told(report) == ("hang_in_python", (1,), "high")


def test_a_duplicate_of_a_rank_is_left_out_and_named() -> None:
    report = verdict([*others(1), stuck(1, IN_AUGMENT), stuck(1)])
    assert not report.findings
    assert "rank 1 reported more than once under one identity and is not judged" in report.notes


def test_a_thousand_ranks_of_which_one_hangs() -> None:
    windows = [*others(417, size=1000, progress=WAITS), stuck(417, IN_AUGMENT, world=1000, progress=BEHIND)]
    assert told(verdict(windows, expected=1000)) == ("hang_in_python", (417,), "high")


def test_one_rank_that_has_entered_more_is_ahead_and_those_that_wait_with_it_are_not_missing() -> None:
    """All four wait for number 42: that three have not entered 43 holds up nobody."""
    report = verdict([*others(1, progress=WAITS), stuck(1, progress={"0": (44, 41)})])
    assert told(report) == ("hang_missing_rank", (1,), "low")
    assert only(report).evidence == (
        "rank 1 is ahead in process group '0': it has entered 44 collectives, ranks 0, 2, 3 have 42",
        "all of them wait for number 42, so they may not have called the same one",
    )


def test_two_that_are_ahead_of_two_prove_nothing() -> None:
    ahead = [stuck(at, progress={"0": (44, 41)}) for at in (0, 1)]
    assert verdict([*others(0, 1, progress=WAITS), *ahead]).findings == ()


def test_a_collective_that_has_completed_on_all_but_one_rank() -> None:
    report = verdict([*others(2, progress={"0": (42, 42)}), stuck(2, progress=WAITS)])
    assert told(report) == ("hang_missing_rank", (2,), "low")
    assert only(report).evidence[0] == (
        "collective 42 of process group '0' has completed on ranks 0, 1, 3, not on rank 2, which has entered it"
    )


def test_one_that_waits_while_all_others_are_behind_may_have_entered_one_too_many() -> None:
    report = verdict([*others(0, progress=BEHIND), stuck(0, progress=WAITS)])
    assert told(report) == ("hang_missing_rank", (1, 2, 3), "low")
    assert "or rank 0 entered one too many: it is ahead" in only(report).evidence
