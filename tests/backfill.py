"""Pages of exporters as a Prometheus would have them after some minutes: real samples, which may grow, as a block.

Takes the text of /metrics pages with the labels of their scrape targets, gives a data folder for servers.prometheus.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from alert_rules import run
from eroica_otel.model import Point

BEGIN = 1_764_424_800
"""Unix time of the first sample: a multiple of 2 h, so that all lie in one block."""
STEP_SECONDS, STEPS = 15, 40
END = BEGIN + STEP_SECONDS * STEPS
_SAMPLE = re.compile(r"(?P<series>(?P<name>\w+)(?:\{(?P<labels>.*)\})?) (?P<value>\S+)")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True)
class Page:
    """One target.

    Attributes:
        text: What it serves.
        target: Labels that scraping adds.
        changed: Values that are others than in the text, by the series as it stands there.
        growth: What a series gains per second.
    """

    text: str
    target: Mapping[str, str]
    changed: Mapping[str, float] = field(default_factory=dict)
    growth: Mapping[str, float] = field(default_factory=dict)

    def lines(self) -> Iterator[str]:
        """Yield its samples in OpenMetrics; raises AssertionError where a series to change is not in the text."""
        unused = {*self.changed, *self.growth}
        for line in self.text.splitlines():
            found = _SAMPLE.fullmatch(line)
            if found is None:
                assert not line or line.startswith("#"), line
                continue
            own = found["series"]
            unused.discard(own)
            start, slope = self.changed.get(own, float(found["value"])), self.growth.get(own, 0.0)
            series = found["name"] + _braced(self._labels(found["labels"] or ""))
            for step in range(STEPS + 1):
                yield f"{series} {start + slope * step * STEP_SECONDS!r} {BEGIN + step * STEP_SECONDS}"
        assert not unused, f"not on the page: {unused}"

    def _labels(self, text: str) -> dict[str, str]:
        """Return the labels after the scrape: the target's win, and a page's own of that name becomes "exported_"."""
        own = {f"exported_{name}" if name in self.target else name: value for name, value in _LABEL.findall(text)}
        return {name: value for name, value in (own | dict(self.target)).items() if value}


def page_of(points: Sequence[Point]) -> str:
    """Return points as the text of a page; our labels hold nothing that would have to be escaped."""
    return "\n".join(f"{point.name}{_braced(point.labels)} {point.value!r}" for point in points)


def backfill(folder: Path, pages: Sequence[Page]) -> None:
    """Write the block of these pages into ``folder``/data."""
    folder.mkdir(parents=True, exist_ok=True)
    text = folder / "samples.om"
    text.write_text("\n".join([*(line for page in pages for line in page.lines()), "# EOF", ""]))
    run("promtool", "tsdb", "create-blocks-from", "openmetrics", text, folder / "data")


def _braced(labels: Mapping[str, str]) -> str:
    return "{" + ",".join(f'{name}="{value}"' for name, value in labels.items()) + "}"
