"""What the demo tells: news at once, the same again only after five seconds."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import cast

from eroica_otel import names
from eroica_otel.demo.stage import Stage
from eroica_otel.demo.story import Story, states
from eroica_otel.model import Identity, Point
from eroica_otel.status import Status


def status(rank: int, state: str = "healthy", **fields: object) -> Status:
    made = Status(identity=Identity("demo", rank, "node-a", world_size=4), pid=100 + rank, state=state)
    return replace(made, **fields)  # type: ignore[arg-type]


@dataclass
class Scene:
    """Stands for the stage: what the ranks and the localizer show."""

    ranks: list[Status] = field(default_factory=list)
    seen: int = 0

    def workers(self) -> list[Status]:
        return self.ranks

    def series(self) -> list[Point]:
        return [Point(names.LOCALIZER_SEEN.name, {}, float(self.seen))]


def test_equal_states_are_one_word_and_different_ones_name_their_ranks() -> None:
    assert states([status(0), status(1)]) == "2 ranks healthy"
    assert states([status(0), status(1, "degraded"), status(2)]) == "rank 0 2 healthy, rank 1 degraded"


def test_news_is_told_at_once_and_the_rest_every_five_seconds() -> None:
    scene, now = Scene(), [0.0]
    told: list[str] = []
    story = Story(cast(Stage, scene), told.append, clock=lambda: now[0])
    for second, ranks in enumerate([[], [], [status(0, "learning")], [status(0)], [status(0)]]):
        now[0], scene.ranks = float(second), ranks
        story.tell()
    assert [line.split("] ")[1].split(";")[0].strip() for line in told] == [
        "starting 4 training processes",
        "1 ranks learning",
        "1 ranks healthy",
    ]
    now[0] = 8.0
    story.tell()
    assert len(told) == 4


def test_patterns_are_counted_while_they_arrive() -> None:
    scene, now = Scene([status(0)]), [0.0]
    told: list[str] = []
    story = Story(cast(Stage, scene), told.append, clock=lambda: now[0])
    for second, seen in enumerate([0, 1, 4, 4, 4]):
        now[0], scene.seen = 10.0 * second, seen
        story.tell()
    assert [line.partition("patterns received ")[2][:3] for line in told] == ["", "1/4", "4/4", "", ""]
