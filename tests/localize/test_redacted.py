"""A job whose names are hidden gets the verdict that it gets in the clear, about tokens; and the names come back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from eroica_otel.commands.unredact import restored
from eroica_otel.export.redact import TOKEN, Redactor
from eroica_otel.kinds import Frame
from eroica_otel.localize.stands import frame_of
from eroica_otel.localize.verdict import judge
from eroica_otel.model import Finding, Report, WorkerWindow
from factories_localize import (
    IN_AUGMENT,
    IN_SAVE,
    Rank,
    blocked_input,
    busy,
    matmul,
    one_bad,
    rank,
    reference_of,
    stuck,
    window_of,
)

KEY = b"an owner's key"
SAVES = [stuck(at) for at in range(3)] + [stuck(3, IN_SAVE)]
HANGS = [stuck(at) for at in range(3)] + [stuck(3, IN_AUGMENT)]
JOBS: dict[str, list[WorkerWindow]] = {
    "python": window_of(one_bad(4, 2, busy())),
    "input": window_of(one_bad(4, 1, blocked_input())),
    "imbalance": window_of([rank(matmul(80.0, on=76.0)), *(rank(matmul(20.0, on=19.0)) for _ in range(3))]),
    "healthy": window_of([Rank() for _ in range(4)]),
    "hang": HANGS,
    "pause": SAVES,
}  # fmt: skip


def redacted(windows: Sequence[WorkerWindow], mode: str) -> tuple[list[WorkerWindow], dict[str, str]]:
    """Return the windows as workers of one key would export them, and the names behind their tokens."""
    names: dict[str, str] = {}
    hide = Redactor(mode, KEY, names.__setitem__)
    return [hide.window(window, _frames(window)) for window in windows], names


def _frames(window: WorkerWindow) -> list[Frame]:
    """Return the frames with files: libraries' in an installation, all others in a checkout."""
    found = []
    for text in {text for pattern in window.patterns for text in pattern.stack}:
        frame = frame_of(text)
        library = frame.module.startswith("torch")
        found.append(frame._replace(file="/x/site-packages/torch.py" if library else "/home/me/train.py"))
    return found


def told(finding: Finding) -> Finding:
    """Return a finding without what names a function."""
    return replace(finding, function="", function_id="", stack=(), evidence=())


@pytest.mark.parametrize("mode", ["paths", "names"])
@pytest.mark.parametrize("job", JOBS)
def test_the_verdict_is_the_same(job: str, mode: str) -> None:
    hidden, names = redacted(JOBS[job], mode)
    before, names_before = redacted(reference_of(), mode)
    plain = judge(JOBS[job], reference_of(), expected=4)
    report = judge(hidden, before, expected=4)
    assert [told(one) for one in report.findings] == [told(one) for one in plain.findings]
    assert [(one.ranks, one.waits_for) for one in report.victims] == [
        (one.ranks, one.waits_for) for one in plain.victims
    ]
    assert len(report.notes) == len(plain.notes)
    _nothing_shows(report, mode)
    for mine, open_one in zip(report.findings, plain.findings, strict=True):
        stack = restored("\n".join(mine.stack), names | names_before)
        assert stack == "\n".join(open_one.stack)


def _nothing_shows(report: Report, mode: str) -> None:
    text = str(report)
    assert "train:" not in text.replace("__main__", "")
    assert "train.py" not in text
    if mode == "names":
        assert "augment" not in text
        assert "fetch_remote" not in text


def test_the_jobs_above_are_what_they_are_called() -> None:
    causes = {job: [one.cause for one in judge(windows, reference_of(), expected=4).findings if one.severity != "info"]
              for job, windows in JOBS.items()}  # fmt: skip
    assert causes == {
        "python": ["python_overhead"], "input": ["slow_input"], "imbalance": ["load_imbalance"], "healthy": [],
        "hang": ["hang_in_python"], "pause": [],
    }  # fmt: skip


def test_a_token_stands_where_the_function_stood() -> None:
    hidden, names = redacted(JOBS["python"], "names")
    (finding,) = (one for one in judge(hidden, (), expected=4).findings if one.severity != "info")
    assert TOKEN.match(finding.function)
    assert restored(finding.function, names) == "augment (train:41)"
