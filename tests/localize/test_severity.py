"""Nothing above info costs less than 2 % of the iteration, whatever the finding is about; hangs cost all of it.

Work that hid behind waiting is the exception where the trigger fired (test_impact.py), so its rows are windows by hand.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import pytest

from eroica_otel.localize.policy import Policy
from eroica_otel.localize.verdict import judge
from eroica_otel.model import Finding, Identity, Pattern, Report, WorkerWindow
from factories_localize import Rank, Work, busy, device, one_bad, ordinary, quiet, rank, window_of
from scenarios import call, grouped, kernel, pack

LEAST = Policy().impact_least_ratio


def silent(iterations: int, **changes: float) -> Report:
    """Return the verdict where rank 1 did not run for 1.5 s of so many iterations of 113.5 ms."""
    gap = {"sampler_gap_seconds": 1.5, **changes}
    ranks = [rank(**gap) if at == 1 else rank() for at in range(4)]
    return judge(window_of(ranks, iterations=iterations), expected=4)


def hidden(ranks: list[Rank], waited_ms: float) -> Report:
    """Return the verdict where all had waited before for ``waited_ms`` that they do not wait for now."""
    before = window_of([quiet()] * len(ranks), window_id=1, reason="reference", longer_ms=waited_ms)
    return judge(window_of(ranks, reason="manual"), before, expected=len(ranks))


def stage(other_ms: float) -> Report:
    """Return the verdict where the second of two stages computes for 40 ms more and the first does other work."""
    names = (("send_f", "recv_b"),) * 4 + (("recv_f", "send_b"),) * 2
    return judge([_of_stage(at, each, 40.0 if at < 4 else 80.0, other_ms * (at < 4)) for at, each in enumerate(names)],
                 expected=6)  # fmt: skip


def _of_stage(at: int, exchanges: tuple[str, ...], compute_ms: float, other_ms: float) -> WorkerWindow:
    used = {"compute": compute_ms / 100, "communication": 0.02, "python": other_ms / 100}
    patterns = [Pattern(f"{name:>012}", name, "communication", "point_to_point", "", 0.01) for name in exchanges]
    patterns.append(Pattern("0123456789ab", "forward", "compute", "gemm", "", used["compute"]))
    if other_ms:
        patterns.append(Pattern("ba9876543210", "log", "python", "other", "", used["python"]))
    identity = Identity("job", at, f"node-{at % 2}", world_size=6)
    kinds = used | {"idle": 1 - sum(used.values())}
    return WorkerWindow(identity, 1, "manual", 2.0, 20, tuple(patterns), kinds=kinds)


def link(peak: float, transfer_ms: float) -> Report:
    """Return the verdict where the link from rank 2 to rank 1 carries ``peak`` and the others 0.95."""
    slow: dict[int, dict[str, float]] = {2: {"nic_tx": peak}, 1: {"nic_rx": peak}}
    ranks = [rank(peaks={"nic_tx": 0.95, "nic_rx": 0.95} | slow.get(at, {})) for at in range(4)]
    return judge(window_of(ranks, transfer_ms=transfer_ms), expected=4)


def groups(seconds: float) -> Report:
    ranks = grouped(1, 4, (2 * seconds, seconds), "nvlink", (0.4, 0.8))
    return judge(window_of(ranks, transfer_ms=50.0), expected=8)


def waiting(device_ms: float) -> Report:
    """Return the verdict where all wait for 50 ms more than before, and compute for so long."""
    ranks = [rank(base=(device(device_ms), *ordinary()[1:]))] * 4
    before = window_of([quiet()] * 4, window_id=1, reason="reference")
    return judge(window_of(ranks, transfer_ms=70.0), before, expected=4)


def synchronises(kernel_ms: float) -> Report:
    """Return the verdict where all wait for the device for 45 ms more than before, and compute for so long."""

    def sync(ms: float) -> Work:
        return call("cudaStreamSynchronize", ms, "sync", on=0.1 * ms)

    before = window_of(pack(sync, *[2.0] * 4, base=(kernel(120),)), window_id=1, reason="reference")
    return judge(window_of(pack(sync, *[47.0] * 4, base=(kernel(kernel_ms),))), before, expected=4)


class Row(NamedTuple):
    """One type of finding: what it is about, a window in which it costs much, and one in which it costs next to
    nothing.
    """

    name: str
    about: tuple[str, str]
    much: Callable[[], Report]
    little: Callable[[], Report]


BAD, MOST, ALL = one_bad(8, 1, busy()), [rank(busy()) if at < 5 else rank() for at in range(8)], [rank(busy())] * 8
TABLE = (
    Row("silent", ("culprit", "process_stopped"), lambda: silent(30), lambda: silent(1000)),
    Row("state T", ("culprit", "process_stopped"), lambda: silent(30, stopped_seconds=1.5),
        lambda: silent(1000, stopped_seconds=1.5)),
    Row("one rank", ("culprit", "python_overhead"), lambda: hidden(BAD, 0), lambda: hidden(BAD, 60)),
    Row("most ranks", ("culprit", "python_overhead"), lambda: hidden(MOST, 0), lambda: hidden(MOST, 60)),
    Row("all ranks", ("job", "python_overhead"), lambda: hidden(ALL, 0), lambda: hidden(ALL, 60)),
    Row("stage", ("culprit", "pipeline_imbalance"), lambda: stage(0), lambda: stage(40)),
    Row("link", ("culprit", "nic_degraded"), lambda: link(0.3, 90), lambda: link(0.8, 10)),
    Row("waiting", ("job", "unknown"), lambda: waiting(90), lambda: waiting(40)),
    Row("device", ("job", "host_sync"), lambda: synchronises(120), lambda: synchronises(75)),
)  # fmt: skip


def about(report: Report, row: Row) -> Finding:
    """Return the first finding of the row's type; further stages may tell the same where it is only info."""
    return next(one for one in report.findings if (one.verdict, one.cause) == row.about)


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.name)
def test_what_costs_next_to_nothing_is_info_and_what_costs_much_is_not(row: Row) -> None:
    much, little = row.much(), row.little()
    assert (about(much, row).severity != "info", about(much, row).impact_ratio >= LEAST) == (True, True)
    assert (about(little, row).severity, about(little, row).impact_ratio < LEAST) == ("info", True)
    for report in (much, little):
        assert all(one.severity == "info" or one.impact_ratio >= LEAST for one in report.findings)


def test_groups_that_cost_less_than_what_is_material_are_not_told() -> None:
    """A call takes 30 or 2 ms longer than in other groups, in iterations of 100 ms."""
    assert [(one.cause, one.severity) for one in groups(0.030).findings] == [("nvlink_degraded", "critical")]
    assert groups(0.002).findings == ()


@pytest.mark.parametrize("stopped", [0, 1])
def test_a_stop_that_costs_next_to_nothing_hides_no_other_fault(stopped: int) -> None:
    """Rank 1 blocks for 60 ms more; it, or another, did not run for 1.5 s of 174."""
    ranks = one_bad(4, 1, Work("backoff (train.py:77)", 60.0, 0.0))
    ranks[stopped] = replace(ranks[stopped], changes={"sampler_gap_seconds": 1.5})
    report = judge(window_of(ranks, iterations=1000), expected=4)
    assert {(one.cause, one.ranks, one.severity) for one in report.findings} == {
        ("python_blocked", (1,), "critical"), ("process_stopped", (stopped,), "info"),
    }  # fmt: skip
    assert [one.waits_for for one in report.victims] == [(1,)]
