"""One dump of a flight recorder: what is read of it, and how each kind of bad file is told."""

from __future__ import annotations

import json
import math
import pickle
from pathlib import Path
from typing import Any

import pytest

from eroica_otel.errors import TraceError
from eroica_otel.kinds import Frame
from eroica_otel.offline.flightfile import read_dump
from flight_files import GOLDEN, STACK, TIME_NS, dump, entry, transfer

FULL = dump(entry(4, done=True), entry(5, frames=STACK), transfer("nccl:recv 1<-0", 5))


def written(tmp_path: Path, value: Any, form: str = "pkl") -> str:
    path = tmp_path / "dump_0"
    path.write_bytes(json.dumps(value).encode() if form == "json" else pickle.dumps(value, 2))
    return str(path)


@pytest.mark.parametrize("form", ["pkl", "json"])
def test_what_a_dump_tells(tmp_path: Path, form: str) -> None:
    found = read_dump(written(tmp_path, FULL, form))
    assert (found.version, found.members, found.described) == ("2.9", {"0": (0, 1, 2, 3)}, {"0": "default_pg"})
    assert (found.status, found.odd) == ({0: (5, 4)}, 0)
    assert math.isclose(found.last_seconds, (TIME_NS + 5) / 1e9)
    first, second, third = found.entries
    assert (first.group, first.local, first.number, first.backend, first.name) == (
        ("0", "default_pg"), 0, 4, "nccl", "all_reduce",
    )  # fmt: skip
    assert [one.done for one in found.entries] == [True, False, False]
    assert (first.values, first.types) == (8, "Float")
    assert second.frames == (
        Frame("train", "main", "/job/train.py", 7),
        Frame("train", "step", "/job/train.py", 41),
        Frame("torch.distributed.distributed_c10d", "all_reduce", STACK[0]["filename"], 2990),
    )
    assert (third.transfer, third.ends, third.name) == (True, (0, 1), "recv")


def test_numbers_of_the_json_form_may_be_text(tmp_path: Path) -> None:
    status = {"0": {"last_enqueued_collective": "7", "last_completed_collective": "-1"}}
    assert read_dump(written(tmp_path, FULL | {"pg_status": status}, "json")).status == {0: (7, 0)}


def test_gloo_says_by_retired_alone_that_a_collective_has_completed(tmp_path: Path) -> None:
    entries = [entry(1, "gloo:barrier", retired=True), entry(2, "nccl:barrier", retired=True)]
    assert [one.done for one in read_dump(written(tmp_path, dump(*entries))).entries] == [True, False]


def test_a_real_dump() -> None:
    found = read_dump(str(GOLDEN / "lock_gil_1st" / "_dump_8"))
    assert found.members["37"] == (8, 9, 10, 11)
    assert [one.name for one in found.entries][:4] == ["all_to_all"] * 3 + ["_reduce_scatter_base"]
    assert read_dump(str(GOLDEN / "lock_gil_1st" / "_dump_9")).entries == ()


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "is empty: its rank ended before"),
        (pickle.dumps(FULL, 2)[:-40], "cut short after"),
        (b"Fault ranks: [9, 14]\n", "neither a pickle nor JSON; leave it out"),
        (b"{\"version\": ", "not whole JSON"),
        (b"{" + b"\"a\":{" * 5000, "not whole JSON"),
        (b"{\"traceEvents\": []}", "no dump of a flight recorder"),
        (pickle.dumps([1], 2), "no dump of a flight recorder"),
        (pickle.dumps(FULL | {"version": "3.0"}, 2), "version '3.0'; 2.x is read here: take a newer"),
        (pickle.dumps(FULL | {"version": "1.5"}, 2), "version '1.5'"),
        (pickle.dumps(FULL | {"version": 2.9}, 2), "no dump of a flight recorder"),
        (pickle.dumps(FULL | {"entries": {}}, 2), "its entries are no list"),
    ],
)  # fmt: skip
def test_bad_files_are_told_in_one_line(tmp_path: Path, data: bytes, why: str) -> None:
    (tmp_path / "dump_0").write_bytes(data)
    with pytest.raises(TraceError) as refused:
        read_dump(str(tmp_path / "dump_0"))
    text = str(refused.value)
    assert why in text
    assert text.startswith(str(tmp_path / "dump_0"))
    assert "\n" not in text


def test_a_file_that_cannot_be_opened_and_one_that_is_too_large(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(TraceError, match=r"loop cannot be read \(.*\); make it readable"):
        read_dump(str(tmp_path / "loop"))
    path = written(tmp_path, dump(comment="x" * (1 << 20)))
    with pytest.raises(TraceError, match="larger than 1 MiB"):
        read_dump(path, limit_bytes=1 << 20)


@pytest.mark.parametrize(
    "odd",
    [None, 5, {}, {"collective_seq_id": 3}, entry(3, ""), entry(3) | {"collective_seq_id": "x"},
     entry(3) | {"collective_seq_id": -2}, entry(3) | {"profiling_name": 7}, entry(3) | {"collective_seq_id": True}],
)  # fmt: skip
def test_an_entry_that_is_none_is_counted_and_the_others_are_read(tmp_path: Path, odd: Any) -> None:
    found = read_dump(written(tmp_path, FULL | {"entries": [odd, entry(7)]}))
    assert (found.odd, [one.number for one in found.entries]) == (1, [7])


@pytest.mark.parametrize(
    "changes",
    [
        {"pg_config": None}, {"pg_config": {"0": 5}}, {"pg_config": {"0": {"ranks": "[0, x]"}}}, {"pg_status": []},
        {"pg_status": {"x": {}}}, {"pg_status": {"0": {"last_enqueued_collective": None}}},
        {"entries": [entry(5, frames="x", input_sizes=[[-1]], input_dtypes=5, process_group=5, pg_id="x")]},
        {"entries": [entry(5, frames=[None, {}, {"name": 1}], input_sizes=[["x"]], process_group=("a",))]},
        {"entries": [entry(5, frames=[frame_ := {"name": "", "filename": "", "line": -1}, frame_], input_sizes=5)]},
        {"entries": [entry(5, "send 5->x", input_sizes=[[2] * 100], time_created_ns="soon")]},
    ],
)  # fmt: skip
def test_odd_values_are_unknown(tmp_path: Path, changes: dict[str, Any]) -> None:
    found = read_dump(written(tmp_path, FULL | changes))
    assert all(one.number == 5 or one.done for one in found.entries)
    assert all(one.values is None for one in found.entries) or "entries" not in changes


def test_a_list_that_all_entries_share_is_counted_once(tmp_path: Path) -> None:
    """2,000 entries of 60,000 tensors each would be 120 million, were the list looked at again for each of them."""
    sizes = [[1]] * 60_000
    found = read_dump(written(tmp_path, dump(*(entry(at, input_sizes=sizes) for at in range(1, 2001)))))
    assert {one.values for one in found.entries} == {60_000}


def test_of_what_has_ended_the_latest_is_kept_and_the_last_of_each_group(tmp_path: Path) -> None:
    other = entry(3, done=True, process_group=("7", "tp"))
    older = [entry(1), other | {"collective_seq_id": 2}, other]
    found = read_dump(written(tmp_path, dump(*older, *(entry(at, done=True) for at in range(4, 1004)))))
    assert [(one.group[0], one.number) for one in found.entries[:3]] == [("0", 1), ("7", 3), ("0", 748)]
    assert len(found.entries) == 258
