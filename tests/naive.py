"""Loop oracles: the definitions, one nanosecond at a time, without any of the code that they check."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from factories_summarize import Row

CPU_LEVELS = ("compute", "work", "communication", "wait")
GPU_LEVELS = ("compute", "memory", "communication", "host", "python")


class Charges(NamedTuple):
    """Nanoseconds in which each function is charged, and how many each kind and idle got."""

    instants: dict[tuple[str, str], list[int]]
    kinds: dict[str, int]
    idle: int


def innermost(rows: Sequence[Row], thread: int, now: int) -> int | None:
    """Return the index of the row that started last of those open on the thread; the shorter, then the later wins."""
    open_rows = [i for i, row in enumerate(rows) if row.thread == thread and row.start <= now < row.end]
    return max(open_rows, key=lambda i: (rows[i].start, -rows[i].end, i), default=None)


def stack_at(samples: Sequence[tuple[int, int]], now: int) -> int | None:
    """Return the stack of the first sample after ``now``, else that of the last sample."""
    later = [stack for time, stack in samples if time > now]
    if later:
        return later[0]
    return samples[-1][1] if samples else None


def charge(
    rows: Sequence[Row],
    kind_of: Mapping[str, str],
    window: tuple[int, int],
    samples: Sequence[tuple[int, int]],
    stack_of: Callable[[int], tuple[str, bool]],
    gc: Sequence[tuple[int, int]],
) -> Charges:
    """Charge each nanosecond of the window to the functions of the highest level that runs in it.

    ``kind_of`` names the kind of each event name ("" for wrappers and annotations); ``stack_of`` gives a stack's
    identity and whether it waits.
    """
    gpu = any(row.category == "kernel" for row in rows)
    instants: dict[tuple[str, str], list[int]] = defaultdict(list)
    kinds: dict[str, int] = defaultdict(int)
    idle = 0
    for now in range(*window):
        levels = _running(rows, kind_of, now, gpu)
        _add_python(levels, samples, stack_of, gc, now)
        if gpu:
            levels["python"] = levels["work"] | levels["wait"]
        level = next((name for name in (GPU_LEVELS if gpu else CPU_LEVELS) if levels[name]), None)
        if level is None:
            idle += 1
            continue
        kind = "python" if level in ("work", "wait") else level
        kinds[kind] += 1
        for function in levels[level]:
            instants[kind, function].append(now)
    return Charges(dict(instants), dict(kinds), idle)


def _running(rows: Sequence[Row], kind_of: Mapping[str, str], now: int, gpu: bool) -> dict[str, set[str]]:
    levels: dict[str, set[str]] = defaultdict(set)
    stacked = [row for row in rows if row.category in ("cpu_op", "user_annotation")]
    for row in rows:
        kind = kind_of[row.name]
        if row.start <= now < row.end and kind and (row not in stacked or kind == "communication"):
            levels[kind].add(row.name)
    if not gpu:
        for thread in {row.thread for row in stacked}:
            top = innermost(stacked, thread, now)
            if top is not None and kind_of[stacked[top].name] == "compute":
                levels["compute"].add(stacked[top].name)
    return levels


def _add_python(
    levels: dict[str, set[str]],
    samples: Sequence[tuple[int, int]],
    stack_of: Callable[[int], tuple[str, bool]],
    gc: Sequence[tuple[int, int]],
    now: int,
) -> None:
    if any(start <= now < end for start, end in gc):
        levels["work"].add("garbage collection")
        return
    stack = stack_at(samples, now)
    if stack is not None:
        name, waits = stack_of(stack)
        levels["wait" if waits else "work"].add(name)


def shares(times: Sequence[int], used: Sequence[int], window: tuple[int, int]) -> dict[int, float]:
    """Return the share of the peak in use in each nanosecond between the first and the last sample."""
    found: dict[int, float] = {}
    for (begin, low), (end, high) in zip(
        zip(times[:-1], used[:-1], strict=True), zip(times[1:], used[1:], strict=True), strict=True
    ):
        for now in range(begin, end):
            if window[0] <= now < window[1]:
                found[now] = (high - low) / (end - begin)
    return found


def mean_and_deviation(instants: Sequence[int], share: Mapping[int, float]) -> tuple[float, float] | None:
    """Return mean and standard deviation of the share over the sampled ones of ``instants``."""
    values = [share[now] for now in instants if now in share]
    if not values:
        return None
    mean = sum(values) / len(values)
    return mean, (sum((value - mean) ** 2 for value in values) / len(values)) ** 0.5


def shortest_part(use_at: Callable[[float], float], start: float, end: float, hold: float, grid: float) -> float:
    """Return the length of the shortest part [x, y) on a grid that holds ``hold`` of the use in [start, end)."""
    steps = round((end - start) / grid)
    points = [start + step * grid for step in range(steps + 1)]
    use = [use_at(point) for point in points]
    wanted = hold * (use[-1] - use[0]) - 1e-9
    best = steps
    high = 0
    for low in range(steps + 1):
        while high <= steps and use[high] - use[low] < wanted:
            high += 1
        if high > steps:
            break
        best = min(best, high - low)
    return best * grid
