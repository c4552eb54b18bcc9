"""Dumps of torch's flight recorder: pickle or JSON gives a verdict, or one line with a remedy; nothing in it is run."""

from __future__ import annotations

import json
import pickle
import random
import shutil
from pathlib import Path

import msgspec

from bench.fuzz.check import LONGEST_MESSAGE, check_error, hold
from bench.fuzz.target import GOLDEN, Target
from eroica_otel.errors import EroicaError
from eroica_otel.localize.hangflight import judge_flights
from eroica_otel.offline.flights import read_flights
from eroica_otel.offline.plainpickle import plain
from eroica_otel.publish.report import json as report_json

FOLDER = "dumps"
WORDS = (
    "version", "2.9", "pg_config", "ranks", "desc", "default_pg", "pg_status", "last_enqueued_collective",
    "last_completed_collective", "entries", "process_group", "collective_seq_id", "profiling_name", "nccl:send 0->1",
    "nccl:recv 1<-0", "gloo:all_reduce", "input_sizes", "input_dtypes", "state", "completed", "retired", "is_p2p",
    "frames", "filename", "line", "cos\nsystem\n", "time_created_ns",
)  # fmt: skip
_OPCODES = b"}]()NKMJGXhqjr.aesut\x80\x85\x86\x87\x88\x89\x8a\x8c\x8d\x93\x94\x95cRboiQ"


def target() -> Target:
    """Return the reader of dumps."""
    small = sorted((GOLDEN / "flight_recorder" / "lock_gil_1st").glob("_dump_*"), key=lambda path: path.stat().st_size)
    first, second = small[0].read_bytes(), small[4].read_bytes()
    value = plain(second, "seed")
    return Target(run, [first, second, pickle.dumps(value, 4), json.dumps(value).encode()], WORDS, _mutated)


def run(data: bytes) -> None:
    """Write the same dump as two ranks', beside a good one, and judge them."""
    folder = Path(FOLDER)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for rank in (0, 1):
        (folder / f"rank_{rank}").write_bytes(data)
    shutil.copy(GOLDEN / "flight_recorder" / "lock_gil_1st" / "_dump_9", folder / "rank_9")
    try:
        flights = read_flights(folder)
    except EroicaError as error:
        check_error(error, FOLDER)
        return
    for problem in flights.run.problems:
        check_error(EroicaError(problem.text), FOLDER)
    report = judge_flights(flights.run.windows, flights.calls, expected=flights.run.expected)
    hold(set(report.missing_ranks).isdisjoint({9}), "a rank that has a dump is missing")
    hold(all(len(line) < 100 * LONGEST_MESSAGE and "\n" not in line for line in report.notes), "a note is no line")
    msgspec.json.encode(report_json.render(report))


def _mutated(data: bytes, draw: random.Random, words: tuple[str, ...]) -> bytes:
    """Change bytes: instructions become others, words other words, stretches are lost or come twice."""
    changed = bytearray(data)
    for _ in range(draw.choice((1, 2, 8))):
        at = draw.randrange(len(changed) or 1)
        kind = draw.randrange(4)
        if kind == 0:
            changed[at : at + 1] = bytes([draw.choice(_OPCODES)])
        elif kind == 1:
            changed[at : at + draw.randrange(1, 40)] = b""
        elif kind == 2:
            changed[at:at] = changed[at : at + draw.randrange(1, 40)]
        else:
            old, new = draw.choice(words).encode(), draw.choice(words).encode()
            changed = bytearray(bytes(changed).replace(old, new[: len(old)].ljust(len(old)), 1))
    return bytes(changed)
