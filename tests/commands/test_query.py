from __future__ import annotations

from pathlib import Path

import pytest

from eroica_otel.commands.main import main
from eroica_otel.query import files
from eroica_otel.query.journal import Journal
from eroica_otel.query.reading import Wanted
from factories_central import WINDOW, identity, window, windows


def saved(folder: Path) -> str:
    path = folder / "some.jsonl"
    files.write(path, [*windows(reason="reference"), *windows([2], window_id=WINDOW + 60)])
    return str(path)


def said(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> list[str]:
    assert main(["query", *words]) == code
    out, err = capsys.readouterr()
    return (err if code else out).splitlines()


def test_without_a_rank_the_windows_are_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = said(capsys, saved(tmp_path))
    assert lines[0].split() == ["job", "window", "decided", "(UTC)", "reason", "workers"]
    assert lines[1].split() == ["vision/llm-7b", str(WINDOW), "2025-11-29", "15:26:40", "reference", "4"]
    assert lines[2].split() == ["vision/llm-7b", str(WINDOW + 60), "2025-11-29", "15:27:40", "degraded", "4"]
    assert len(said(capsys, saved(tmp_path), "--window", str(WINDOW))) == len(lines) - 1


def test_a_workers_patterns_in_the_newest_window_or_another(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = saved(tmp_path)
    newest = said(capsys, path, "--rank", "2")
    assert newest[0] == f"job vision/llm-7b   window {WINDOW + 60}   degraded"
    assert newest[1].startswith("rank 2   on host-1   30 iterations")
    # Of rank 2, augment takes 50 % in the degraded window and 10 % in the reference.
    assert [line.split()[0] for line in newest if "augment" in line] == ["50"]
    first = said(capsys, path, "--rank", "2", "--window", str(WINDOW))
    assert [line.split()[0] for line in first if "augment" in line] == ["10"]
    both = said(capsys, path, "--rank", "1", "--rank", "3")
    assert [line.split()[1] for line in both if line.startswith("rank ")] == ["1", "3"]


def test_what_is_written_is_read_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    again = tmp_path / "again.jsonl"
    said(capsys, saved(tmp_path), "--window", str(WINDOW), "--json", str(again))
    assert list(files.pattern_reader([again]).windows(Wanted())) == windows(reason="reference")
    (line,) = said(capsys, str(again), "--rank", "3", "--json", "-")
    assert files.window_of(line.encode()) == windows(reason="reference")[3]


def test_the_journal_of_a_localizer_here_is_read_unless_another_place_is_given(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    folder = tmp_path / "eroica_otel" / "localizer"
    folder.mkdir(parents=True)
    journal = Journal(str(folder / "journal"))
    journal.append(window(1))
    assert said(capsys, "--rank", "1") == said(capsys, "--rank", "1", "--state", str(tmp_path / "eroica_otel"))
    journal.close()


def test_names_from_outside_cannot_move_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "odd.jsonl"
    files.write(path, [window(who=identity(0, training_job="a\x1b[2Jb\nc", team=""))])
    for words in ([], ["--rank", "0"]):
        assert "\x1b" not in "".join(said(capsys, str(path), *words))


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (["--rank", "9"], 3, f"rank 9 is not in it; without --rank the windows and their workers are listed ({WINDOW}"),
        (["--window", "17"], 3, f"holds no window 17; the newest are {WINDOW}, {WINDOW + 60}"),
        (["--window", "17", "--rank", "1"], 3, "holds no window 17"),
        (["--job", "nobody"], 3, "holds no window of job nobody; ask for one by eroica-otel window, or see that --job"),
        (["--job", "nobody", "--json", "-"], 3, "ask for one by eroica-otel window"),
        (["--json", "/nowhere/x"], 3, "--json /nowhere/x: No such file or directory; give another place"),
        (["--state", "x"], 2, "give one of them"),
        (["--prometheus-token-file", "x"], 2, "give --prometheus URL too"),
        (["--rank", "all"], 2, "is no whole number"),
        (["--since", "soon"], 2, "give 1 to"),
    ],
)
def test_what_does_not_work_is_said_with_the_remedy(
    words: list[str], code: int, text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert text in said(capsys, saved(tmp_path), *words, code=code)[-1]


def test_a_backend_that_is_away_is_said_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    (line,) = said(capsys, "--prometheus", "http://127.0.0.1:1", "--rank", "0", code=3)
    assert line == "eroica-otel: Connection refused; is it running, and is the address right?"
