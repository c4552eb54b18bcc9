"""Source `dcgm`: what a running dcgm-exporter says of its GPUs, over HTTP in Prometheus' text format.

Fields and units: etc/default-counters.csv of dcgm-exporter. DCGM says "not there" with numbers near the largest of each
type (dcgm_structs.h: 0x7ffffffffffffff0, 0x7ffffff0 and 2^47, each up to 15 more): they are missing, never values. The
exporter renews its numbers every 30 s unless it is told otherwise (-c 1000), so that this source is for where nothing
else may read the GPU. A page that is the one before was not renewed, and says nothing about now. A reading waits for
the exporter for at most ``timeout_s``.
"""

from __future__ import annotations

import http.client
import math
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families

from eroica_otel.hardware.columns import BACK, key_of
from eroica_otel.hardware.pace import Clock, Pace
from eroica_otel.hardware.source import Resource

URL = "http://localhost:9400/metrics"
INTERVAL_S = 1.0
TIMEOUT_S = 1.0
MOST_BYTES = 4 << 20
BLANKS = (0x7FFFFFFFFFFFFFF0, 0x7FFFFFF0, 1 << 47)
BLANK_CODES = 16
HELD_S = 30.0
"""A page that has not changed for so long is taken again: the GPUs may rest."""


@dataclass(frozen=True, slots=True)
class Field:
    """One DCGM field: resource name, unit and factor of its raw value, peak, whether it only grows."""

    name: str
    unit: str
    factor: float = 1.0
    peak: float = math.nan
    counter: bool = False


MIB = float(1 << 20)
FIELDS = {
    "DCGM_FI_DEV_SM_CLOCK": Field("sm_clock", "MHz"),
    "DCGM_FI_DEV_MEM_CLOCK": Field("mem_clock", "MHz"),
    "DCGM_FI_DEV_GPU_UTIL": Field("gpu_util", "%", peak=100.0),
    "DCGM_FI_DEV_MEM_COPY_UTIL": Field("mem_util", "%", peak=100.0),
    "DCGM_FI_DEV_FB_USED": Field("gpu_memory", "By", MIB),
    "DCGM_FI_DEV_POWER_USAGE": Field("power", "W"),
    "DCGM_FI_DEV_GPU_TEMP": Field("temperature", "Cel"),
    "DCGM_FI_DEV_MEMORY_TEMP": Field("mem_temperature", "Cel"),
    "DCGM_FI_DEV_XID_ERRORS": Field("xid", "1"),
    "DCGM_FI_DEV_PCIE_REPLAY_COUNTER": Field("pcie_replays", "1", counter=True),
    "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL": Field("ecc_corrected", "1", counter=True),
    "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL": Field("ecc_uncorrected", "1", counter=True),
    "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS": Field("remapped_rows_corrected", "1", counter=True),
    "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS": Field("remapped_rows_uncorrected", "1", counter=True),
    "DCGM_FI_PROF_GR_ENGINE_ACTIVE": Field("gr_engine", "1", peak=1.0),
    "DCGM_FI_PROF_SM_ACTIVE": Field("sm", "1", peak=1.0),
    "DCGM_FI_PROF_SM_OCCUPANCY": Field("sm_occupancy", "1", peak=1.0),
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": Field("tensor", "1", peak=1.0),
    "DCGM_FI_PROF_DRAM_ACTIVE": Field("dram", "1", peak=1.0),
    "DCGM_FI_PROF_PCIE_TX_BYTES": Field("pcie_tx", "By/s"),
    "DCGM_FI_PROF_PCIE_RX_BYTES": Field("pcie_rx", "By/s"),
}

PEAKS = {
    "DCGM_FI_DEV_MAX_SM_CLOCK": Field("sm_clock", "MHz"),
    "DCGM_FI_DEV_MAX_MEM_CLOCK": Field("mem_clock", "MHz"),
    "DCGM_FI_DEV_ENFORCED_POWER_LIMIT": Field("power", "W"),
    "DCGM_FI_DEV_FB_TOTAL": Field("gpu_memory", "By", MIB),
}
"""Fields that are the peak of another one; the exporter's own list has none of them."""


def value_of(number: float) -> float:
    """Return the number, NaN for one of DCGM's words for a value that is not there."""
    blank = any(start <= number < start + BLANK_CODES for start in BLANKS)
    # As a double, the largest blanks round up to 2^63.
    return math.nan if blank or number >= 2.0**63 or not math.isfinite(number) else float(number)


