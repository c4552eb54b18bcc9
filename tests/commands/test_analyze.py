"""``eroica-otel analyze`` on recorded traces with known answers, and on small ones for what a person does with it."""

from __future__ import annotations

import gzip
import io
import json as json_module
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from eroica_otel.commands.main import main
from eroica_otel.commands.offline_options import Progress
from eroica_otel.model import Report
from eroica_otel.offline.load import load
from eroica_otel.publish.report import json
from eroica_otel.publish.report.verdict import grave, headline
from remote_write import WriteServer
from trace_files import ALL_REDUCE, GEMM, kineto, late_rank, write

GOLDEN = Path(__file__).parent.parent / "golden"
DLRM = GOLDEN / "param_dlrm"
RESNET = {workers: GOLDEN / "kineto_resnet50" / f"num_workers_{workers}.json.gz" for workers in (0, 4)}

SEND_RECV_MS = (4.00, 9.51, 1.81, 8.00, 6.35, 6.06, 1.82, 0.39)
ALL_REDUCE_MS = (1.80, 1.83, 1.69, 1.77, 0.23, 0.20, 1.74, 1.36)
"""Kernel time of each rank of the DLRM job, counted by hand from its traces."""


def analyze(tmp_path: Path, *words: object) -> tuple[int, Report]:
    """Return exit code and report of the command."""
    path = tmp_path / "out.json"
    code = main(["analyze", *map(str, words), "--json", str(path)])
    return code, json.parse(path.read_text(encoding="utf-8"))


def test_one_step_of_eight_ranks_shows_who_waits_and_blames_nobody(tmp_path: Path) -> None:
    code, report = analyze(tmp_path, DLRM)
    assert code == 0
    assert (report.training_job, report.workers_seen, report.workers_expected) == ("param_dlrm", 8, 8)
    assert grave(report) == ()
    late = {victims.function.split("_")[1]: victims for victims in report.victims}
    assert late["SendRecv"].waits_for == (7,)
    assert {1, 3} <= set(late["SendRecv"].ranks)
    assert late["AllReduce"].waits_for == (4, 5)
    assert {1, 3} <= set(late["AllReduce"].ranks)
    assert any("inferred from one iteration" in note for note in report.notes)
    assert headline(report).startswith("Not enough evidence: who waits for whom is inferred from one iteration")


def test_the_help_says_where_patterns_can_be_pushed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["analyze", "--help"]) == 0
    shown = capsys.readouterr().out
    for backend in ("Prometheus", "VictoriaMetrics", "eroica-otel localize", "OpenTelemetry Collector"):
        assert backend in shown


def in_collective_ms(path: Path, name: str) -> tuple[float, float]:
    """Return how long the kernels of a collective run, and how long they do while no other work is on the GPU."""
    events = [one for one in json_module.loads(gzip.decompress(path.read_bytes()))["traceEvents"] if one["ph"] == "X"]
    (step,) = [one for one in events if one["name"].startswith("ProfilerStep#")]
    spans: dict[bool, list[tuple[int, int]]] = {True: [], False: []}
    for one in events:
        if name in one["name"] and one["cat"] == "kernel":
            spans[True].append((one["ts"], one["ts"] + one["dur"]))
        elif one["cat"] in ("kernel", "gpu_memcpy", "gpu_memset") and not one["name"].startswith("nccl"):
            spans[False].append((one["ts"], one["ts"] + one["dur"]))
    inside = {step["ts"], step["ts"] + step["dur"]}
    inside |= {at for several in spans.values() for span in several for at in span if min(inside) < at < max(inside)}
    alone = 0
    for low, high in pairwise(sorted(inside)):
        runs = {mine: any(start <= low and high <= end for start, end in spans[mine]) for mine in spans}
        alone += (high - low) * (runs[True] and not runs[False])
    return sum(end - start for start, end in spans[True]) / 1000, alone / 1000


def test_seconds_of_the_eight_ranks() -> None:
    """The table holds whole kernels; charged is what of them no other work on the GPU hides."""
    windows = load([DLRM]).windows
    assert [window.iterations for window in windows] == [1] * 8
    for window, path, send_recv, all_reduce in zip(
        windows, sorted(DLRM.iterdir()), SEND_RECV_MS, ALL_REDUCE_MS, strict=True
    ):
        ms = {pattern.function: pattern.beta * window.seconds * 1000 for pattern in window.patterns}
        assert 1.03 <= window.kinds["compute"] * window.seconds * 1000 <= 1.25
        for name, in_table in (("SendRecv", send_recv), ("AllReduce", all_reduce)):
            (charged,) = [time for function, time in ms.items() if name in function]
            whole, alone = in_collective_ms(path, name)
            assert whole == pytest.approx(in_table, abs=0.0051)  # both are rounded to a hundredth
            assert 0.7 * whole < alone < whole
            assert charged == pytest.approx(alone, abs=1e-6)


