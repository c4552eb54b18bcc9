"""Unmodified trainings under opentelemetry-instrument, with the wheel: who is watched, and nothing doubles."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import zerocode
from eroica_otel import names
from eroica_otel.demo.stage import free_port
from eroica_otel.model import Point
from factories_worker import Endpoint
from jobs import scrape, wait_until

PLAIN = str(Path(__file__).parent / "plain.py")
TORCHRUN = ("torchrun", "--standalone", "--nproc-per-node", "2")


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return zerocode.environment(tmp_path_factory.mktemp("zerocode"))


def opened() -> Iterator[Endpoint]:
    made = Endpoint()
    yield made
    made.close()


endpoint = pytest.fixture(opened, name="endpoint")
written = pytest.fixture(opened, name="written")  # by remote write


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(
            (*TORCHRUN, "--no-python", "opentelemetry-instrument", "python", PLAIN),
            marks=pytest.mark.long,
            id="ranks alone",
        ),
        pytest.param(("opentelemetry-instrument", *TORCHRUN, PLAIN), id="launcher too"),
    ],
)
def test_each_rank_is_watched_once_and_the_launcher_is_not(
    command: tuple[str, ...], commands: Path, endpoint: Endpoint, tmp_path: Path
) -> None:
    """opentelemetry-distro makes gRPC the protocol; the endpoint speaks HTTP, which is what the user has asked for."""
    done = zerocode.run(commands, endpoint, tmp_path, *command, "--epochs", "6")
    assert done.stdout.count("steps 60") == 2
    found = zerocode.senders(endpoint)
    assert [(instance, most) for instance, _, most in found] == [("rank-0", 60.0), ("rank-1", 60.0)]


def scraped(port: int, training: Future[Any]) -> list[str]:
    """Return the rank of each count of iterations on the page at ``port``, as soon as one is there."""
    page: list[Point] = []

    def there() -> bool:
        page[:] = [point for point in scrape(port) if point.name == names.ITERATIONS.name]
        return page != [] or training.done()

    wait_until(there, "the page", 200.0)  # as long as the training may take
    return [point.labels["rank"] for point in page]


@pytest.mark.long
def test_forks_of_loader_workers_neither_hang_nor_send(
    commands: Path, endpoint: Endpoint, written: Endpoint, tmp_path: Path
) -> None:
    """1,000 forks; every delivery is on, and the reference window is taken meanwhile."""
    port = free_port()
    settings = {
        "EROICA_DELIVERIES": "otlp,prometheus,remote_write",
        "EROICA_REMOTE_WRITE_URL": written.url,
        "OTEL_EXPORTER_PROMETHEUS_PORT": str(port),
        "EROICA_REFERENCE": "1",
        "EROICA_WINDOW_SECONDS": "5",
    }
    more = ("--epochs", "250", "--steps", "4", "--workers", "4", "--pause", "0")
    command = ("opentelemetry-instrument", "python", PLAIN, *more)
    with ThreadPoolExecutor() as beside:
        training = beside.submit(zerocode.run, commands, endpoint, tmp_path, *command, **settings)
        ranks = scraped(port, training)
        done = training.result()
    assert "steps 1000" in done.stdout
    assert ranks == ["0"]
    assert [(instance, most) for instance, _, most in zerocode.senders(endpoint)] == [("rank-0", 1000.0)]
    assert zerocode.windows(endpoint) == {"reference"}
    ((identity, samples),) = zerocode.counted(written.bodies).items()
    assert identity[0] == "plain"
    assert identity[2] == "0"
    assert all(before < after for (before, _), (after, _) in pairwise(samples)), "two samples at one time"
    assert [most for _, most in samples] == sorted(most for _, most in samples)
    assert samples[-1][1] == 1000.0


def test_the_standard_switch_turns_it_off(commands: Path, endpoint: Endpoint, tmp_path: Path) -> None:
    off = {"OTEL_PYTHON_DISABLED_INSTRUMENTATIONS": "eroica"}
    code = "import sys, torch.optim; print('eroica_otel' in sys.modules)"
    program = ("opentelemetry-instrument", "python", "-c", code)
    assert zerocode.run(commands, endpoint, tmp_path, *program, **off).stdout == "False\n"
    assert zerocode.run(commands, endpoint, tmp_path, *program).stdout == "True\n"


def test_remote_write_does_not_keep_the_loader_from_attaching(
    commands: Path, endpoint: Endpoint, tmp_path: Path
) -> None:
    code = "import eroica_otel; print(len(eroica_otel.plugin._ACTIVE))"
    asked = {"OTEL_METRICS_EXPORTER": "remote_write", "EROICA_REMOTE_WRITE_URL": "http://127.0.0.1:1/write"}
    done = zerocode.run(commands, endpoint, tmp_path, "opentelemetry-instrument", "python", "-c", code, **asked)
    assert done.stdout == "1\n", done.stderr
