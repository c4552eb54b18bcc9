"""Files that are no whole trace: each is named, with the place and what to do; what can be used of a file is used."""

from __future__ import annotations

import gzip
import json
import os
import stat
from pathlib import Path

import pytest

from eroica_otel.errors import TraceError
from eroica_otel.model import Identity
from eroica_otel.summarize.offline import summarize_trace
from eroica_otel.summarize.readers.any import read_trace
from eroica_otel.summarize.readers.kineto import read_whole
from factories_summarize import Row, kineto_event, kineto_text

REAL = Path(__file__).parents[2] / "golden" / "kineto_gloo.json"
OPERATOR = kineto_event(Row("aten::mm", 1000, 3000))


def _write(path: Path, bodies: list[str]) -> Path:
    path.write_text(kineto_text(bodies))
    return path


@pytest.mark.parametrize("share", [0.2, 0.6, 0.99])
def test_gzip_that_was_cut_short(tmp_path: Path, share: float) -> None:
    packed = gzip.compress(REAL.read_bytes())
    path = tmp_path / "t.json.gz"
    size = path.write_bytes(packed[: int(len(packed) * share)])
    with pytest.raises(
        TraceError, match=rf"t\.json\.gz: gzip data ends after \d+ unpacked bytes, at byte {size} of the file.*copy"
    ):
        read_trace(path)


def test_gzip_that_was_damaged(tmp_path: Path) -> None:
    packed = bytearray(gzip.compress(REAL.read_bytes()))
    packed[len(packed) // 2 : len(packed) // 2 + 40] = b"\xff" * 40
    (tmp_path / "t.json.gz").write_bytes(packed)
    with pytest.raises(TraceError, match=r"t\.json\.gz: .*(gzip data is damaged|cut short or not JSON)"):
        read_trace(tmp_path / "t.json.gz")


def test_a_bomb_stops_at_the_limit_which_is_told(tmp_path: Path) -> None:
    path = tmp_path / "t.json.gz"
    path.write_bytes(gzip.compress(kineto_text([OPERATOR]).encode() + b" " * 50_000_000))
    assert path.stat().st_size < 100_000
    with pytest.raises(
        TraceError, match=r"t\.json\.gz: unpacks to more than 10000000 bytes: raise the limit \(--limit GB\)"
    ):
        read_trace(path, limit_bytes=10_000_000)
    assert read_trace(path, limit_bytes=60_000_000).events.total == 1


@pytest.mark.parametrize("share", [0.1, 0.5, 0.999])
def test_json_that_was_cut_short(tmp_path: Path, share: float) -> None:
    text = REAL.read_bytes()
    (tmp_path / "t.json").write_bytes(text[: int(len(text) * share)])
    with pytest.raises(
        TraceError, match=r"t\.json: cut short or not JSON after \d+ events.*from byte \d+ of \d+.*copy"
    ):
        read_trace(tmp_path / "t.json")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "the file is empty"),
        (b"\x00\x01" * 100, "no traceEvents in the first 200 bytes"),
        (b"not json at all", "no traceEvents"),
        (b"[1, 2]", "no traceEvents"),
        (b'{"schemaVersion": 1, "deviceProperties": []}', "no traceEvents.*export_chrome_trace"),
        (b"\x00" * 257 + b"ustar\x0000", "a tar archive: unpack it"),
        (gzip.compress(b"\x00" * 257 + b"ustar\x0000" + b"\x00" * 500, mtime=0), "tar archive"),
        (b"SQLite format 3\x00" + b"\x00" * 90, "not a whole SQLite export of Nsight Systems.*nsys export"),
    ],
)
def test_a_file_of_another_kind(tmp_path: Path, content: bytes, says: str) -> None:
    (tmp_path / "t").write_bytes(content)
    with pytest.raises(TraceError, match=rf"{tmp_path / 't'}: .*{says}"):
        read_trace(tmp_path / "t")


def test_a_report_that_was_not_exported(tmp_path: Path) -> None:
    (tmp_path / "t.nsys-rep").write_bytes(b"\x01\x02\x03")
    with pytest.raises(TraceError, match=r"a report: export it first: nsys export --type sqlite"):
        read_trace(tmp_path / "t.nsys-rep")


def test_files_that_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"gone: cannot be read: No such file"):
        read_trace(tmp_path / "gone")
    with pytest.raises(TraceError, match=r"cannot be read: Is a directory"):
        read_trace(tmp_path)


def test_a_file_that_may_not_be_read(tmp_path: Path) -> None:
    path = _write(tmp_path / "t.json", [OPERATOR])
    path.chmod(0)
    if os.geteuid() == 0:  # root may read everything: who else could not is told by the mode
        assert stat.S_IMODE(path.stat().st_mode) == 0
        path = Path("/proc/self/mem")  # it can be opened, and its first byte cannot be read by anybody
    with pytest.raises(TraceError, match=r"cannot be read: (Permission denied|Input/output error)"):
        read_trace(path)


def test_times_that_cannot_be_used_are_counted_and_the_rest_is_read(tmp_path: Path) -> None:
    wrong = {
        '"dur": 2.000': ['"dur": -2.000', '"dur": NaN', '"dur": null', '"dur": -Infinity', '"dur": nan'],
        '"ts": 1.000': ['"ts": null', '"ts": 1e300', '"ts": 9300000000000000000', '"ts": NaN'],
    }
    bodies = [OPERATOR] + [OPERATOR.replace(right, bad) for right, several in wrong.items() for bad in several]
    assert len(set(bodies)) == 10
    trace = read_trace(_write(tmp_path / "t.json", bodies))
    assert (trace.events.start_ns.tolist(), trace.events.end_ns.tolist()) == ([1000], [3000])
    assert dict(trace.skipped) == {"negative duration": 1, "no time": 6, "time out of range": 2}


