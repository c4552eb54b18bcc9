"""Loop oracles: the definitions, one nanosecond at a time, without any of the code that they check."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import groupby, pairwise
from typing import NamedTuple, Protocol

from factories_summarize import Row

CPU_LEVELS = ("compute", "work", "communication", "wait")
GPU_LEVELS = ("compute", "memory", "communication", "host", "python")


class Charges(NamedTuple):
    """Nanoseconds in which each function is charged, and how many each kind and idle got."""

    instants: dict[tuple[str, str], list[int]]
    kinds: dict[str, int]
    idle: int


class Call(NamedTuple):
    """One stretch in which a thread had a stack."""

    stack: int
    start: int
    end: int
    thread: int


class Open(Protocol):
    """What has a thread and lasts."""

    @property
    def start(self) -> int: ...
    @property
    def end(self) -> int: ...
    @property
    def thread(self) -> int: ...


def innermost(rows: Sequence[Open], thread: int, now: int) -> int | None:
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
    stack_of: Callable[[int], tuple[str, bool] | None],
    gc: Sequence[tuple[int, int]],
    calls: Sequence[Call] = (),
) -> Charges:
    """Charge each nanosecond of the window to the functions of the highest level that runs in it.

    ``kind_of`` names the kind of each event name ("" for wrappers and annotations); ``stack_of`` gives a stack's
    identity and whether it waits, None where no frame of the training is in it. ``calls`` are stacks that the trace
    carries itself; they count where there is no sample.
    """
    gpu = any(row.category == "kernel" for row in rows)
    instants: dict[tuple[str, str], list[int]] = defaultdict(list)
    kinds: dict[str, int] = defaultdict(int)
    idle = 0
    for now in range(*window):
        levels = _running(rows, kind_of, now, gpu)
        _add_python(levels, _stacks_at(samples, calls, now), stack_of, gc, now)
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


def _stacks_at(samples: Sequence[tuple[int, int]], calls: Sequence[Call], now: int) -> list[int]:
    if samples:
        found = stack_at(samples, now)
        return [] if found is None else [found]
    tops = [innermost(calls, thread, now) for thread in sorted({call.thread for call in calls})]
    return [calls[top].stack for top in tops if top is not None]


def _add_python(
    levels: dict[str, set[str]],
    stacks: Sequence[int],
    stack_of: Callable[[int], tuple[str, bool] | None],
    gc: Sequence[tuple[int, int]],
    now: int,
) -> None:
    if any(start <= now < end for start, end in gc):
        levels["work"].add("garbage collection")
        return
    for stack in stacks:
        seen = stack_of(stack)
        if seen is not None:
            levels["wait" if seen[1] else "work"].add(seen[0])


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


class Part(NamedTuple):
    """A stretch of time, exactly."""

    start: Fraction
    end: Fraction


class Moments(NamedTuple):
    """Mean and standard deviation of a share; ``sure`` where no other choice of equal parts would give another one."""

    mean: float
    deviation: float
    sure: bool


def rates(times: Sequence[int], counter: Sequence[int], window: tuple[int, int]) -> dict[int, Fraction]:
    """Return the exact rise of a counter in each nanosecond between its first and last sample; never below 0."""
    highest = [max(counter[: place + 1]) for place in range(len(counter))]
    found: dict[int, Fraction] = {}
    for place in range(len(times) - 1):
        begin, end = times[place], times[place + 1]
        for now in range(begin, end):
            if window[0] <= now < window[1]:
                found[now] = Fraction(highest[place + 1] - highest[place], end - begin)
    return found


def runs(instants: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield the stretches [start, end) without a gap."""
    for _, members in groupby(enumerate(sorted(instants)), lambda pair: pair[1] - pair[0]):
        numbers = [now for _, now in members]
        yield numbers[0], numbers[-1] + 1


def least_parts(start: int, end: int, rate: Mapping[int, Fraction], hold: Fraction) -> list[Part]:
    """Return the shortest parts of [start, end) that hold ``hold`` of its use; the whole of it where there is none.

    Every whole nanosecond is tried as the one end, and the other one is walked to.
    """
    wanted = hold * sum(rate[now] for now in range(start, end))
    if not wanted or hold == 1:
        return [Part(Fraction(start), Fraction(end))]
    found = []
    for place in range(start, end + 1):
        forth = _walk(range(place, end), rate, wanted)
        back = _walk(range(place - 1, start - 1, -1), rate, wanted)
        found += [Part(Fraction(place), place + forth)] if forth is not None else []
        found += [Part(place - back, Fraction(place))] if back is not None else []
    least = min(part.end - part.start for part in found)
    return sorted({part for part in found if part.end - part.start == least})


def _walk(way: Sequence[int], rate: Mapping[int, Fraction], wanted: Fraction) -> Fraction | None:
    """Return how long one must walk until ``wanted`` is used; None where the way ends before."""
    used = Fraction(0)
    for steps, now in enumerate(way):
        if used + rate[now] >= wanted:
            return steps + (wanted - used) / rate[now]
        used += rate[now]
    return None


def moments(instants: Sequence[int], rate: Mapping[int, Fraction], hold: Fraction) -> Moments | None:
    """Return mean and deviation of the rate over the least part of each stretch, pooled by time; None unsampled."""
    least = [least_parts(start, end, rate, hold) for start, end in runs([now for now in instants if now in rate])]
    length = total = squared = Fraction(0)
    for part in (parts[0] for parts in least):
        for now in range(int(part.start), int(part.end) + 1):
            weight = min(part.end, Fraction(now + 1)) - max(part.start, Fraction(now))
            if weight > 0:
                length, total, squared = length + weight, total + weight * rate[now], squared + weight * rate[now] ** 2
    if not length:
        return None
    mean = total / length
    sure = all(len(parts) == 1 for parts in least)
    return Moments(min(float(mean), 1.0), float(squared / length - mean**2) ** 0.5, sure)


def noise(instants: Sequence[int], borders: Sequence[int], parts: int = 8) -> float | None:
    """Return the deviation (n - 1) of nanoseconds per iteration over ``parts`` equal numbers of iterations."""
    each, rest = divmod(len(borders) - 1, parts)
    assert not rest, "only even divisions are defined here"
    if each < 2:
        return None
    cuts = borders[::each]
    inside = [sum(low <= now < high for now in instants) for low, high in pairwise(cuts)]
    return statistics.stdev(count / each for count in inside)


def quantile(values: Sequence[float], share: float) -> float:
    """Return the value at ``share`` of the way through the sorted values, even between two of them."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low = int(place)
    return ordered[low] + (place - low) * (ordered[min(low + 1, len(ordered) - 1)] - ordered[low])
