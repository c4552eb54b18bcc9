"""Dumps that the installed torch writes of three real ranks, one of which leaves a collective out."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from eroica_otel.localize.hangflight import judge_flights
from eroica_otel.offline.flights import read_flights


def test_the_rank_that_left_a_collective_out_is_named_from_both_forms_of_a_real_dump(tmp_path: Path) -> None:
    for form in ("pickle", "json"):
        (tmp_path / form).mkdir()
    script = Path(__file__).parent / "recorded.py"
    environment = os.environ | {"EROICA_DISABLED": "1", "OMP_NUM_THREADS": "1"}
    ranks = [
        subprocess.Popen([sys.executable, str(script), str(tmp_path), str(rank)], env=environment) for rank in range(3)
    ]
    assert [rank.wait(120) for rank in ranks] == [0, 0, 0]
    for form, function in (("pickle", "step (recorded.py:"), ("json", "gloo:all_reduce")):
        flights = read_flights(tmp_path / form)
        report = judge_flights(flights.run.windows, flights.calls, expected=flights.run.expected)
        (finding,) = report.findings
        assert (finding.cause, finding.ranks, finding.confidence) == ("hang_missing_rank", (2,), "high")
        assert "what it has not entered is number 3, all_reduce" in finding.evidence
        assert report.victims[0].ranks == (0, 1)
        assert report.victims[0].function.startswith(function)
        assert finding.function.startswith("left_out (recorded.py:" if form == "pickle" else "")