def test_numbers_that_are_no_json_in_arguments_do_not_lose_the_events(tmp_path: Path) -> None:
    body = kineto_event(Row("k", 0, 9, "kernel"), arguments={"est. achieved occupancy %": 0, "flops": [1, 2]})
    bodies = [body.replace(": 0,", ": -nan,", 1).replace("[1, 2]", "[inf, NaN]"), OPERATOR]
    assert "-nan" in bodies[0]
    assert read_trace(_write(tmp_path / "t.json", bodies)).events.total == 2


def test_bytes_that_are_no_utf8_are_replaced_and_counted(tmp_path: Path) -> None:
    text = kineto_text([OPERATOR.replace("aten::mm", "aten::m@m"), OPERATOR]).encode().replace(b"@", b"\xff\xfe")
    (tmp_path / "t.json").write_bytes(text)
    trace = read_trace(tmp_path / "t.json")
    assert trace.events.names == ("aten::m\ufffd\ufffdm", "aten::mm")
    assert dict(trace.skipped) == {"bytes that are not UTF-8, replaced": 2}


@pytest.mark.parametrize("number", [2**63, 2**64, 2**200, -(2**63) - 1])
def test_integers_beyond_64_bits(tmp_path: Path, number: int) -> None:
    arguments = {"External id": number, "Comms Id": number, "In msg nelems": 10, "dtype": "Float", "stream": 7}
    kernel = kineto_event(Row("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 0, 9, "kernel", 7), arguments=arguments)
    bodies = [kernel, OPERATOR.replace('"tid": 1', f'"tid": {number}')]
    trace = read_trace(_write(tmp_path / "t.json", bodies))
    assert trace.events.total == 2
    assert trace.events.thread.tolist()[0] == 7
    assert trace.events.thread.tolist()[1] < -1  # a thread of its own, which no system has
    assert len(trace.events.collectives) == 1


@pytest.mark.parametrize("number", [2**63, 2**64, 2**200, -(2**63), -(2**63) - 1])
@pytest.mark.parametrize("key", ["ts", "dur"])
def test_whole_times_beyond_64_bits_are_counted(tmp_path: Path, key: str, number: int) -> None:
    event = json.loads(OPERATOR) | {key: number}
    trace = read_trace(_write(tmp_path / "t.json", [json.dumps(event), OPERATOR]))
    assert (trace.events.total, dict(trace.skipped)) == (1, {"time out of range": 1})


@pytest.mark.parametrize("digits", [400, 5000])
def test_a_time_of_very_many_digits_is_refused(tmp_path: Path, digits: int) -> None:
    event = OPERATOR.replace('"dur": 2.000', '"dur": ' + "9" * digits)
    assert len(event) > digits
    with pytest.raises(TraceError, match=r"t\.json: .* after 0 events"):
        read_trace(_write(tmp_path / "t.json", [event]))


def test_events_that_only_begin_are_counted(tmp_path: Path) -> None:
    bodies = [OPERATOR, OPERATOR.replace('"ph": "X"', '"ph": "B"'), OPERATOR.replace('"ph": "X"', '"ph": "E"')]
    trace = read_trace(_write(tmp_path / "t.json", bodies))
    assert (trace.events.total, dict(trace.skipped)) == (1, {"begin or end alone (ph B, E)": 2})


@pytest.mark.parametrize("bodies", [[], [kineto_event(Row("aten::mm", 5, 5))]])
def test_a_trace_in_which_nothing_takes_time_is_no_empty_success(tmp_path: Path, bodies: list[str]) -> None:
    with pytest.raises(TraceError, match=r"t\.json: no event with a length"):
        summarize_trace(read_trace(_write(tmp_path / "t.json", bodies)), Identity("job", 0, "node"))


def test_launches_without_kernels_are_a_failed_capture(tmp_path: Path) -> None:
    bodies = [kineto_event(Row("cudaLaunchKernel", i, i + 5, "cuda_runtime")) for i in range(3)]
    trace = read_trace(_write(tmp_path / "t.json", bodies))
    assert trace.gpu
    with pytest.raises(TraceError, match=r"t\.json: no GPU kernel was captured.*another profiler.*profile again"):
        summarize_trace(trace, Identity("job", 0, "node"))


def test_keys_around_the_events_of_other_types_count_as_not_told(tmp_path: Path) -> None:
    header = '"distributedInfo": {"rank": "three", "world_size": [8]}, "deviceProperties": "none",'
    (tmp_path / "t.json").write_text(kineto_text([OPERATOR], header=header))
    trace = read_trace(tmp_path / "t.json")
    assert (trace.rank, trace.world_size, trace.devices, trace.events.total) == (None, None, (), 1)


def test_the_position_counts_unpacked_bytes_of_the_file(tmp_path: Path) -> None:
    bodies = [OPERATOR] * 50
    text = kineto_text(bodies).replace(OPERATOR, OPERATOR[:-1], 1)  # the first event is not closed
    (tmp_path / "t.json").write_text(text)
    with pytest.raises(
        TraceError, match=rf"after 0 events, in the part from byte {text.index('[') + 1} of {len(text)}"
    ):
        read_whole(str(tmp_path / "t.json"), 1 << 30)
    assert json.loads(kineto_text(bodies))["traceEvents"]
