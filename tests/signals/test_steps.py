"""Every loop that was recorded with a real framework, as tokens (10 ms each): what the learner makes of it."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eroica_otel.signals.hooks import AFRESH
from eroica_otel.signals.steps import LONGEST_PERIOD, LONGEST_SEGMENT, Iteration, Learner
from factories_worker import Play, Rows, loop

PLAIN = ((1, (0,)),)


def periods(iterations: list[Iteration]) -> set[float]:
    return {round(iteration.period_seconds, 6) for iteration in iterations if iteration.timed}


def test_a_plain_loop_is_learned_from_ten_repeats_and_timed_from_the_eleventh() -> None:
    play = Play()
    done = play("(D0 O0)*40")
    assert play.learner.cycle == PLAIN
    # 39 segments have ended (the 40th has no next input yet); the first 10 were needed to learn.
    assert [iteration.number for iteration in done] == list(range(11, 40))
    first = done[0]
    assert first.start_ns == 1_000_000_000 + 10 * 20_000_000
    assert first.duration_seconds == pytest.approx(0.010)
    assert first.period_seconds == pytest.approx(0.020)
    assert first.input_seconds == pytest.approx(0.002)
    assert all(iteration.timed and iteration.updates == 1 for iteration in done)
    assert (play.learner.updates, play.learner.irregular) == (40, 0)


@pytest.mark.parametrize(
    ("text", "cycle", "period", "updates"),
    [
        pytest.param("(D0 D0 D0 D0 O0)*40", ((4, (0,)),), 0.05, 1, id="accumulation of 4"),
        pytest.param("((D0)*32 O0)*40", ((32, (0,)),), 0.33, 1, id="32 micro-batches"),
        pytest.param("(D0 O0 O1)*40", ((1, (0, 1)),), 0.03, 1, id="GAN"),
        pytest.param("((D0 O0)*4 D0 O0 O1)*40", (*PLAIN * 4, (1, (0, 1))), 0.11, 5, id="GAN of 5 critic steps"),
        pytest.param("(D0 O0 D0 O0 O1)*40", (*PLAIN, (1, (0, 1))), 0.05, 2, id="GAN of 2 critic steps"),
        pytest.param("(D0 O0 O1 O2 O3)*40", ((1, (0, 1, 2, 3)),), 0.05, 1, id="optimizer in backward"),
        pytest.param("(D0 O1 O0)*40", ((1, (0, 1)),), 0.03, 1, id="inner optimizer, then its wrapper"),
        pytest.param("O0 (D0 D0 O0)*40", ((2, (0,)),), 0.03, 1, id="DeepSpeed bf16: a step before any input"),
        pytest.param("(D0 O0 O0 O0)*40", ((1, (0,)),), 0.04, 3, id="three updates on one input"),
        pytest.param("(O0)*60", ((0, (0,)),), 0.01, 1, id="no input at all"),
        pytest.param("(O0 O1 O2)*40", ((0, (0, 1, 2)),), 0.03, 1, id="no input, optimizer in backward"),
    ],
)
def test_the_iteration_of_a_loop(text: str, cycle: object, period: float, updates: int) -> None:
    play = Play()
    done = play(text)
    assert play.learner.cycle == cycle
    assert play.learner.irregular == 0
    assert periods(done) == {period}
    assert {iteration.updates for iteration in done} == {updates}
    assert {b.number - a.number for a, b in itertools.pairwise(done)} == {updates}
    assert done[-1].number in (play.learner.updates - updates, play.learner.updates)


def test_three_hundred_optimizers_in_backward_are_one_iteration() -> None:
    play = Play()
    done = play("(D0 " + " ".join(f"O{number}" for number in range(300)) + ")*14")
    assert play.learner.cycle == ((1, tuple(range(300))),)
    assert [iteration.number for iteration in done] == [11, 12, 13]


def test_without_inputs_there_is_no_duration_and_the_period_runs_from_step_to_step() -> None:
    done = Play()("(O0)*15")
    assert [iteration.number for iteration in done] == [11, 12, 13, 14]
    assert {iteration.duration_seconds for iteration in done} == {None}
    assert {iteration.input_seconds for iteration in done} == {0.0}


def test_an_epoch_that_accumulation_does_not_divide_is_one_irregular_update() -> None:
    play = Play()
    play("(D0 D0 D0 D0 O0)*20 D0")  # the epoch ends with an input that no update follows
    done = play("(D0 D0 D0 D0 O0)*5")
    assert play.learner.irregular == 1
    assert play.learner.updates == 25
    assert periods(done) == {0.05}
    assert [iteration.number for iteration in done] == [22, 23, 24]


def test_an_update_that_nobody_saw_merges_two_inputs_into_one_irregular_segment() -> None:
    play = Play()
    play("(D0 O0)*20")
    done = play("D0 D0 O0 (D0 O0)*5")
    assert play.learner.irregular == 1
    assert periods(done) == {0.02}


def test_validation_inside_makes_its_update_counted_but_not_timed_whatever_the_loader() -> None:
    play = Play()
    play("(D0 O0)*20")
    done = play("(D1)*7 (D0 O0)*10 (D2)*300 (D0 O0)*10 (D3)*7")
    assert play.learner.updates == 40
    assert [iteration.number for iteration in done if not iteration.timed] == [21, 31]
    assert play.learner.irregular == 2
    assert periods(done) == {0.02}
    assert [iteration.number for iteration in done] == list(range(20, 41))
    assert play.learner.cycle == PLAIN
    assert not play.learner.unmatched


def test_a_validation_during_learning_does_not_disturb() -> None:
    play = Play()
    play("((D0 O0)*4 (D1)*5)*4")
    assert play.learner.cycle == PLAIN


def test_a_loader_rebuilt_for_each_epoch_changes_nothing() -> None:
    play = Play()
    done = play("(D0 O0)*15 (D1 O0)*15 (D2 O0)*15")
    assert [iteration.number for iteration in done] == list(range(11, 45))
    assert all(iteration.timed for iteration in done)


def test_hugging_face_fetches_ahead_epochs_begin_with_three_inputs_and_end_with_one() -> None:
    play = Play()
    epoch = "D0 D0 D0 O0 (D0 D0 O0)*28 D0 O0"
    done = play(f"{epoch} {epoch} {epoch}")
    assert play.learner.cycle == ((2, (0,)),)
    assert play.learner.updates == 90
    # After learning in the first epoch: its end, begin and end of the second, begin of the third.
    assert play.learner.irregular == 4
    assert periods(done) == {0.03}


def test_accelerate_ends_an_epoch_with_two_updates_in_a_row_which_are_not_one_slow_iteration() -> None:
    play = Play()
    epoch = "D0 D0 O0 (D0 O0)*28 O0"
    done = play(f"{epoch} {epoch}")
    assert play.learner.cycle == PLAIN
    assert play.learner.updates == 60
    assert periods(done) == {0.02}


def test_lightning_checks_validation_first_so_that_the_first_loader_is_not_the_training_one() -> None:
    play = Play()
    done = play("(D0)*2 ((D1 D1 O0)*20 (D0)*4)*2")
    assert play.learner.cycle == ((2, (0,)),)
    assert play.learner.irregular == 1
    assert periods(done) == {0.03}


def test_inputs_without_any_update_are_unmatched_from_200_on() -> None:
    play = Play()
    play("(D0)*199")
    states = [play.learner.unmatched]
    for token in ("D0", "O0"):
        play(token)
        states.append(play.learner.unmatched)
    assert states == [False, True, False]


@pytest.mark.parametrize("text", ["(D0)*256 O0 (D0)*255", "(D0 O0)*3 (D1)*1000"], ids=["micro-batches", "evaluation"])
def test_after_an_update_inputs_alone_are_not_unmatched_before_the_loop_is_known_either(text: str) -> None:
    play = Play()
    play(text)
    assert play.learner.cycle == ()
    assert not play.learner.unmatched


def test_a_long_evaluation_after_learning_is_not_unmatched() -> None:
    play = Play()
    play("(D0 O0)*20 (D1)*1000")
    assert not play.learner.unmatched
    assert play.learner.cycle == PLAIN


def test_updates_without_any_order_are_unmatched() -> None:
    play = Play()
    # Runs of 1, 2, 3 ... inputs never repeat.
    play(" ".join(f"(D0)*{count} O0" for count in range(1, 100)) * 5)
    assert play.learner.cycle == ()
    assert play.learner.unmatched


def test_a_loop_that_changes_is_learned_anew_after_30_unmatched_segments() -> None:
    play = Play()
    play("(D0 O0)*20")
    assert play("(D0 D0 D0 D0 O0)*31 D0")[0].number == 20  # the last plain one
    assert not play.learner.cycle
    play("D0 D0 D0 O0 (D0 D0 D0 D0 O0)*10")
    assert play.learner.cycle == ((4, (0,)),)
    assert periods(play("(D0 D0 D0 D0 O0)*5")) == {0.05}


def test_a_replaced_optimizer_is_learned_anew() -> None:
    play = Play()
    play("(D0 O0)*20")
    play.rows.counted = "O7"
    play("(D0 O7)*45")
    assert play.learner.cycle == ((1, (1,)),)
    done = play("(D0 O7)*5")
    assert [iteration.number for iteration in done] == list(range(65, 70))


def test_a_loop_with_another_counted_optimizer_is_learned_anew_at_once() -> None:
    play = Play()
    play("(D0 O0)*20")
    play.rows.counted = "O7"
    play("D0 O7")
    assert not play.learner.cycle
    done = play("(D0 O7)*12")
    assert play.learner.cycle == ((1, (1,)),)
    assert [(iteration.loop, iteration.counted) for iteration in done] == [(2, 2)] * 2


def test_a_loop_whose_optimizer_is_not_counted_is_neither_learned_nor_timed() -> None:
    play = Play()
    play("(D0 O0)*20")
    assert play("(D0 O7)*100 D0")[0].number == 20
    assert not play.learner.cycle
    assert play.learner.updates == 20


def test_two_loaders_in_each_iteration_are_no_validation() -> None:
    play = Play()
    done = play("(D0 D1 O0)*20 (D2)*5 (D0 D1 O0)*5")
    assert play.learner.cycle == PLAIN
    # Validation runs after update 20: it lies between it and update 21.
    assert [iteration.number for iteration in done if not iteration.timed] == [21]
    assert periods(done) == {0.03}


def test_an_iteration_learned_from_an_odd_moment_is_learned_anew() -> None:
    """Ten segments of two updates each, then one each for good: they match, and none is as usual."""
    play = Play()
    play("(D0 O0 O0)*12")
    play("(D0 O0)*50")
    assert periods(play("(D0 O0)*5")) == {0.02}


def test_a_loop_that_needs_no_inputs_any_more_is_timed_from_update_to_update() -> None:
    play = Play()
    play("(D0 O0)*20")
    play(f"(O0)*{LONGEST_SEGMENT + 20}")
    done = play("(O0)*5")
    assert periods(done) == {0.01}
    assert {iteration.duration_seconds for iteration in done} == {None}


def test_inputs_of_a_thread_that_does_not_train_are_forgotten() -> None:
    play = Play()
    assert play.learner.feed([(1000, 1, 2), (1000, 2, 3), AFRESH]) == []
    assert periods(play("(O0)*20")) == {0.01}


def test_few_repeats_are_enough_when_asked_for() -> None:
    play = Play(Learner(repeats=3))
    play("(D0 O0)*4")
    assert play.learner.cycle == PLAIN


segments = st.tuples(st.integers(1, 4), st.frozensets(st.integers(1, 3)))
cycles = st.lists(segments, min_size=1, max_size=LONGEST_PERIOD, unique=True)


@given(cycles)
def test_any_cycle_of_up_to_16_different_segments_is_learned(cycle: list[tuple[int, frozenset[int]]]) -> None:
    one = " ".join(f"(D0)*{inputs} O0 " + " ".join(f"O{n}" for n in sorted(others)) for inputs, others in cycle)
    play = Play(Learner(repeats=3))
    done = play(f"({one})*6")
    events = len(loop(one))
    assert len(play.learner.cycle) == len(cycle)
    # Of 6 rounds the last is not over and 3 were needed to learn.
    assert [iteration.number for iteration in done] == [4 * len(cycle), 5 * len(cycle)]
    assert periods(done) == {round(events * 0.01, 6)}


@given(st.lists(st.sampled_from(["D0", "D1", "O0", "O1"]), max_size=300))
def test_whatever_comes_iterations_follow_one_another_and_every_update_is_counted(tokens: list[str]) -> None:
    learner = Learner(repeats=3)
    rows = Rows()
    done = learner.feed(rows.of(tokens))
    assert learner.updates == rows.steps
    for before, after in itertools.pairwise(done):
        assert after.number > before.number or after.updates == 0
        assert after.start_ns >= before.start_ns + round(before.period_seconds * 1e9) - 1
    for iteration in done:
        assert iteration.period_seconds > 0
        assert iteration.duration_seconds is None or 0 <= iteration.duration_seconds <= iteration.period_seconds
        assert iteration.input_seconds <= iteration.period_seconds


@given(st.lists(st.integers(0, 30), max_size=10))
def test_it_does_not_matter_in_which_pieces_rows_arrive(cuts: list[int]) -> None:
    text = loop("(D0 O0)*14 (D1)*3 (D0 O0)*4 D0 D0 O0 (D0 O0)*4")
    whole = Learner().feed(Rows().of(text))
    rows = list(Rows().of(text))
    learner, pieces = Learner(), []
    for cut in cuts:
        pieces += learner.feed(rows[:cut])
        rows = rows[cut:]
    assert pieces + learner.feed(rows) == whole
