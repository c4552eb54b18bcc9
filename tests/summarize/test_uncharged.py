"""What a worker reports of events that nobody knows."""

from __future__ import annotations

from pathlib import Path

from eroica_otel.summarize.pattern import summarize
from eroica_otel.summarize.uncharged import reported
from factories_summarize import Row, capture, write_kineto


def test_the_longest_are_named_and_the_others_are_one() -> None:
    given = {f"c{seconds}": (1, float(seconds)) for seconds in range(1, 8)}
    # Of 1 to 7 s the four longest have a name; 1, 2 and 3 are 6 s together.
    assert reported(given) == {"c7": (1, 7.0), "c6": (1, 6.0), "c5": (1, 5.0), "c4": (1, 4.0), "others": (3, 6.0)}


def test_names_are_plain_and_short_and_those_that_become_one_add_up() -> None:
    odd = 'warp"}\n drive'
    assert reported({odd: (1, 1.0), "warp drive": (2, 0.5), "x" * 100: (1, 0.1)}) == {
        "warp_drive": (3, 1.5),
        "x" * 40: (1, 0.1),
    }


def test_a_window_carries_them(tmp_path: Path) -> None:
    rows = [Row("aten::mm", 0, 60), Row("beam", 10, 40, "warp_drive", 5), Row("aten::mm", 70, 100)]
    path = write_kineto(tmp_path / "t.json", rows)
    window = summarize(capture(trace=path))
    assert window.unknown == {"warp_drive": (1, 30e-9)}
    assert window.kinds["compute"] == 0.9
