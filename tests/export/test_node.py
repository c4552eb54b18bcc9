"""One port for a node: all pages in one, whoever lives, nobody twice, and a holder that goes is replaced."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, Gauge, Histogram, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from eroica_otel.demo.stage import free_port
from eroica_otel.export import node
from eroica_otel.export.node import NodePage, merged, pages
from eroica_otel.status import PAGE_FILE
from jobs import scrape, wait_until


def registry(rank: int, name: str = "eroica_up") -> CollectorRegistry:
    made = CollectorRegistry()
    Gauge(name, "One of a worker.", ["rank"], registry=made).labels(rank=str(rank)).set(rank)
    Histogram("eroica_time", "A histogram.", ["rank"], registry=made, buckets=(1, 2)).labels(rank=str(rank)).observe(
        rank
    )
    return made


class Node:
    """Workers of one node, each with a folder and a page."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.port = free_port()
        self.failures: list[str] = []
        self.pages: dict[int, NodePage] = {}

    def add(self, rank: int) -> NodePage:
        folder = self.directory / f"pid-{rank}"
        folder.mkdir(parents=True)
        page = NodePage(registry(rank), folder, "127.0.0.1", self.port, self.failures.append)
        page.start(first=rank == 0)
        self.pages[rank] = page
        return page

    def ranks(self) -> list[str]:
        return sorted(point.labels["rank"] for point in scrape(self.port) if point.name == "eroica_up")


@pytest.fixture
def workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Node]:
    monkeypatch.setattr(node, "GRACE_SECONDS", 0.05)
    monkeypatch.setattr(node, "RETRY_SECONDS", 0.05)
    monkeypatch.setattr(NodePage, "_held_by_sibling", lambda page: True)
    made = Node(tmp_path / "workers")
    yield made
    for page in made.pages.values():
        page.stop()


def test_one_port_shows_all_workers_and_one_that_comes_late(workers: Node) -> None:
    workers.add(0)
    workers.add(1)
    wait_until(lambda: workers.ranks() == ["0", "1"], "two workers")
    workers.add(2)
    assert workers.ranks() == ["0", "1", "2"]


def test_a_worker_that_ends_is_not_shown_any_more(workers: Node) -> None:
    for rank in range(3):
        workers.add(rank)
    wait_until(lambda: workers.ranks() == ["0", "1", "2"], "three workers")
    workers.pages.pop(1).stop()
    assert workers.ranks() == ["0", "2"]


def test_a_holder_that_ends_is_replaced(workers: Node) -> None:
    workers.add(0)
    workers.add(1)
    wait_until(lambda: workers.ranks() == ["0", "1"], "two workers")
    workers.pages.pop(0).stop()
    wait_until(lambda: workers.ranks() == ["1"], "the other to take the port")
    assert workers.failures == []


def test_what_a_killed_helper_left_is_passed_over_and_taken_over(workers: Node) -> None:
    folder = workers.directory / "pid-7"
    folder.mkdir(parents=True)
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(folder / PAGE_FILE))
    assert pages(workers.directory) == []
    made = NodePage(registry(7), folder, "127.0.0.1", workers.port, workers.failures.append)
    made.start(first=True)
    workers.pages[7] = made
    wait_until(lambda: workers.ranks() == ["7"], "the worker's own page")


def test_a_worker_whose_helper_does_not_answer_is_left_out(workers: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node, "PAGE_SECONDS", 0.2)
    workers.add(0)
    folder = workers.directory / "pid-9"
    folder.mkdir()
    with socket.socket(socket.AF_UNIX) as mute:
        mute.bind(str(folder / PAGE_FILE))
        mute.listen()
        wait_until(lambda: workers.ranks() == ["0"], "the worker that answers")


def test_a_folder_may_lie_deeper_than_a_sockets_address_is_long(workers: Node) -> None:
    workers.directory = workers.directory / ("x" * 100) / ("y" * 100)
    workers.add(0)
    wait_until(lambda: workers.ranks() == ["0"], "the worker")


def test_a_port_that_somebody_else_holds_is_told_once_with_the_remedy(
    workers: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(node, "RETRY_SECONDS", 0.01)
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        workers.port = other.getsockname()[1]
        page = workers.add(0)
        wait_until(lambda: bool(workers.failures), "the complaint")
        page._try()
    (text,) = workers.failures
    assert f"port {workers.port} on 127.0.0.1 is taken by " in text
    assert "set OTEL_EXPORTER_PROMETHEUS_PORT to a free range" in text


@pytest.mark.parametrize(("siblings", "told"), [((False, True, False), 0), ((False, False, False), 1)])
def test_a_holder_that_ends_while_it_is_looked_for_is_no_stranger(
    workers: Node, monkeypatch: pytest.MonkeyPatch, siblings: tuple[bool, ...], told: int
) -> None:
    looks = iter(siblings)
    monkeypatch.setattr(NodePage, "_held_by_sibling", lambda page: next(looks))
    (workers.directory / "pid-0").mkdir(parents=True)
    with socket.create_server(("127.0.0.1", workers.port)):
        page = NodePage(registry(0), workers.directory / "pid-0", "127.0.0.1", workers.port, workers.failures.append)
        for _ in siblings:
            page._try()
    page._own.server_close()
    assert len(workers.failures) == told


def test_pages_are_merged_family_by_family() -> None:
    one, two = generate_latest(registry(0)), generate_latest(registry(1, "eroica_other"))
    text = merged([one, b"", two, generate_latest(registry(2))]).decode()
    assert text.count("# HELP eroica_time ") == text.count("# TYPE eroica_time ") == 1
    families = {family.name: family for family in text_string_to_metric_families(text)}
    assert [sample.labels["rank"] for sample in families["eroica_up"].samples] == ["0", "2"]
    assert [sample.labels["rank"] for sample in families["eroica_other"].samples] == ["1"]
    assert {sample.labels["rank"] for sample in families["eroica_time"].samples} == {"0", "1", "2"}
    assert merged([one]) == one