def test_the_input_of_a_real_job_before_and_after_it_got_workers() -> None:
    shares = {}
    for workers, path in RESNET.items():
        (window,) = load([path]).windows
        shares[workers] = sum(pattern.beta for pattern in window.patterns if pattern.family == "input")
        assert window.iterations == 6
    assert shares[0] == pytest.approx(0.34, abs=0.01)
    assert shares[4] == pytest.approx(0.01, abs=0.01)


def test_a_change_that_made_the_input_slow_is_a_finding(tmp_path: Path) -> None:
    code, report = analyze(tmp_path, "--compare", RESNET[4], RESNET[0])
    assert code == 1
    (finding,) = grave(report)
    assert (finding.cause, finding.verdict, finding.scope) == ("slow_input", "job", "job")
    # The six steps took 838 and 1049 ms.
    assert finding.impact_seconds == pytest.approx((1.049 - 0.838) / 6, abs=0.0005)
    assert "an iteration takes 175 ms, 140 ms before: 35 ms (25 %) more" in report.notes


def test_a_change_that_cured_it_is_no_finding_but_told_with_what_it_won(tmp_path: Path) -> None:
    code, report = analyze(tmp_path, "--compare", RESNET[0], RESNET[4])
    assert (code, grave(report)) == (0, ())
    assert "an iteration takes 140 ms, 175 ms before: 35 ms (20 %) less" in report.notes
    (won,) = [note for note in report.notes if note.startswith("input takes")]
    # 59 ms of 175 were input; of those 58 that are gone an iteration got 35 shorter.
    assert won.startswith("input takes 1.0 ms an iteration, 59 ms before; of these 58 ms an iteration keeps 35 ms")


def test_a_rank_that_computes_longer_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    late_rank(tmp_path / "run", count=4, late=2)
    page, question = tmp_path / "page.html", tmp_path / "question.json"
    code, report = analyze(tmp_path, tmp_path / "run", "--html", page, "--prompt-json", question)
    assert code == 1
    (finding,) = grave(report)
    assert (finding.ranks, finding.function) == ((2,), GEMM)
    assert finding.impact_seconds == pytest.approx(0.0004, abs=1e-6)
    (victims,) = report.victims
    assert (victims.ranks, victims.waits_for) == ((0, 1, 3), (2,))
    assert victims.function == ALL_REDUCE.partition("(")[0]
    assert "CULPRIT   rank 2" in capsys.readouterr().out
    text = page.read_text(encoding="utf-8")
    assert "<!doctype html>" in text
    assert "The critical path over the window" in text
    assert '"finding' in question.read_text(encoding="utf-8")


def test_a_named_role_is_compared_with_itself(tmp_path: Path) -> None:
    late_rank(tmp_path / "run", count=6, late=2)
    code, _ = analyze(tmp_path, tmp_path / "run", "--role", "head=2", "--role", "body=0,1,3-5")
    assert code == 0


