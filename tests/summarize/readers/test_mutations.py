"""Traces with bytes changed, doubled, moved or cut out: an answer or a TraceError, never anything else."""

from __future__ import annotations

import gzip
import random
from contextlib import suppress
from pathlib import Path

import pytest

from eroica_otel.errors import TraceError
from eroica_otel.model import Identity
from eroica_otel.summarize.offline import summarize_trace
from eroica_otel.summarize.readers.any import read_trace, workers_in

GOLDEN = Path(__file__).parents[2] / "golden"
PIECES = (
    b'"',
    b"}",
    b"{",
    b"]",
    b",",
    b":",
    b"-",
    b"1e999",
    b"NaN",
    b"null",
    b"\xff",
    b"\\u0000",
    b'"ph": "X"',
    b"9" * 30,
)


def _mutated(text: bytes, draw: random.Random) -> bytes:
    for _ in range(draw.randint(1, 4)):
        place = draw.randrange(len(text) + 1)
        size = draw.choice((0, 1, 3, 40, 700))
        kind = draw.randrange(4)
        if kind == 0:
            text = text[:place] + draw.choice(PIECES) + text[place + size :]
        elif kind == 1:
            text = text[:place] + text[place + size :]
        elif kind == 2:
            text = text[: place + size] + text[place:]
        else:
            text = text[:place] + bytes([draw.randrange(256)]) + text[place + 1 :]
    return text


@pytest.mark.parametrize(
    ("name", "rounds"),
    [
        ("hta/categories_2021.json.gz", 250),
        ("hta/cpu_only.json.gz", 100),
        ("hta/large_integer.json.gz", 250),
        ("hta/triton.json.gz", 100),
        ("hta/amd_mi250.json.gz", 50),
    ],
)
def test_a_changed_trace_gives_an_answer_or_a_trace_error(tmp_path: Path, name: str, rounds: int) -> None:
    text = gzip.decompress((GOLDEN / name).read_bytes())
    answers = 0
    for seed in range(rounds):
        (tmp_path / "t.json").write_bytes(_mutated(text, random.Random(seed)))
        with suppress(TraceError):
            window = summarize_trace(read_trace(tmp_path / "t.json"), Identity("job", 0, "node"))
            assert sum(window.kinds.values()) == pytest.approx(1.0, abs=1e-9)
            answers += 1
    assert 0 < answers < rounds  # some changes are harmless, some are not


def test_a_changed_export_gives_an_answer_or_a_trace_error(tmp_path: Path) -> None:
    text = gzip.decompress((GOLDEN / "nsight" / "two_gpus.sqlite.gz").read_bytes())
    path = tmp_path / "t.sqlite"
    for seed in range(15):
        draw = random.Random(seed)
        changed = bytearray(text)
        for _ in range(40):
            changed[draw.randrange(16, len(changed))] = draw.randrange(256)
        path.write_bytes(changed[: draw.choice((len(changed), len(changed) // 2, 4096))])
        with suppress(TraceError):
            for worker in workers_in(path):
                summarize_trace(read_trace(worker), Identity("job", 0, "node"))