def over_http(url: str = URL, timeout_s: float = TIMEOUT_S) -> Callable[[], str]:
    """Return what fetches the exporter's text; it raises OSError or HTTPException."""
    if not url.startswith(("http://", "https://")):
        raise ValueError(f"{url} is no address of a dcgm-exporter: it begins with http:// or https://")

    def fetch() -> str:
        with urllib.request.urlopen(url, timeout=timeout_s) as answer:
            return bytes(answer.read(MOST_BYTES)).decode("utf-8", "replace")

    return fetch


def _device(labels: dict[str, str]) -> str:
    """Return the UUID, for an instance of a GPU (MIG) with the instance's number."""
    gpu = labels.get("UUID") or f"gpu {labels.get('gpu', '')}"
    return f"{gpu}/{labels['GPU_I_ID']}" if labels.get("GPU_I_ID") else gpu


def parse(text: str) -> Iterator[tuple[Resource, float]]:
    """Yield the resources in the text with raw values, NaN for a blank; raises ValueError for another form."""
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    told = ((PEAKS[one.name], one) for one in samples if one.name in PEAKS)
    peaks = {(field.name, _device(one.labels)): value_of(one.value) * field.factor for field, one in told}
    for sample in samples:
        field = FIELDS.get(sample.name.removesuffix("_total"), FIELDS.get(sample.name))
        if field is not None:
            device = _device(sample.labels)
            peak = peaks.get((field.name, device), field.peak)
            yield Resource(field.name, device, field.unit, peak, field.counter), value_of(sample.value) * field.factor


class DcgmSource:
    """The GPUs of one dcgm-exporter, as a source of hardware samples (source.Source)."""

    family = "dcgm"

    def __init__(
        self,
        fetch: Callable[[], str] | None = None,
        interval_s: float = INTERVAL_S,
        clock: Clock = time.monotonic,
    ) -> None:
        self.resources: tuple[Resource, ...] = ()
        self.missing: dict[str, str] = {}
        self._fetch = fetch or over_http()
        self._clock, self._pace = clock, Pace(interval_s, clock)
        self._last: dict[Resource, float] = {}
        self._page, self._taken = "", -math.inf

    def look(self) -> None:
        """Ask the exporter which GPUs and fields it has; never raises. A field that is blank is no resource."""
        self.missing, self._last = {}, {}
        values = self._values(self._text())
        self.resources = tuple(resource for resource, value in values if not math.isnan(value))
        self.missing |= {key_of(each): "DCGM does not support it" for each, value in values if math.isnan(value)}
        if not values:
            self.missing.setdefault(self.family, "the exporter tells of no GPU")

    def read(self) -> list[float]:
        """Return the raw values of all resources, NaN for one that is not there or not due; never raises."""
        nothing = [math.nan] * len(self.resources)
        if not self.resources or not self._pace.begin():
            return nothing
        self.missing = {key: reason for key, reason in self.missing.items() if reason != BACK and key != self.family}
        page = self._text()
        self._pace.end()
        if not self._is_new(page):
            return nothing
        values = {key_of(resource): value for resource, value in self._values(page)}
        return [self._forward(resource, values.get(key_of(resource), math.nan)) for resource in self.resources]

    def _is_new(self, page: str) -> bool:
        now = self._clock()
        if not page or (page == self._page and 0 <= now - self._taken < HELD_S):
            return False
        self._page, self._taken = page, now
        return True

    def _text(self) -> str:
        """Return the exporter's page, "" with the reason in ``missing`` where it gives none."""
        try:
            return self._fetch()
        except urllib.error.HTTPError as error:
            self.missing[self.family] = f"the exporter answers {error.code}"
        except (OSError, http.client.HTTPException) as error:
            self.missing[self.family] = f"the exporter does not answer: {type(error).__name__}"
        return ""

    def _values(self, page: str) -> list[tuple[Resource, float]]:
        """Return what is on a page, each resource once; nothing with the reason where it has another form."""
        try:
            return list(dict(parse(page)).items())
        except ValueError:
            self.missing[self.family] = "the exporter's answer has another form"
            return []

    def _forward(self, resource: Resource, value: float) -> float:
        if not resource.counter or math.isnan(value):
            return value
        last, self._last[resource] = self._last.get(resource, -math.inf), value
        if value >= last:
            return value
        self.missing[key_of(resource)] = BACK
        return math.nan
