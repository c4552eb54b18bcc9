"""A folder of dumps: which file is of which rank, what is left out and why, and what counts as a collective."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest

from eroica_otel.errors import ConfigError, TraceError
from eroica_otel.offline.flights import Flights, read_flights
from eroica_otel.offline.load import Options
from flight_files import GOLDEN, STACK, TIME_NS, dump, entry, transfer, write

WAITS = dump(entry(4, done=True), entry(5, frames=STACK))


def ranks(flights: Flights) -> list[int]:
    return [window.identity.rank for window in flights.run.windows]


def problems(flights: Flights) -> list[str]:
    return [problem.text for problem in flights.run.problems]


@pytest.mark.parametrize("form", ["pkl", "json"])
def test_what_becomes_of_a_folder(tmp_path: Path, form: str) -> None:
    flights = read_flights(write(tmp_path / "llm", [WAITS] * 4, form), Options(roles={2: "tail"}))
    assert ranks(flights) == [0, 1, 2, 3]
    window = flights.run.windows[2]
    assert (window.identity.training_job, window.identity.role, window.identity.world_size) == ("llm", "tail", 4)
    assert (window.reason, window.window_id, window.progress) == ("blocked", TIME_NS // 10**9, {"0": (5, 4)})
    (pattern,) = window.patterns
    assert (pattern.function, pattern.family, pattern.stack) == (
        "step (train.py:41)", "wait", ("train:main:7", "train:step:41"),
    )  # fmt: skip
    assert [(call.number, call.name, call.done) for call in flights.calls[2]] == [
        (4, "all_reduce", True), (5, "all_reduce", False),
    ]  # fmt: skip
    assert (flights.run.expected, flights.run.problems, flights.run.notes) == (4, (), ())


def test_ranks_by_name_or_by_hand_and_what_is_no_dump_is_passed(tmp_path: Path) -> None:
    for name in ("_dump_0", "comm_lib_trace_rank_1", "node3-local1.pkl"):
        (tmp_path / name).write_bytes(pickle.dumps(WAITS, 2))
    (tmp_path / "fault_injection.log").write_text("Fault ranks: [9, 14]\n")
    (tmp_path / "folder").mkdir()
    (tmp_path / ".hidden").write_text("x")
    flights = read_flights(tmp_path, Options(ranks={"node3-local1.pkl": 2}))
    assert ranks(flights) == [0, 1, 2]
    assert flights.run.notes == ("2 other files and folders beside the dumps not looked at",)
    (told,) = problems(read_flights(tmp_path))
    assert told.endswith("tells the rank; give --rank node3-local1.pkl=N")


def test_two_dumps_of_one_rank_are_both_left_out(tmp_path: Path) -> None:
    write(tmp_path, [WAITS, WAITS, WAITS])
    write(tmp_path, {1: WAITS}, "json")
    flights = read_flights(tmp_path)
    assert ranks(flights) == [0, 2]
    (told,) = problems(flights)
    assert told.startswith("rank 1 is claimed by 2 files, so none of them is used")


def test_what_cannot_be_used_is_told_and_the_others_are_read(tmp_path: Path) -> None:
    write(tmp_path, [WAITS] * 6)
    (tmp_path / "nccl_trace_rank_1").write_bytes(b"")
    (tmp_path / "nccl_trace_rank_2").write_bytes(pickle.dumps(WAITS, 2)[:100])
    (tmp_path / "nccl_trace_rank_3").unlink()
    (tmp_path / "nccl_trace_rank_3").symlink_to(tmp_path / "nowhere")
    (tmp_path / "nccl_trace_rank_4").write_text("x")
    (tmp_path / "odd").write_bytes(b"\x80\x02cos\nsystem\n.")
    flights = read_flights(tmp_path)
    assert ranks(flights) == [0, 5]
    told = problems(flights)
    for text, why in zip(told, ("empty", "cut short", "cannot be read", "neither a pickle", "run code"), strict=True):
        assert why in text
    assert flights.run.expected == 6


def test_a_folder_without_a_dump(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="holds no dump: it is empty; give the folder"):
        read_flights(tmp_path)
    (tmp_path / "notes.txt").write_text("x")
    with pytest.raises(ConfigError, match="holds no dump among its 1 files"):
        read_flights(tmp_path)
    with pytest.raises(ConfigError, match=r"--flight-recorder .*nowhere cannot be read"):
        read_flights(tmp_path / "nowhere")
    (tmp_path / "rank_0").write_bytes(b"")
    (tmp_path / "rank_1").write_bytes(b"")
    with pytest.raises(TraceError, match=r"rank_0 is empty.*\(and 1 more problem\)"):
        read_flights(tmp_path)


def test_groups_without_entries_are_told_by_the_order_in_which_they_were_made() -> None:
    """Rank 9 kept nothing; its status knows its groups by the numbers of the recorder alone."""
    flights = read_flights(GOLDEN / "lock_gil_1st")
    assert flights.calls[9] == ()
    progress = flights.run.windows[9].progress
    assert progress["TENSOR_MODEL_PARALLEL_GROUP (37)"] == (88_683, 88_683)
    assert progress["EXPERT_MODEL_PARALLEL_GROUP (72)"] == (45_264, 45_264)
    assert "PIPELINE_MODEL_PARALLEL_GROUP (42)" not in progress


def test_groups_whose_order_proves_nothing_are_left_out(tmp_path: Path) -> None:
    named = {"abc": {"name": "abc", "desc": "tp", "ranks": "[0, 1]"}}
    flights = read_flights(write(tmp_path, [dump(pg_config=named, world=2)] * 2))
    assert [window.progress for window in flights.run.windows] == [{}, {}]


def test_what_a_later_call_has_passed_by_has_ended(tmp_path: Path) -> None:
    joined = [
        transfer("nccl:send 0->1", 1),
        entry(1, "nccl:coalesced", is_p2p=True, done=True),
        entry(3),
        entry(4, done=True),
    ]
    flights = read_flights(write(tmp_path, [dump(*joined, entry(5))]))
    assert [call.done for call in flights.calls[0]] == [True, True, True, True, False]


def test_ends_of_a_transfer_are_ranks_of_the_job(tmp_path: Path) -> None:
    config = {"7": {"name": "7", "desc": "pp", "ranks": "[1, 3]"}}
    one = transfer("nccl:recv 1<-0", process_group=("7", "pp"))
    wrong = transfer("nccl:recv 5<-0", process_group=("7", "pp"))
    flights = read_flights(write(tmp_path, {3: dump(one, wrong, pg_config=config)}))
    assert [call.transfer for call in flights.calls[3]] == [(1, 3), (-1, -1)]


def test_a_member_that_kept_nothing_of_a_group_has_not_entered_what_the_others_wait_for(tmp_path: Path) -> None:
    """Transfers blur the status of the group, so it does not count."""
    dumps = [dump(transfer("nccl:send 0->1", 6), entry(7)), dump(entry(7)), dump()]
    flights = read_flights(write(tmp_path, dumps))
    assert [window.progress for window in flights.run.windows] == [{"0": (7, 6)}, {"0": (7, 6)}, {"0": (6, 6)}]


def test_odd_entries_are_counted_in_the_notes(tmp_path: Path) -> None:
    (tmp_path / "rank_0.json").write_text(json.dumps(dump(entry(5)) | {"entries": [entry(5), {}, 7]}))
    assert read_flights(tmp_path).run.notes == ("2 entries of the dumps tell no number or no name, and are left out",)


def test_several_processes_read_what_one_does(tmp_path: Path) -> None:
    write(tmp_path, [WAITS] * 6)
    (tmp_path / "nccl_trace_rank_4").write_bytes(b"")
    seen: list[tuple[int, int]] = []
    flights = read_flights(tmp_path, Options(jobs=2), lambda done, count, path, share: seen.append((done, count)))
    assert flights == read_flights(tmp_path, Options(jobs=1))
    assert ranks(flights) == [0, 1, 2, 3, 5]
    assert seen == [(done, 6) for done in range(1, 7)]
