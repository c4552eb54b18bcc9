"""The verdict in sentences: what came out, what it costs, what it means. Takes a Report, gives text. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime, timezone
from types import MappingProxyType
from typing import Literal

from eroica_otel.model import Finding, Report, Victims
from eroica_otel.publish.report.words import (
    capital,
    duration,
    listed,
    location,
    percent,
    place,
    plural,
    ranks_text,
    sentence,
    visible,
)

Outcome = Literal["finding", "quiet", "no_consensus", "not_enough"]

CAUSE_WORDS: Mapping[str, str] = MappingProxyType(
    {
        "gpu_throttled": "the GPU lowers its clock because of heat or a hardware limit",
        "gpu_power_capped": "the GPU is held back by its power limit",
        "gpu_memory_slow": "the GPU's memory is slower than its peers'",
        "nvlink_degraded": "an NVLink connection inside the node is slow",
        "pcie_degraded": "the PCIe connection of the GPU is slow",
        "nic_degraded": "the network card or its cable is slow",
        "link_flapping": "a network link goes down and comes back",
        "network_congestion": "the network between the nodes is congested",
        "collective_inefficient": "a collective operation is slow although every link is healthy",
        "slow_input": "the input data arrives late",
        "storage_slow": "the storage that holds the data is slow",
        "cpu_starved": "the process does not get the CPU time it asks for",
        "numa_misplaced": "the process runs far from its memory or its GPU",
        "memory_pressure": "the node is short of memory",
        "gc_pause": "Python's garbage collection stops the training thread",
        "python_overhead": "Python code on the training thread keeps the CPU busy",
        "host_sync": "the host waits for the GPU more often than it must",
        "allocator_churn": "memory is allocated and freed again and again",
        "load_imbalance": "this worker has more to compute than its peers",
        "pipeline_imbalance": "one pipeline stage has more to do than the others",
        "checkpoint_stall": "saving a checkpoint holds up the training",
        "recompilation": "the model is compiled again during training",
        "process_stopped": "the process is stopped",
        "cpu_contention": "the machine has fewer free cores than the job needs",
        "python_blocked": "Python code on the training thread waits for something outside it",
        "hang_missing_rank": "a worker did not join a collective operation, or does not get through it",
        "hang_in_python": "a worker does not leave a function of its own",
        "unknown": "the cause is not settled by what was measured",
    }
)
"""Each cause of names.CAUSES as the second half of a sentence."""

_HANGS = ("hang_missing_rank", "hang_in_python")
_ALSO_HANGS = ("process_stopped", "checkpoint_stall", "unknown")
_FASTER = 0.95
"""Of the reference; below that windows of one job differ anyway."""
NO_CONSENSUS, NOT_ENOUGH, NOBODY = "no consensus", "not enough evidence", "cannot be judged"
"""How the notes begin that say why a window was not judged."""


def grave(report: Report) -> tuple[Finding, ...]:
    """Return the findings above info: those that exit codes, alerts and headlines count."""
    return tuple(finding for finding in report.findings if finding.severity != "info")


def outcome(report: Report) -> Outcome:
    """Return what kind of verdict this is; findings above info win over everything else."""
    if grave(report):
        return "finding"
    if report.no_consensus:
        return "no_consensus"
    if not report.workers_seen or _note(report, NOT_ENOUGH) or _note(report, NOBODY):
        return "not_enough"
    return "quiet"


def iteration_seconds(report: Report) -> float:
    """Return the median length of an iteration in the window, NaN when the report does not tell."""
    return math.nan if report.detail is None else report.detail.iteration_seconds


def stands_still(finding: Finding) -> bool:
    """Return whether nothing moves because of the finding: then there is no iteration to take a share of."""
    whole = finding.impact_ratio == 1.0 and finding.cause in _ALSO_HANGS
    return finding.cause in _HANGS or whole


def price(finding: Finding, iteration: float) -> str:
    """Return what a finding costs as a phrase with its verb, "costs 46 ms of every 212 ms iteration (22 %)" or
    "nothing has moved for 34 s"; "" for nothing.
    """
    amount = cost(finding, iteration)
    return amount if stands_still(finding) or not amount else f"costs {amount}"


def _still(finding: Finding) -> str:
    if not math.isfinite(finding.impact_seconds):
        return "nothing moves"
    seconds = finding.impact_seconds
    return f"nothing has moved for {f'{seconds:,.0f} s' if seconds >= 10 else duration(seconds)}"


def cost(finding: Finding, iteration: float) -> str:
    """Return "46 ms of every 212 ms iteration (22 %)" as far as its numbers are known, "" for nothing; of a hang
    "nothing has moved for 34 s".
    """
    if stands_still(finding):
        return _still(finding)
    seconds, share = finding.impact_seconds, finding.impact_ratio
    if seconds == 0:
        return ""
    if not math.isfinite(seconds):
        return f"{percent(share)} of every iteration" if math.isfinite(share) else ""
    whole = f"every {duration(iteration)} iteration" if iteration > 0 else "every iteration"
    return f"{duration(seconds)} of {whole}" + (f" ({percent(share)})" if math.isfinite(share) else "")


def claim(finding: Finding, iteration: float) -> str:
    """Return "rank 2 on node-c costs 46 ms of every 212 ms iteration (22 %)"; with low confidence it says probably."""
    likely = "" if finding.confidence == "high" else "probably "
    if stands_still(finding):
        return _standstill(finding, likely)
    amount = cost(finding, iteration)
    if finding.verdict == "job":
        text = f"{likely}costs {amount}" if amount else f"is {likely}the reason"
        name = location(finding) if finding.function else CAUSE_WORDS.get(finding.cause, visible(finding.cause))
        return f"the whole job is slower: {name} {text} on all workers alike"
    many = len(set(finding.ranks)) > 1 and finding.scope not in ("node", "role")
    verb = "cost" if many else "costs"
    text = f"{verb} {amount}" if amount else f"{'hold' if many else 'holds'} up the job"
    return f"{place(finding)} {likely}{text}"


def _standstill(finding: Finding, likely: str) -> str:
    if finding.verdict == "job":
        return f"the whole job stands still, all workers alike: {_still(finding)}"
    many = len(set(finding.ranks)) > 1 and finding.scope not in ("node", "role")
    return f"{place(finding)} {likely}{'hold' if many else 'holds'} up the job: {_still(finding)}"


def headline(report: Report) -> str:
    """Return the verdict in one sentence with its main number."""
    kind = outcome(report)
    if kind == "finding":
        return f"{capital(claim(grave(report)[0], iteration_seconds(report)))}."
    if kind != "quiet":
        return capital(sentence(unjudged(report)))
    if headlined(report):
        return sentence(f"No finding: {headlined(report)}")
    if _faster(report):
        return f"No finding: an iteration takes {duration(iteration_seconds(report))}, {change(report)}."
    if report.findings:
        return "No finding that calls for action."
    if report.workers_seen == 1:
        return "No finding: the worker behaves as it did in its reference window."
    return f"No finding: the {plural(report.workers_seen, 'worker')} behave alike."


def _faster(report: Report) -> bool:
    """Whether an iteration is clearly shorter than in the reference."""
    reference = report.detail.reference_iteration_seconds if report.detail is not None else math.nan
    return iteration_seconds(report) < _FASTER * reference


def explanation(report: Report) -> str:
    """Return the sentence after the headline: the cause in plain words, or what was looked at, or why not judged."""
    kind = outcome(report)
    if kind == "finding":
        others = len(grave(report)) - 1
        return _explain(grave(report)[0]) + (f" {capital(plural(others, 'more finding'))} below." if others else "")
    if kind == "no_consensus":
        functions = listed([function_name(report, identity) for identity in report.no_consensus[:5]])
        return f"The workers fall into halves that differ in {functions}; neither half can be called the exception."
    if kind == "not_enough":
        return "Nobody is named without evidence."
    if report.reason == "blocked":
        return f"Stacks of {plural(report.workers_seen, 'worker')} were looked at while no iteration ended."
    return f"{capital(looked_at(report))}."


def unjudged(report: Report) -> str:
    """Return why there is no verdict: "no consensus: 1 of 2 nodes differs and there is no reference window"."""
    start, default = NO_CONSENSUS, f"{NO_CONSENSUS}: the workers split evenly"
    if outcome(report) == "not_enough":
        start, default = NOT_ENOUGH, f"{NOT_ENOUGH}: no worker reported on this window"
    return _note(report, start) or _note(report, NOBODY) or default


def headlined(report: Report) -> str:
    """Return the note that the headline tells already, "" for none."""
    kind = outcome(report)
    if kind in ("no_consensus", "not_enough"):
        return unjudged(report)
    still = kind == "quiet" and report.reason == "blocked" and not report.findings and report.notes
    return visible(report.notes[0]) if still else ""


def looked_at(report: Report) -> str:
    """Return "4 workers, 42 functions, largest difference 1.8 % of the iteration (all_reduce, rank 1)"."""
    parts = [plural(report.workers_seen, "worker")]
    detail = report.detail
    if detail is not None:
        parts.append(plural(detail.functions_seen, "function"))
        function, rank, share = detail.largest_difference
        if function and math.isfinite(share):
            who = f"{visible(function)}, rank {rank}" if rank >= 0 else visible(function)
            parts.append(f"largest difference {percent(share)} of the iteration ({who})")
    return ", ".join(parts)


def function_name(report: Report, identity: str) -> str:
    """Return the name of a function id as far as the report tells, else the id."""
    functions = report.detail.functions if report.detail is not None else ()
    return visible(next((one.function for one in functions if one.function_id == identity), identity))


def waits(victims: Victims) -> str:
    """Return "ranks 0, 1, 3 wait for rank 2 in all_reduce"."""
    verb = "waits" if len(set(victims.ranks)) == 1 else "wait"
    target = f" for {ranks_text(victims.waits_for)}" if victims.waits_for else ""
    where = f" in {visible(victims.function)}" if victims.function else ""
    return f"{ranks_text(victims.ranks)} {verb}{target}{where}"


def persistence(finding: Finding) -> str:
    """Return how long the finding has been there, "" for a single window."""
    return {
        "since_start": "present since the start of the job",
        "rotating": "moves from worker to worker",
    }.get(finding.persistence, "")


def change(report: Report) -> str:
    """Return "28 % over the healthy reference of 166 ms", "" without a reference."""
    detail = report.detail
    if detail is None or not detail.reference_iteration_seconds > 0 or not math.isfinite(detail.iteration_seconds):
        return ""
    ratio = detail.iteration_seconds / detail.reference_iteration_seconds - 1
    reference = f"the healthy reference of {duration(detail.reference_iteration_seconds)}"
    if abs(ratio) < 0.005:
        return f"as in {reference}"
    return f"{percent(abs(ratio))} {'over' if ratio > 0 else 'under'} {reference}"


def window_time(report: Report) -> str:
    """Return when the window was decided, in UTC: "2025-11-24 15:33:20 UTC"; "" for an id that is no time."""
    try:
        return f"{datetime.fromtimestamp(report.window_id, timezone.utc):%Y-%m-%d %H:%M:%S} UTC"
    except (OverflowError, ValueError, OSError):
        return ""


def missing(report: Report) -> str:
    """Return "rank 3 sent nothing", "" when all reported."""
    absent = report.workers_expected - report.workers_seen
    if report.missing_ranks and len(report.missing_ranks) >= absent:
        return f"{ranks_text(report.missing_ranks)} sent nothing"
    return f"{plural(absent, 'worker')} sent nothing" if absent > 0 else ""


def _explain(finding: Finding) -> str:
    cause = CAUSE_WORDS.get(finding.cause, visible(finding.cause))
    return f"In {location(finding)}, {cause}." if finding.function else f"{capital(cause)}."


def _note(report: Report, start: str) -> str:
    return next((visible(note) for note in report.notes if note.lower().startswith(start)), "")
