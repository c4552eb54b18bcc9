"""Which collective, in which group, with how many bytes: from a kernel's own arguments, or from what launched it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
import pytest

from eroica_otel.model import Identity
from eroica_otel.summarize.offline import summarize_trace
from eroica_otel.summarize.readers.any import read_trace
from eroica_otel.summarize.readers.arguments import SENDS, Arguments, decode, decode_all
from eroica_otel.traces import Trace
from factories_summarize import Row, kineto_event, kineto_text

GENERIC = "ncclDevKernel_Generic_1(ncclDevKernelArgsStorage<4096ul>)"
OLD = "ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)"


def _trace(
    tmp_path: Path, events: Sequence[tuple[Row, Mapping[str, object]]], groups: Sequence[Mapping[str, object]] = ()
) -> Trace:
    header = f'"distributedInfo": {json.dumps({"rank": 0, "pg_config": list(groups)})},'
    path = tmp_path / "t.json"
    path.write_text(kineto_text([kineto_event(row, arguments=more) for row, more in events], header=header))
    return read_trace(path)


def _launch(
    external: int, collective: str, group: str = "2", items: int = 100, kind: str = "BFloat16"
) -> tuple[Row, dict[str, object]]:
    return Row("record_param_comms", 0, 10), {
        "External id": external,
        "Collective name": collective,
        "Process Group Name": group,
        "In msg nelems": items,
        "dtype": kind,
    }


def test_a_kernel_for_any_collective_is_named_by_what_launched_it(tmp_path: Path) -> None:
    kernels = [(Row(GENERIC, 100 * n, 100 * n + 50, "kernel", 9), {"External id": n}) for n in (1, 2, 3)]
    launches = [_launch(1, "allreduce"), _launch(2, "alltoallv", "5", 7, "Float")]
    trace = _trace(tmp_path, [*launches, *kernels])
    window = summarize_trace(trace, Identity("job", 0, "node"))
    moved = {p.function: (p.family, [(c.group, c.bytes) for c in p.collectives]) for p in window.patterns}
    assert moved == {
        "ncclDevKernel_Generic_1: allreduce": ("collective", [("2", 200)]),
        "ncclDevKernel_Generic_1: alltoallv": ("all_to_all", [("5", 28)]),
        "ncclDevKernel_Generic_1": ("collective", [("", None)]),  # nobody says what it was
    }


def test_its_own_arguments_win_over_those_of_the_launch(tmp_path: Path) -> None:
    own = {
        "External id": 1,
        "Collective name": "broadcast",
        "Process Group Name": "0",
        "In msg nelems": 3,
        "dtype": "Long",
    }
    trace = _trace(tmp_path, [_launch(1, "allreduce"), (Row(GENERIC, 100, 150, "kernel", 9), own)])
    assert list(trace.events.collectives.values()) == [("0", 24)]
    assert "ncclDevKernel_Generic_1: broadcast" in trace.events.names


@pytest.mark.parametrize("key", ["External id", "external id"])
def test_an_old_kernel_takes_group_and_bytes_from_its_launch(tmp_path: Path, key: str) -> None:
    trace = _trace(tmp_path, [_launch(4, "allreduce"), (Row(OLD, 100, 150, "kernel", 9), {key: 4})])
    assert list(trace.events.collectives.values()) == [("2", 200)]
    assert OLD in trace.events.names


def test_an_old_kernel_without_any_word_is_of_an_unknown_group(tmp_path: Path) -> None:
    # old Kineto put the correlation there, which is the id of no operator
    trace = _trace(tmp_path, [_launch(4, "allreduce"), (Row(OLD, 100, 150, "kernel", 9), {"External id": 41293})])
    assert list(trace.events.collectives.values()) == [("", None)]


def test_the_only_group_of_a_job_is_that_of_every_collective(tmp_path: Path) -> None:
    one = [{"pg_name": "0", "ranks": [0, 1]}]
    trace = _trace(tmp_path, [(Row(OLD, 100, 150, "kernel", 9), {})], one)
    assert list(trace.events.collectives.values()) == [("0", None)]
    assert dict(trace.groups) == {"0": (0, 1)}
    two = [*one, {"pg_name": "1", "ranks": [0]}]
    assert list(_trace(tmp_path, [(Row(OLD, 100, 150, "kernel", 9), {})], two).events.collectives.values()) == [
        ("", None)
    ]


def test_record_param_comms_itself_is_no_collective(tmp_path: Path) -> None:
    trace = _trace(tmp_path, [_launch(4, "allreduce"), (Row("aten::mm", 0, 5), {})])
    assert dict(trace.events.collectives) == {}


def test_arguments_of_other_types_are_not_told(tmp_path: Path) -> None:
    odd: dict[str, object] = {"Process Group Name": 7, "In msg nelems": "many", "dtype": None}
    trace = _trace(tmp_path, [(Row(OLD, 100, 150, "kernel", 9), odd)])
    assert list(trace.events.collectives.values()) == [("", None)]


@pytest.mark.parametrize("odd", [b"", b"{}", b"null", b'"text"', b"[1]", b'{"Call stack": 3}', b'{"Python id": 1e400}'])
def test_arguments_of_many_events_are_those_of_each(odd: bytes) -> None:
    texts = [msgspec.Raw(text) for text in (b'{"Call stack": "a;b"}', odd, b'{"Python id": 7, "other": [1, {}]}')]
    found = decode_all(texts)
    assert found == [decode(text) for text in texts]
    assert (found[0].stack, found[2].python) == ("a;b", 7)


@pytest.mark.parametrize("digits", ["9" * 5000, "\u0b66" * 5000])
def test_ranks_of_thousands_of_digits_are_none(digits: str) -> None:
    found = Arguments(ranks=f"[0, {digits}]", collective=SENDS, receiver=digits)
    assert (found.members(), found.peer()) == ((), None)
