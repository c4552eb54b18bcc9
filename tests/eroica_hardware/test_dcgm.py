"""GPUs through a dcgm-exporter: its own sample, blanks of every type, answers of another form, exporters that go."""

from __future__ import annotations

import math
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from eroica_hardware.dcgm import DcgmSource, over_http, value_of
from factories_hardware import Turned, known, peaks, reading

SAMPLES = Path(__file__).parent.parent / "golden" / "dcgm"
UUID = "GPU-604ac76c-d9cf-fef3-62e9-d92044ab6e52"


class Exporter:
    """A dcgm-exporter whose text a test sets."""

    def __init__(self, text: str) -> None:
        self.text: str | OSError = text
        self.asked = 0

    def __call__(self) -> str:
        self.asked += 1
        if isinstance(self.text, OSError):
            raise self.text
        return self.text


def line(field: str, value: float, uuid: str = "GPU-a", more: str = "") -> str:
    return f'{field}{{gpu="0",UUID="{uuid}",pod=""{more}}} {value}\n'


def source_of(exporter: Exporter, clock: Turned | None = None) -> DcgmSource:
    source = DcgmSource(exporter, clock=clock or Turned())
    source.look()
    return source


@pytest.mark.parametrize("name", ["README-k8s-output.prom", "README-quickstart-output.prom"])
def test_the_exporters_own_sample(name: str) -> None:
    """Its memory temperature is 9223372036854775794, DCGM's word for not supported."""
    source = source_of(Exporter((SAMPLES / name).read_text()))
    assert reading(source) == {f"{UUID} sm_clock": 139, f"{UUID} mem_clock": 405}
    assert source.missing == {f"{UUID} mem_temperature": "DCGM does not support it"}


@pytest.mark.parametrize("start", [2**63 - 16, 2**31 - 16, 2**47])
@pytest.mark.parametrize("code", [0, 1, 2, 3])
def test_blanks_of_every_type_are_missing(start: int, code: int) -> None:
    assert math.isnan(value_of(start + code))
    assert math.isnan(value_of(float(start + code)))


@pytest.mark.parametrize("value", [0.0, 1.0, 2.0**31, 2.0**47 - 1, 2.0**47 + 16, 2.0**62])
def test_other_large_numbers_are_values(value: float) -> None:
    assert value_of(value) == value


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_no_number_is_missing(value: float) -> None:
    assert math.isnan(value_of(value))


def test_activity_is_a_share_and_memory_is_in_bytes() -> None:
    text = line("DCGM_FI_PROF_DRAM_ACTIVE", 0.25) + line("DCGM_FI_DEV_FB_USED", 3) + line("DCGM_FI_OTHER", 1)
    source = source_of(Exporter(text))
    assert reading(source) == {"GPU-a dram": 0.25, "GPU-a gpu_memory": 3 << 20}
    assert peaks(source)["GPU-a dram"] == 1


def test_instances_of_a_gpu_are_devices_of_their_own() -> None:
    text = line("DCGM_FI_DEV_SM_CLOCK", 1) + line("DCGM_FI_DEV_SM_CLOCK", 2, more=',GPU_I_ID="7"')
    assert reading(source_of(Exporter(text))) == {"GPU-a sm_clock": 1, "GPU-a/7 sm_clock": 2}


def test_a_field_that_becomes_blank_and_a_gpu_that_is_no_longer_told_of() -> None:
    exporter, clock = Exporter(line("DCGM_FI_DEV_SM_CLOCK", 1) + line("DCGM_FI_DEV_SM_CLOCK", 2, "GPU-b")), Turned()
    source = source_of(exporter, clock)
    exporter.text = line("DCGM_FI_DEV_SM_CLOCK", 2**63 - 14)
    assert known(reading(source)) == {}
    assert len(source.resources) == 2


def test_a_counter_that_goes_back() -> None:
    exporter, clock = Exporter(line("DCGM_FI_DEV_PCIE_REPLAY_COUNTER", 9)), Turned()
    source = source_of(exporter, clock)
    assert reading(source) == {"GPU-a pcie_replays": 9}
    exporter.text = line("DCGM_FI_DEV_PCIE_REPLAY_COUNTER", 1)
    clock.now += 1
    assert known(reading(source)) == {}
    assert source.missing == {"GPU-a pcie_replays": "the counter went back"}
    exporter.text = line("DCGM_FI_DEV_PCIE_REPLAY_COUNTER", 2)
    clock.now += 1
    assert reading(source) == {"GPU-a pcie_replays": 2}
    assert source.missing == {}


