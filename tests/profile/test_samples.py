"""Captures as files: written by the trainer, read by the helper."""

from __future__ import annotations

import json
import math
import os
from dataclasses import fields
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from eroica_otel.errors import TraceError
from eroica_otel.model import Capture, Window
from eroica_otel.profile import checked, samples
from factories_worker import capture, identity


def assert_equal(one: Capture, other: Capture) -> None:
    for field in fields(Capture):
        left, right = getattr(one, field.name), getattr(other, field.name)
        if isinstance(left, np.ndarray):
            np.testing.assert_array_equal(left, right)
            assert left.dtype == right.dtype, field.name
        else:
            assert left == right, field.name


def test_what_is_written_is_read_field_by_field(tmp_path: Path) -> None:
    given_capture = capture(
        trace=str(tmp_path / "trace.json"), missing={"nic": "no speed"}, throttled_ratio=0.25, signature="s"
    )
    samples.write(tmp_path, given_capture)
    assert_equal(samples.read(tmp_path), given_capture)


def test_missing_measurements_stay_missing(tmp_path: Path) -> None:
    samples.write(tmp_path, capture(nic_peak_bytes=None, throttled_ratio=None, run_delay_ratio=None))
    found = samples.read(tmp_path)
    assert (found.nic_peak_bytes, found.throttled_ratio, found.run_delay_ratio) == (None, None, None)


def test_the_file_that_says_complete_is_written_last_and_under_its_name_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[set[str]] = []
    replace = os.replace

    def watched(source: Path, target: Path) -> None:
        seen.append({path.name for path in tmp_path.iterdir()})
        replace(source, target)

    monkeypatch.setattr(os, "replace", watched)
    samples.write(tmp_path, capture())
    assert seen == [{samples.ARRAYS, samples.META + ".part"}]
    assert {path.name for path in tmp_path.iterdir()} == {samples.ARRAYS, samples.META}


def test_a_window_without_samples_can_be_written(tmp_path: Path) -> None:
    empty = np.zeros(0, np.int64)
    nothing: dict[str, Any] = {"frames": (), "stacks": (), "stack_ids": empty.astype(np.int32)}
    nothing |= dict.fromkeys(("stack_ns", "cpu_ns", "nic_ns", "nic_tx", "nic_rx"), empty)
    samples.write(tmp_path, capture(**nothing))
    assert_equal(samples.read(tmp_path), capture(**nothing))


@given(
    names=st.lists(st.tuples(st.text(), st.text(), st.text(), st.integers(0, 10**6)), max_size=5),
    window=st.builds(Window, st.integers(0, 2**40), st.text(), st.integers(0), st.integers(0)),
    seconds=st.floats(allow_nan=False, allow_infinity=False),
)
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_name_survives(
    names: list[tuple[str, str, str, int]], window: Window, seconds: float, tmp_path: Path
) -> None:
    stacks = (tuple(range(len(names))),) * len(capture().stacks)
    given_capture = capture(
        frames=tuple(names), stacks=stacks, window=window, blocked_seconds=seconds, identity=identity(host="höst\n")
    )
    samples.write(tmp_path, given_capture)
    assert_equal(samples.read(tmp_path), given_capture)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 0.999])
@pytest.mark.parametrize("name", [samples.ARRAYS, samples.META])
def test_a_file_that_was_cut_short_is_an_error_that_names_the_folder(share: float, name: str, tmp_path: Path) -> None:
    samples.write(tmp_path, capture())
    whole = (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(whole[: math.floor(len(whole) * share)])
    with pytest.raises(TraceError, match=str(tmp_path)):
        samples.read(tmp_path)


@pytest.mark.parametrize("name", [samples.ARRAYS, samples.META])
def test_a_file_that_is_not_there_is_an_error(name: str, tmp_path: Path) -> None:
    samples.write(tmp_path, capture())
    (tmp_path / name).unlink()
    with pytest.raises(TraceError, match="holds no complete capture"):
        samples.read(tmp_path)


@pytest.mark.parametrize("change", [{"window": {}}, {"new_field": 1}, {"frames": [["m"]]}, {"identity": None}])
def test_a_capture_of_another_version_is_an_error(change: dict[str, Any], tmp_path: Path) -> None:
    samples.write(tmp_path, capture())
    meta = json.loads((tmp_path / samples.META).read_text()) | change
    (tmp_path / samples.META).write_text(json.dumps(meta))
    with pytest.raises(TraceError):
        samples.read(tmp_path)


def test_a_field_that_is_missing_is_an_error(tmp_path: Path) -> None:
    samples.write(tmp_path, capture())
    meta = json.loads((tmp_path / samples.META).read_text())
    del meta["start_ns"]
    (tmp_path / samples.META).write_text(json.dumps(meta))
    with pytest.raises(TraceError):
        samples.read(tmp_path)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"end_ns": -1}, "it ends before it starts"),
        ({"start_ns": 17, "end_ns": 17}, "it ends before it starts, or at once"),  # its shares would sum to 0
        ({"start_ns": 2**62}, "start_ns"),
        ({"realtime_offset_ns": [0, -(2**61)]}, "realtime_offset_ns"),
        ({"realtime_offset_ns": [0]}, "realtime_offset_ns"),
        ({"training_thread": "one"}, "training_thread"),
        ({"trace": 5}, "trace"),
        ({"trace": "a\0b"}, "the path of its trace is none"),
        ({"stacks": [[99]]}, "a stack has a frame that is not there"),
        ({"stacks": [[-1]]}, "stacks"),
        ({"stacks": []}, "a sample has a stack that is not there"),
        ({"frames": [[1, "f", "a.py", 1]]}, "frames"),
        ({"progress": {"0": [1, "x"]}}, "progress"),
        ({"missing": []}, "missing"),
        ({"a\n\x01field": 1}, "unknown field `a  field`"),
    ],
)
def test_facts_that_cannot_be_those_of_a_window_are_an_error(change: dict[str, Any], why: str, tmp_path: Path) -> None:
    samples.write(tmp_path, capture())
    meta = json.loads((tmp_path / samples.META).read_text()) | change
    (tmp_path / samples.META).write_text(json.dumps(meta))
    with pytest.raises(TraceError, match=f"{tmp_path} holds no complete capture: .*{why}.*; copy the folder again"):
        samples.read(tmp_path)


