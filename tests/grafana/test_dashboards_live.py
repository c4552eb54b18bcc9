"""Every query of every panel, annotation and variable in a real Prometheus, fed by the real exporters and by nobody."""

from __future__ import annotations

import urllib.parse
from collections.abc import Iterator
from typing import Any

import pytest

from backfill import BEGIN, END
from boardscene import apply_rules, chosen, fill
from dashboards import UIDS, Asked, all_queries, filled_in, variables
from servers import Server, prometheus

COLLECTIVE = ("Peak of the link", "Fastest calls of the collective")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("boards")
    fill(folder)
    with prometheus(folder) as running:
        apply_rules(running)
        yield running


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with prometheus(tmp_path_factory.mktemp("empty")) as running:
        yield running


def text_of(asked: Asked) -> str:
    function = {"function": "all_reduce"} if asked.panel in COLLECTIVE else {}
    return filled_in(asked.expr, **chosen(**function))


def answer(server: Server, asked: Asked) -> list[dict[str, Any]]:
    """Return the series of a query, at the end of the ten minutes or over all of them."""
    if asked.instant:
        kind, when = "query", {"time": str(END)}
    else:
        kind, when = "query_range", {"start": str(BEGIN), "end": str(END), "step": "15"}
    given = urllib.parse.urlencode({"query": text_of(asked)} | when)
    return list(server.get(f"/api/v1/{kind}?{given}")["data"]["result"])


@pytest.mark.parametrize("asked", all_queries(), ids=str)
def test_a_query_finds_series_with_the_labels_that_its_panel_names(asked: Asked, server: Server) -> None:
    found = answer(server, asked)
    assert found, text_of(asked)
    for row in found:
        missing = asked.legend - set(row["metric"])
        # An annotation is about a worker or about the whole job.
        assert not missing or asked.letter == "", (missing, row["metric"])


@pytest.mark.parametrize("uid", UIDS)
def test_every_column_is_a_label_of_one_of_the_queries(uid: str, server: Server) -> None:
    tables: dict[str, list[Asked]] = {}
    for asked in all_queries():
        if asked.board == uid and asked.table:
            tables.setdefault(asked.panel, []).append(asked)
    for title, of_panel in tables.items():
        labels = {name for asked in of_panel for row in answer(server, asked) for name in row["metric"]}
        # Of a worker the empty labels are not there: no link, no PCI address.
        assert of_panel[0].table - labels <= {"link", "pci_bus_id"}, title


@pytest.mark.parametrize("uid", UIDS)
def test_every_variable_has_values(uid: str, server: Server) -> None:
    for name, selector, label in variables(uid):
        asked = urllib.parse.urlencode({"match[]": filled_in(selector, **chosen()), "start": BEGIN, "end": END})
        assert server.get(f"/api/v1/label/{label}/values?{asked}")["data"], (name, selector)


@pytest.mark.parametrize("asked", all_queries(), ids=str)
def test_where_nothing_is_scraped_there_is_nothing_and_no_error(asked: Asked, empty: Server) -> None:
    assert answer(empty, asked) == []