def test_the_exporter_is_asked_once_a_second() -> None:
    exporter, clock = Exporter(line("DCGM_FI_DEV_SM_CLOCK", 1)), Turned()
    source = source_of(exporter, clock)
    for _ in range(200):
        reading(source)
        clock.now += 0.0101
    assert exporter.asked == 3


def test_a_page_that_was_not_renewed_says_nothing_about_now_for_half_a_minute() -> None:
    """The exporter renews its page after 10 s, and then no more; it is asked every second for 60 s."""
    exporter, clock = Exporter(line("DCGM_FI_PROF_DRAM_ACTIVE", 0.25)), Turned()
    source = source_of(exporter, clock)
    seen = {}
    for second in range(60):
        if second == 10:
            exporter.text = line("DCGM_FI_PROF_DRAM_ACTIVE", 0.5)
        if found := known(reading(source)):
            seen[second] = found["GPU-a dram"]
        clock.now += 1
    assert seen == {0: 0.25, 10: 0.5, 40: 0.5}


def test_clocks_power_and_memory_have_the_peaks_that_the_exporter_tells() -> None:
    text = line("DCGM_FI_DEV_SM_CLOCK", 990) + line("DCGM_FI_DEV_MAX_SM_CLOCK", 1980)
    text += line("DCGM_FI_DEV_SM_CLOCK", 990, "GPU-b") + line("DCGM_FI_DEV_MAX_SM_CLOCK", 2**63 - 14, "GPU-b")
    text += line("DCGM_FI_DEV_POWER_USAGE", 350) + line("DCGM_FI_DEV_ENFORCED_POWER_LIMIT", 700)
    text += line("DCGM_FI_DEV_FB_USED", 1) + line("DCGM_FI_DEV_FB_TOTAL", 4)
    source = source_of(Exporter(text))
    most = peaks(source)
    assert math.isnan(most.pop("GPU-b sm_clock"))  # blank
    assert most == {"GPU-a sm_clock": 1980, "GPU-a power": 700, "GPU-a gpu_memory": 4 << 20}
    assert reading(source)["GPU-a sm_clock"] == 990


def test_a_limit_that_changes_takes_no_value_away() -> None:
    exporter = Exporter(line("DCGM_FI_DEV_POWER_USAGE", 350) + line("DCGM_FI_DEV_ENFORCED_POWER_LIMIT", 700))
    source = source_of(exporter)
    exporter.text = line("DCGM_FI_DEV_POWER_USAGE", 300) + line("DCGM_FI_DEV_ENFORCED_POWER_LIMIT", 500)
    assert reading(source) == {"GPU-a power": 300}
    source.look()
    assert peaks(source) == {"GPU-a power": 500}


@pytest.mark.parametrize("text", ["<html>", 'DCGM_FI_DEV_SM_CLOCK{gpu="0"', "DCGM_FI_DEV_SM_CLOCK{} many", "\0"])
def test_an_answer_of_another_form_is_missing(text: str) -> None:
    source = source_of(Exporter(text))
    assert (source.resources, list(source.missing)) == ((), ["dcgm"])


def test_an_exporter_without_gpus() -> None:
    assert source_of(Exporter("")).missing == {"dcgm": "the exporter tells of no GPU"}


def test_an_exporter_that_goes_and_comes_back() -> None:
    exporter, clock = Exporter(line("DCGM_FI_DEV_SM_CLOCK", 1)), Turned()
    source = source_of(exporter, clock)
    exporter.text = ConnectionRefusedError()
    assert known(reading(source)) == {}
    assert source.missing == {"dcgm": "the exporter does not answer: ConnectionRefusedError"}
    exporter.text = line("DCGM_FI_DEV_SM_CLOCK", 1)
    clock.now += 1
    assert reading(source) == {"GPU-a sm_clock": 1}
    assert source.missing == {}


class Page(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        status = 200 if self.path == "/metrics" else 404
        self.send_response(status)
        self.end_headers()
        self.wfile.write(line("DCGM_FI_DEV_SM_CLOCK", 1980).encode())

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


def test_over_http_found_not_found_and_gone() -> None:
    with HTTPServer(("127.0.0.1", 0), Page) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            address = f"http://127.0.0.1:{server.server_port}"
            found, lost = (DcgmSource(over_http(f"{address}/{page}")) for page in ("metrics", "other"))
            found.look()
            lost.look()
            assert reading(found) == {"GPU-a sm_clock": 1980}
            assert lost.missing == {"dcgm": "the exporter answers 404"}
        finally:
            server.shutdown()
            thread.join()
    found.look()
    assert (found.resources, list(found.read())) == ((), [])
    assert found.missing["dcgm"].startswith("the exporter does not answer")


@pytest.mark.parametrize("url", ["file:///etc/passwd", "localhost:9400"])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="no address of a dcgm-exporter"):
        over_http(url)