@pytest.mark.parametrize(
    ("name", "values", "why"),
    [
        ("iteration_ns", [3, 2, 1], "no times in order"),
        ("stack_ns", [0.5, 1.5], "no whole numbers"),
        ("stack_ns", ["a"], "no whole numbers"),
        ("stack_ns", 5, "shape"),
        ("iteration_ns", [[0, 1]], "shape"),
        ("gc_ns", [1, 2], "shape"),
        ("gc_ns", [[1, 2, 3]], "shape"),
        ("cpu_ns", [1], "differ in length"),
        ("nic_tx", [1] * 999, "differ in length"),
        ("nic_ns", [2**63 - 1], "no whole numbers that fit"),
        ("iteration_ns", [2**63], "no whole numbers that fit"),
        ("iteration_ns", [2**61 + 1], "no times in order"),
    ],
)
def test_arrays_that_cannot_be_those_of_a_window_are_an_error(name: str, values: Any, why: str, tmp_path: Path) -> None:
    samples.write(tmp_path, capture())
    with np.load(tmp_path / samples.ARRAYS) as arrays:
        columns = {key: arrays[key] for key in arrays.files} | {name: np.array(values)}
    np.savez(tmp_path / samples.ARRAYS, allow_pickle=False, **columns)
    with pytest.raises(TraceError, match=f"holds no complete capture: .*{why}"):
        samples.read(tmp_path)


def test_packed_arrays_are_an_error_since_they_may_unpack_to_any_size(tmp_path: Path) -> None:
    samples.write(tmp_path, capture())
    with np.load(tmp_path / samples.ARRAYS) as arrays:
        np.savez_compressed(tmp_path / samples.ARRAYS, allow_pickle=False, **{key: arrays[key] for key in arrays.files})
    with pytest.raises(TraceError, match="arrays are packed"):
        samples.read(tmp_path)


def test_a_path_that_is_no_text_can_be_sent_all_the_same(tmp_path: Path) -> None:
    frames = (("m", "f", "/data/\udcff.py", 1), ("m", "g\U0001f600", "a.py", 2))
    samples.write(tmp_path, capture(frames=frames, stacks=((0, 1),) * len(capture().stacks)))
    assert samples.read(tmp_path).frames == (("m", "f", "/data/?.py", 1), frames[1])


def test_every_fact_of_a_capture_is_checked() -> None:
    plain = {field.name for field in fields(Capture)} - {*samples.ARRAY_FIELDS, "loaders"}
    assert {field.name for field in msgspec.structs.fields(checked._Facts)} == plain


def test_samples_of_the_loaders_processes_are_read_with_the_window(tmp_path: Path) -> None:
    samples.write(tmp_path, capture())
    line = {
        "frames": [("data", "read", "data.py", 9)], "stacks": [[0]], "stack_ns": [5, 6], "stack_ids": [0, 0],
        "cpu_ns": [1, 2], "batch_ns": [],
    }  # fmt: skip
    (tmp_path / "loader-77.jsonl").write_text(json.dumps(line))
    found = samples.read(tmp_path)
    (one,) = found.loaders
    assert (one.process, one.stack_ns.tolist()) == (77, [5, 6])
    assert found.all_frames == (*capture().frames, ("data", "read", "data.py", 9))
