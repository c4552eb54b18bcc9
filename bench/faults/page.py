"""Writes docs/fault-board.md and docs/fault-board.html from the lines of results.jsonl (``make docs`` does, too)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.faults import choose, ledger, render, score
from bench.faults.case import PUBLISHED, UNSEEN, Case
from bench.faults.clean import WINDOWS, jobs
from bench.faults.effect import LEAST_NOISES, Effect
from bench.faults.ledger import Line
from bench.faults.render import Section
from bench.faults.score import Run
from bench.faults.table.every import CASES

FILES = (ledger.ROOT / "docs" / "fault-board.md", ledger.ROOT / "docs" / "fault-board.html")
TITLE = "The fault board"
INTRODUCTION = (
    "Real faults in real trainings, and how often the verdict is right. Written by `make faults` and `make docs` from "
    "`bench/faults/results.jsonl`; only what has run is counted.",
    "Each node is a network namespace with a link of its own (a veth pair on a bridge, shaped by `tc`), each rank a "
    "process in a cgroup. The ranks meet over gloo, compute for real at about 15 ms an iteration, at most 20 % of a "
    "core each, and spend the rest on an operator that takes a fixed time for each sample, because the machine has "
    "no GPU. Everything is judged through real Prometheus with the shipped rules, a node agent on each node, and the "
    "localizer as a user runs it.",
    "Fixed before the first run: who is hurt, how much (within 20 % of the nominal size) and when is drawn by a seed "
    "that follows from the case's id by a hash; nothing is tuned on those seeds. Each case runs without the plugin "
    "against its clean twin first, and counts when its effect on the iteration time is at least "
    f"{LEAST_NOISES:g} standard deviations of the noise (means of 10 iterations). Right is a run in which an alert "
    "fires that names exactly those whom the fault hurts, and a cause that the case allows; a finding about a link is "
    "right when the link ends at the node that is hurt. Where silence is right (clean runs, effects of 3 %, pauses "
    "that are none), a window was judged and nothing above info was found, whatever the effect. Void runs (processes "
    "outside our own took more than 10 % of the machine) are made again.",
)


def sections(cases: Sequence[Case], lines: Sequence[Line]) -> list[Section]:
    """Return the page."""
    runs, absent = score.latest(score.published(cases), lines)
    unseen, absent_unseen = score.latest(score.published(cases, UNSEEN), lines)
    every = [*runs, *unseen]
    return [
        Section("What it is", INTRODUCTION),
        _figures(cases, lines, runs, unseen),
        _times(every),
        _by("By class", runs, [case.klass for case in cases]),
        _by("By workload", runs, [case.workload for case in cases]),
        _wrong(every),
        _not_measurable(every),
        Section(
            "Not run",
            (f"{len(absent) + len(absent_unseen)} of {len(cases)} cases have not run.",),
            ("case", "class", "workload", "what is done"),
            [(turn.case.name, turn.case.klass, turn.case.workload, turn.case.text) for turn in absent + absent_unseen],
        ),
        _clean(lines),
        _changed(cases),
        _peers(lines),
        _all(every),
        Section("Made with", tuple(_made_with(every))),
    ]


def _figures(cases: Sequence[Case], lines: Sequence[Line], runs: Sequence[Run], unseen: Sequence[Run]) -> Section:
    drawn = choose.turns([case for case in cases if case.group == PUBLISHED], "thrice", cases)
    three, _ = score.latest(drawn, lines)
    rows = []
    for title, found, bar in (
        ("published seeds", runs, "97.5 %"),
        ("three seeds for 30 cases", three, "-"),
        ("never tuned on", unseen, "90 %"),
    ):  # fmt: skip
        counted = score.judged(found)
        rows.append((
            title, str(score.share(counted, score.right_worker)), str(score.share(counted, score.right)), bar,
            str(len(score.healthy_named(found))), str(score.share(score.silent(found), score.right)),
            str(sum(not run.measurable and not run.failed for run in found)), str(sum(run.failed for run in found)),
        ))  # fmt: skip
    head = ("seeds", "right worker", "right worker and cause", "bar", "runs that name a healthy worker",
            "silent where silence is right", "not measurable here", "without a verdict")  # fmt: skip
    return Section("How often it is right", (), head, rows)


def _times(runs: Sequence[Run]) -> Section:
    rows = [
        _moments("windows of 20 s", score.alerting(runs, 20.0), "60 s"),
        _moments("windows of 5 s", score.alerting(runs, 5.0), "-"),
        _moments("hangs", score.hangs(runs), "90 s"),
    ]
    text = (
        f"Medians, in seconds from the onset. Training stood still for {_median(runs, 'blocked_seconds', 2)} s to save "
        f"a window, and an iteration took {_percent(_median_of(runs, 'overhead_ratio'))} longer with the plugin than "
        "without it, before the fault (medians; the second is within the noise of the machine).",
    )
    return Section("How long it takes", text, ("runs", "detection", "verdict", "firing", "bar", "longest"), rows)


def _moments(title: str, runs: Sequence[Run], bar: str) -> tuple[str, ...]:
    firing = score.seconds(runs, "firing")
    medians = [score.median(score.seconds(runs, moment)) for moment in ("detection", "verdict", "firing")]
    longest = f"{max(firing):.0f}" if firing else "-"
    return (f"{title} ({len(runs)})", *("-" if one is None else f"{one:.0f}" for one in medians), bar, longest)


def _median_of(runs: Iterable[Run], name: str) -> float | None:
    return score.median([run.line[name] for run in runs if run.line.get(name) is not None])


def _median(runs: Iterable[Run], name: str, digits: int) -> str:
    found = _median_of(runs, name)
    return "-" if found is None else f"{found:.{digits}f}"


def _percent(ratio: float | None) -> str:
    return "-" if ratio is None else f"{ratio:.1%}"


def _by(title: str, runs: Sequence[Run], whole: Iterable[str]) -> Section:
    name = title.split()[-1]
    key = "klass" if name == "class" else name
    total = Counter(whole)
    rows = []
    groups = score.grouped(runs, lambda run: str(getattr(run.case, key)))
    for group in sorted(total):
        found = groups.get(group, [])
        counted = score.counted(found)
        rows.append((
            group, str(total[group]), str(len(found)), str(score.share(counted, score.right_worker)),
            str(score.share(counted, score.right)), _number(score.median(score.seconds(counted, "firing"))),
        ))  # fmt: skip
    return Section(title, (), (name, "cases", "ran", "right worker", "right worker and cause", "s to firing"), rows)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f}"


def _wrong(runs: Sequence[Run]) -> Section:
    wrong = [run for run in runs if run.measurable and not run.right]
    text = ("Every one of them.",) if wrong else ("None of those that have run.",)
    head = ("case", "seed", "expected", "what was said", "explanation")
    rows = [
        (run.case.name, str(run.seed), expected_words(run.line["expected"], run.line["drawn"]),
         run.line["error"] or run.line["named"], run.case.explanation or "not studied yet")
        for run in wrong
    ]  # fmt: skip
    return Section("Wrong", text, head, rows)


def expected_words(expected: Mapping[str, Any], drawn: Mapping[str, Any]) -> str:
    """Return what would have been right."""
    if expected["verdict"] == "silence":
        return "silence"
    causes = " or ".join(expected["causes"])
    if expected["verdict"] == "job":
        return f"the job: {causes}"
    return f"{expected['verdict']}, ranks {', '.join(map(str, drawn['ranks']))}: {causes}"


def effect_words(effect: Mapping[str, Any] | None) -> str:
    """Return an effect for a person."""
    if effect is None:
        return "-"
    found = Effect(**effect)
    if found.ratio is None or found.noises is None:
        return "stands still"
    return f"{found.ratio:+.0%}, {found.noises:.1f} sd"


def _not_measurable(runs: Sequence[Run]) -> Section:
    rows = [
        (run.case.name, run.case.text, effect_words(run.line["effect"]))
        for run in runs
        if not run.measurable and not run.failed
    ]
    text = ("Their effect on the iteration time could not be told from the noise of this machine.",) if rows else (
        "None of those that have run.",)  # fmt: skip
    return Section("Not measurable here", text, ("case", "what is done", "effect"), rows)


def _clean(lines: Sequence[Line]) -> Section:
    by_name = {(line["case"], line["row"]): line for line in ledger.of_kind(lines, "clean") if not line["void"]}
    found = [(case, by_name[key]) for case in jobs() if (key := (case.name, ledger.row_digest(case))) in by_name]
    windows = sum(line["windows"] for _, line in found)
    named = sum(bool(line["named"]) for _, line in found)
    text = (
        f"{len(found)} of {len(jobs())} jobs have run: {windows} windows by hand ({WINDOWS} in each), {named} jobs "
        "with a finding above info or an alert.",
    )
    rows = [
        (case.name, case.workload, str(case.world), str(line["windows"]), str(line["degraded"]),
         "; ".join(line["named"]) or line["error"] or "no finding")
        for case, line in found
    ]  # fmt: skip
    head = ("job", "workload", "ranks", "windows", "degraded windows", "what was said")
    return Section("Clean jobs", text, head, rows)


def _changed(cases: Iterable[Case]) -> Section:
    rows = [(case.name, case.changed) for case in cases if case.changed]
    text = ("" if rows else "None.",)
    return Section("Expectations that were changed, and why", text, ("case", "reason"), rows)


def _peers(lines: Sequence[Line]) -> Section:
    by_key = {(line["peer"], line["case"], line["seed"]): line for line in ledger.of_kind(lines, "peer")}
    rows = []
    for peer in sorted({key[0] for key in by_key}):
        mine = [line for key, line in by_key.items() if key[0] == peer]
        notes = "; ".join(sorted({line["note"] for line in mine if line.get("note")}))
        rows.append((peer, str(len(mine)), str(sum(bool(line["worker"]) for line in mine)), notes))
    text = ("On the same board.",) if rows else ("None has run on this board.",)
    return Section("Others", text, ("tool", "runs", "right worker", "remarks"), rows)


def _all(runs: Sequence[Run]) -> Section:
    head = (
        "case",
        "what is done",
        "workload",
        "ranks hurt",
        "effect",
        "verdict",
        "s to firing",
        "what was said",
        "source",
    )
    rows = []
    for run in runs:
        line = run.line
        word = "failed" if run.failed else "not measurable" if not run.measurable else "right" if run.right else "WRONG"
        firing = line.get("seconds", {}).get("firing")
        hurt = ", ".join(map(str, line["drawn"]["ranks"])) or "nobody"
        rows.append((
            run.case.name, run.case.text, run.case.workload, f"{hurt} of {run.case.world}",
            effect_words(line["effect"]), word, _number(firing), line.get("named") or line["error"] or "-",
            run.case.source,
        ))  # fmt: skip
    return Section("Every run", (), head, rows)


def _made_with(runs: Sequence[Run]) -> list[str]:
    found = Counter((run.line["commit"], run.line["cores"], run.line["torch"]) for run in runs)
    said = [f"{count} runs with commit {commit}, {cores} cores, torch {torch}" for (commit, cores, torch), count
            in found.most_common()]  # fmt: skip
    days = sorted(run.line["when"][:10] for run in runs)
    return [f"{'; '.join(said)}; {days[0]} to {days[-1]}."] if runs else ["Nothing has run yet."]


def pages(lines: Sequence[Line] | None = None, cases: Sequence[Case] = CASES) -> dict[Path, str]:
    """Return the two pages by the files they belong into."""
    found = sections(cases, ledger.read() if lines is None else lines)
    return dict(zip(FILES, (render.markdown(TITLE, found), render.html(TITLE, found)), strict=True))


def write(lines: Sequence[Line] | None = None) -> None:
    """Write both."""
    for file, text in pages(lines).items():
        file.write_text(text, "utf-8")


if __name__ == "__main__":
    write()
