from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from eroica_otel.commands.main import main
from eroica_otel.profile import samples
from factories_summarize import capture
from trace_files import GEMM, START_US, event, kineto, late_rank, write

TWO_GPUS = Path(__file__).parent.parent / "golden" / "nsight" / "two_gpus.sqlite.gz"


def test_the_table_of_one_worker(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path / "rank3.json", kineto(3, 4, steps=range(10), step_us=1000, work={GEMM: 600}, input_us=300))
    assert main(["patterns", str(path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("rank 3   10 iterations, 1.0 ms each, 10 ms in all")
    # 600 of 1000 us compute, then 300 input, and 100 in which nothing runs.
    shares = {line.split()[0]: line.split()[1] for line in lines[2:5]}
    assert shares == {"compute": "60", "python": "30", "idle": "10"}
    table = [line for line in lines if GEMM in line or "DataLoader" in line]
    assert [line.split()[0] for line in table] == ["60", "30"]


def test_collectives_are_told_with_calls(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (path, _) = late_rank(tmp_path, count=2, late=1, steps=range(5))
    assert main(["patterns", str(path)]) == 0
    assert "ncclDevKernel_AllReduce_Sum_f32_RING_LL: 5 calls and fastest 500 \u00b5s" in capsys.readouterr().out


def test_events_that_are_charged_to_nothing_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path / "rank0.json", extra=[event("x", "warp_drive", START_US, 500)])
    assert main(["patterns", str(path)]) == 0
    note = "note: 1 event is of a category that is not known here and charged to nothing: warp_drive 1 (0.5 ms)"
    assert note in capsys.readouterr().out


def test_what_is_cut_is_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    work = {f"{letter}_kernel": 100 for letter in "abcde"}
    path = write(tmp_path / "rank0.json", work=work)
    assert main(["patterns", str(path), "--top", "2"]) == 0
    assert "3 more functions, each below 10 %" in capsys.readouterr().out


def test_a_capture_folder_also_tells_the_use_of_the_cpu(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # For 100 ns the thread is in one function; of the 50 between the samples it is on the CPU for 25.
    samples.write(tmp_path, capture(end=100, samples=[(50, 1), (100, 1)], cpu=[0, 25]))
    assert main(["patterns", str(tmp_path)]) == 0
    heads, row = (line.split() for line in capsys.readouterr().out.splitlines()[4:6])
    assert heads == ["beta", "an", "iteration", "mu", "sigma", "kind", "family", "function"]
    assert row[:5] == ["100", "%", "under", "1", "\u00b5s"]
    assert (row[5], row[7]) == ("0.50", "python")


def test_workers_of_one_file_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    export = tmp_path / "node.sqlite"
    export.write_bytes(gzip.decompress(TWO_GPUS.read_bytes()))
    assert main(["patterns", str(export)]) == 2
    assert f"give one of them ({export}#0, {export}#1)" in capsys.readouterr().err
    assert main(["patterns", f"{export}#1"]) == 0
    assert capsys.readouterr().out.startswith("rank 1")


@pytest.mark.parametrize(("count", "code"), [(1, 0), (2, 2)])
def test_a_folder_counts_where_it_holds_one_worker(
    count: int, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    late_rank(tmp_path / "run", count=count, late=0)
    assert main(["patterns", str(tmp_path / "run")]) == code
    assert ("holds the traces of 2 workers; give one of them" in capsys.readouterr().err) is (code == 2)
