"""What holds for every test: nothing is skipped, nothing stays hooked, and the end-to-end tests run last."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from grafana_api import FakeGrafana

E2E = Path(__file__).parent / "e2e"
LOOP = ("test_loop.py", "test_bad_input.py")
"""The end-to-end tests of the loop on one machine; the others are marked "stack" and take longer."""
SLOW = (
    "test_packaging.py", "test_remotewrite.py", "test_remotewritevec.py", "test_alertmanager.py", "test_rules.py",
    "test_nothing_stays.py", "test_report_browser.py", "test_fault_leftovers.py", "test_fault_network.py",
    "test_dashboards_live.py", "test_fault_mechanisms.py",
)  # fmt: skip
"""What else is marked so, because it builds environments, starts servers or a browser, or needs root."""
BESIDE = (
    "test_hang.py", "test_nodes.py", "test_nodes_shared_store.py", "test_hardware_agent.py", "test_hardware_folder.py",
    "test_hardware_rights.py", "test_joins.py", "test_push.py", "test_findings_sent.py", "test_redact.py",
    "test_control.py", "test_sources.py", "test_readers.py", "test_packaging.py", "test_remotewrite.py",
    "test_remotewritevec.py", "test_alertmanager.py", "test_rules.py", "test_report_browser.py",
    "test_dashboards_live.py",
    "test_routes.py",
    "test_cookbook.py", "test_meter_provider.py",
)  # fmt: skip
"""Of both those that mostly wait; they run beside the others (.ci/lanes). What looks at all our cgroups does not."""
NOT_RUN = ("skipped", "xfailed", "xpassed")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what lies in tests/e2e and move it to the end."""
    for item in items:
        if E2E in item.path.parents:
            item.add_marker(pytest.mark.e2e)
            if item.path.name not in LOOP and item.get_closest_marker("frameworks") is None:
                item.add_marker(pytest.mark.stack)
        elif item.path.name in SLOW:
            item.add_marker(pytest.mark.stack)
        if item.path.name in BESIDE:
            item.add_marker(pytest.mark.beside)
    items.sort(key=lambda item: item.get_closest_marker("e2e") is not None)


def _not_run(config: pytest.Config) -> int:
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    return 0 if reporter is None else sum(len(reporter.stats.get(outcome, ())) for outcome in NOT_RUN)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a run that would be green although it left a test out."""
    if session.exitstatus == pytest.ExitCode.OK and _not_run(session.config):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say why."""
    if count := _not_run(config):
        terminalreporter.write_line(f"{count} not run or expected to fail: this project allows neither", red=True)


def _left_hooked() -> list[str]:
    """Name what is not as torch made it; the look itself imports nothing."""
    left = []
    dataloader = sys.modules.get("torch.utils.data.dataloader")
    if dataloader is not None:
        following = dataloader._BaseDataLoaderIter.__next__
        if type(following) is not FunctionType or following.__code__.co_filename != dataloader.__file__:
            left.append("the input")
    worker = sys.modules.get("torch.utils.data._utils.worker")
    if worker is not None and type(worker._worker_loop) is not FunctionType:
        left.append("the loader's processes")
    optimizer = sys.modules.get("torch.optim.optimizer")
    if optimizer is not None and (optimizer._global_optimizer_pre_hooks or optimizer._global_optimizer_post_hooks):
        left.append("the optimizer step")
    return left


@pytest.fixture(autouse=True)
def _nothing_stays_hooked() -> Iterator[None]:
    """Fail a test after which torch is still hooked."""
    yield
    assert _left_hooked() == [], "still hooked after the test: close the handle of instrument()"


@pytest.fixture
def grafana() -> Iterator[FakeGrafana]:
    """Fail a test that asks Grafana for what its contract does not know."""
    from grafana_api import FakeGrafana  # here, for its imports are no other test's

    server = FakeGrafana()
    yield server
    server.stop()
    assert server.broken == []