def test_what_could_not_be_used_is_said_thrice(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """On standard error, in the report, and by the exit code where the others show no finding."""
    for rank in range(3):
        write(tmp_path / "run" / f"rank{rank}.json", rank=rank, world=4)
    broken = tmp_path / "run" / "rank3.json"
    broken.write_text('{"traceEvents": [{"ph"')
    code, report = analyze(tmp_path, tmp_path / "run")
    assert code == 3
    assert report.missing_ranks == (3,)
    assert any(note.startswith("left out: ") and str(broken) in note for note in report.notes)
    assert f"eroica-otel: left out: {broken}" in capsys.readouterr().err


def test_a_finding_counts_more_than_a_file_that_could_not_be_read(tmp_path: Path) -> None:
    late_rank(tmp_path / "run", count=4, late=2)
    (tmp_path / "run" / "rank4.json").write_text("{")
    assert analyze(tmp_path, tmp_path / "run")[0] == 1


@pytest.mark.parametrize(
    ("words", "code", "why"),
    [
        ([], 2, "there is nothing to analyse; give trace files"),
        (["nowhere"], 2, "nowhere: there is no such file or folder"),
        (["a", "--compare", "b", "c"], 2, "a stands beside --compare"),
        (["a", "--rank", "b"], 2, "--rank 'b' is none; give FILE=N"),
        (["a", "--rank", "b=x"], 2, "--rank 'b=x' is none; give FILE=N"),
        (["a", "--role", "x=1", "--role", "y=0-2"], 2, "--role gives rank 1 two roles, x and y"),
        (["a", "--role", "x=2-1"], 2, "'2-1' is no rank"),
        (["a", "--push", "--otlp", "host:1"], 2, "--otlp 'host:1' is no address"),
        (["a", "--iterations", "0"], 2, "'0' is no whole number above 0"),
    ],
)
def test_wrong_usage(words: list[str], code: int, why: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["analyze", *words]) == code
    assert why in " ".join(capsys.readouterr().err.split())


def test_a_trace_that_cannot_be_read_is_a_failure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "rank0.json"
    path.write_text('{"traceEvents": [')
    assert main(["analyze", str(path)]) == 3
    assert f"eroica-otel: {path}" in capsys.readouterr().err


def test_ranks_may_be_given_in_both_runs_of_a_comparison(tmp_path: Path) -> None:
    for run in ("before", "after"):
        for name in ("x.json", f"{run}.json"):
            write(tmp_path / run / name, kineto(None))
    ranks = ("--rank", "x.json=0", "--rank", "before.json=1", "--rank", "after.json=1")
    code, report = analyze(tmp_path, "--compare", tmp_path / "before", tmp_path / "after", *ranks)
    assert (code, report.workers_seen) == (0, 2)
    assert (
        main(["analyze", "--compare", str(tmp_path / "before"), str(tmp_path / "after"), *ranks, "--rank", "z=1"]) == 2
    )


def test_the_program_reads_with_several_processes(tmp_path: Path) -> None:
    late_rank(tmp_path, count=3, late=1)
    words = [sys.executable, "-m", "eroica_otel.commands.main", "analyze", str(tmp_path), "--jobs", "2"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 1, done.stderr
    assert "CULPRIT   rank 1" in done.stdout
    assert done.stderr == ""


def test_push_delivers_and_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    late_rank(tmp_path / "llm", count=2, late=1)
    server = WriteServer()
    try:
        analyze(tmp_path, tmp_path / "llm", "--remote-write", server.url)
    finally:
        server.close()
    assert len(server.bodies) == 2
    assert "eroica-otel: the patterns of 2 workers are delivered as job llm" in capsys.readouterr().err


class Terminal(io.StringIO):
    """A stream that somebody looks at."""

    def isatty(self) -> bool:
        return True


def test_progress_is_for_who_looks_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    seen, unseen = Terminal(), io.StringIO()
    for stream in (seen, unseen):
        show = Progress(stream)
        show(1, 4, "a/rank0.json", 0.25)
        show(4, 4, "a/rank3.json", 1.0)
    assert unseen.getvalue() == ""
    first, last = seen.getvalue().split("\r")[1:]
    assert first.endswith("[#####               ] 1 of 4 traces   rank0.json")
    # The line is gone after the last.
    assert last == "\x1b[K"


def test_progress_inside_one_large_file_with_the_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    now, seen = iter((0.0, 10.0, 600.0, 610.0)), Terminal()
    show = Progress(seen, lambda: next(now))
    for share in (0.0, 0.25, 0.75, 1.0):
        show(0, 1, "a/rank0.json", share)
    show = Progress(seen, lambda: 0.0)
    show(1, 1, "a/rank0.json", 1.0)
    texts = [text.removeprefix("\x1b[K") for text in seen.getvalue().split("\r")[1:]]
    assert texts == [
        "[                    ] 0 %   rank0.json",
        "[#####               ] 25 %, 30 s left   rank0.json",
        "[###############     ] 75 %, 3 min left   rank0.json",
        "[####################] 100 %, summing up   rank0.json",
        "",
    ]


def test_a_source_folder_that_is_none_is_said_before_anything_is_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "rank0.json").write_text("not a trace")
    assert main(["analyze", str(tmp_path), "--source", str(tmp_path / "nowhere")]) == 2
    said = capsys.readouterr().err
    assert "is no folder" in said
    assert "rank0.json" not in said
