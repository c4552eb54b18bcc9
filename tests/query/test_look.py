from __future__ import annotations

import re
from pathlib import Path

from eroica_otel import names
from eroica_otel.query import decode, look


def test_everything_that_is_decoded_is_asked_for_with_a_window() -> None:
    read = set(re.findall(r"\bnames\.([A-Z_]{2,})\b", Path(decode.__file__).read_text()))
    assert len(read) > 20
    assert {getattr(names, name).name for name in read} <= set(look.OF_A_WINDOW)


def test_what_says_nothing_about_a_window_is_not_asked_for_with_it() -> None:
    standing = {metric.name for metric in look.STANDING}
    histograms = {metric.name for metric in names.DURATIONS}
    workers = {metric.name for metric in names.ALL if metric.component == names.WORKER}
    assert set(look.OF_A_WINDOW) == (workers - standing - histograms) | {names.VECTOR.name}
