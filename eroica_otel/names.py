"""Every series: its name, type, unit, labels and help text. Nothing else in the project spells a metric name twice.

``Metric.name`` is what Prometheus shows; ``Metric.instrument`` is the OpenTelemetry name. The unit's word stands in
both: every translator (Python pull exporter, Collector, Prometheus 3) adds a unit only where it is missing, and one
dot alone keeps an instrument from being the namespace of another.
"""

from __future__ import annotations

from dataclasses import dataclass

IDENTITY = ("training_job", "team", "rank", "host", "role")
"""Labels of every data point that belongs to one worker."""

JOB = ("training_job", "team")
FUNCTION = ("function_id", "function", "kind")

GAUGE, COUNTER, HISTOGRAM = "gauge", "counter", "histogram"
WORKER, LOCALIZER, LAYOUT = "worker", "localizer", "layout"


@dataclass(frozen=True, slots=True)
class Metric:
    """One series family.

    Attributes:
        instrument: OpenTelemetry instrument name.
        unit: UCUM unit; "" where the Python exporter must not add a suffix.
        type: GAUGE, COUNTER or HISTOGRAM.
        labels: Exact label names on each sample ("le" of histograms apart).
        help: One sentence with the unit and the range.
        component: WORKER (the helper exports it), LOCALIZER, or LAYOUT (a worker's in layout vec).
        cpu_job: True where a healthy CPU job with one reference window must show it.
    """

    name: str
    instrument: str
    unit: str
    type: str
    labels: tuple[str, ...]
    help: str
    component: str = WORKER
    cpu_job: bool = True


def _metric(
    name: str,
    type_: str,
    labels: tuple[str, ...],
    help_: str,
    unit: str = "",
    *,
    component: str = WORKER,
    cpu_job: bool = True,
) -> Metric:
    instrument = name.removesuffix("_total").replace("_", ".", 1)
    return Metric(name, instrument, unit, type_, labels, help_, component, cpu_job)


def _worker(name: str, help_: str, unit: str = "", *more: str, type_: str = GAUGE, cpu_job: bool = True) -> Metric:
    return _metric(name, type_, IDENTITY + more, help_, unit, cpu_job=cpu_job)


def _central(
    name: str, labels: tuple[str, ...], help_: str, unit: str = "", *, type_: str = GAUGE, cpu_job: bool = True
) -> Metric:
    return _metric(name, type_, labels, help_, unit, component=LOCALIZER, cpu_job=cpu_job)


BUILD_INFO = _worker(
    "eroica_build_info", "Version of the running component, always 1.", "", "version", "schema", "component"
)
ITERATION_DURATION = _worker(
    "eroica_iteration_duration_seconds", "First input to last optimizer step of an iteration.", "s", type_=HISTOGRAM
)
ITERATION_PERIOD = _worker(
    "eroica_iteration_period_seconds", "Start to start of consecutive iterations.", "s", type_=HISTOGRAM
)
ITERATIONS = _worker("eroica_iterations_total", "Optimizer updates seen.", "{iteration}", type_=COUNTER)
ITERATIONS_IRREGULAR = _worker(
    "eroica_iterations_irregular_total", "Updates that were counted but not timed.", "{iteration}", type_=COUNTER
)
INPUT_WAIT = _worker("eroica_input_wait_seconds_total", "Time inside next() of the input.", "s", type_=COUNTER)
ITERATION_BASELINE = _worker(
    "eroica_iteration_baseline_seconds", "Median of the recent N-iteration means of the period.", "s"
)
DEGRADATION_RATIO = _worker(
    "eroica_iteration_degradation_ratio", "Rise of the recent mean period over the baseline, 0 = none.", "1"
)
ITERATION_LAST = _worker("eroica_iteration_last_timestamp_seconds", "Unix time of the latest optimizer update.", "s")
WORLD_SIZE = _worker("eroica_world_size", "Workers of the job as this worker knows it.", "{worker}")
WORKER_STATE = _worker("eroica_worker_state", "1 for the state the worker is in, 0 for the others.", "", "state")
COLLECTIVE_SEQUENCE = _worker(
    "eroica_collective_sequence", "Collectives this worker has started in the process group.", "", "group"
)
COLLECTIVE_COMPLETED = _worker(
    "eroica_collective_completed_sequence",
    "Collectives this worker has completed in the process group, in a blocked window.",
    "",
    "group",
    cpu_job=False,
)
WINDOW_ID = _worker(
    "eroica_window_id", "Unix seconds at which the latest window was decided; the id is the value.", "", "reason"
)
WINDOW_END = _worker("eroica_window_end_timestamp_seconds", "Unix time at which the latest window ended.", "s")
WINDOW_SECONDS = _worker("eroica_window_seconds", "Length of the latest window.", "s")
WINDOW_ITERATIONS = _worker("eroica_window_iterations", "Whole iterations in the latest window.", "{iteration}")
WINDOW_EVENTS = _worker("eroica_window_events", "Trace events captured in the latest window.", "{event}")
WINDOW_BLOCKED = _worker(
    "eroica_window_blocked_seconds", "Time for which training stood still to stop and save the latest window.", "s"
)
WINDOW_CPU = _worker("eroica_window_cpu_seconds", "CPU time of the training thread in the latest window.", "s")
WINDOW_GAP = _worker("eroica_window_sampler_gap_seconds", "Longest gap between two stack samples.", "s")
WINDOW_THROTTLED = _worker(
    "eroica_window_throttled_ratio", "Share of the window in which the cgroup was throttled.", "1", cpu_job=False
)
WINDOW_RUN_DELAY = _worker(
    "eroica_window_run_delay_ratio",
    "Share of the window in which the training thread waited for a core.",
    "1",
    cpu_job=False,
)
WINDOW_HOST_RATIO = _worker(
    "eroica_window_host_ratio", "Use by process and cgroup, its GPU held back, 0 to 1.", "1", "resource", cpu_job=False
)
WINDOW_HOST_RATE = _worker(
    "eroica_window_host_per_second", "Page faults, disk bytes, falls of the link.", "", "resource", cpu_job=False
)
WINDOW_STOPPED = _worker("eroica_window_stopped_seconds", "Time in process state T during the latest window.", "s")
WINDOW_SILENT = _worker(
    "eroica_window_silent_seconds",
    "Time since the training's last event at the end of the latest window, blocked windows only.",
    "s",
    cpu_job=False,
)
WINDOW_UNKNOWN = _worker(
    "eroica_window_unknown_seconds",
    "Time of trace events of a category that nobody knows, charged to nothing: the four that take longest, and others.",
    "s",
    "category",
    cpu_job=False,
)
WINDOW_START = _worker(
    "eroica_window_start_iteration", "First iteration that this worker profiled in the latest window.", "{iteration}"
)
WINDOW_AFTER = _worker(
    "eroica_window_after_ratio", "Iteration time after the latest window over the time before it.", "1"
)
WINDOWS = _worker(
    "eroica_windows_total", "Windows by reason and outcome.", "{window}", "reason", "outcome", type_=COUNTER
)
_PATTERN = (*FUNCTION, "family", "resource")
PATTERN_BETA = _worker(
    "eroica_pattern_beta_ratio",
    "Share of the window charged to the function on the critical path, 0 to 1.",
    "1",
    *_PATTERN,
)
PATTERN_MU = _worker(
    "eroica_pattern_mu_ratio", "Mean use of the resource while the function is critical, 0 to 1.", "1", *_PATTERN
)
PATTERN_SIGMA = _worker(
    "eroica_pattern_sigma_ratio", "Standard deviation of the use of the resource while critical.", "1", *_PATTERN
)
KIND_BETA = _worker(
    "eroica_kind_beta_ratio",
    "Share of the window charged to all functions of the kind, and idle; sums to 1.",
    "1",
    "kind",
)
PATTERN_NOISE = _worker(
    "eroica_pattern_noise_seconds",
    "Standard deviation of the function's seconds per iteration over the parts of a reference window.",
    "s",
    "function_id",
)
PATTERN_PEAK = _worker(
    "eroica_pattern_peak_ratio",
    "90th percentile of the link rate over the collective's whole time.",
    "1",
    "function_id",
    "function",
    "resource",
    cpu_job=False,
)
PATTERN_FLOOR = _worker("eroica_pattern_floor_ratio", "Smallest beta that was kept.", "1")
PATTERN_DROPPED = _worker("eroica_pattern_dropped_total", "Functions cut by the budget.", "{function}", type_=COUNTER)
COLLECTIVE_CALLS = _worker("eroica_collective_calls", "Calls in the latest window.", "{call}", "function_id", "group")
COLLECTIVE_BYTES = _worker(
    "eroica_collective_bytes",
    "Bytes of this worker's input in the latest window.",
    "By",
    "function_id",
    "group",
    cpu_job=False,
)
COLLECTIVE_FASTEST = _worker(
    "eroica_collective_fastest_seconds", "5th percentile of the duration of a call.", "s", "function_id", "group"
)
GROUP_INFO = _worker("eroica_group_info", "Process group of this worker, always 1.", "", "group", "size", "ranks_hash")
GROUPS_LEFT_OUT = _worker(
    "eroica_groups_left_out", "Process groups that the window of a hang does not hold.", "{group}"
)
WORKER_INFO = _worker(
    "eroica_worker_info",
    "Joins the worker to other exporters, always 1.",
    "",
    "local_rank",
    "gpu_uuid",
    "pci_bus_id",
    "nic",
    "k8s_pod",
    "run_id",
    "restart",
    "signature",
)
FUNCTION_INFO = _worker(
    "eroica_function_info", "Stack of a large Python function, always 1.", "", "function_id", "family", "stack"
)
DELIVERIES = _worker(
    "eroica_deliveries_total", "Deliveries of series by outcome.", "{delivery}", "delivery", "outcome", type_=COUNTER
)
FAILURES = _worker(
    "eroica_failures_total",
    "Failures inside eroica_otel by stage; training is never affected.",
    "{failure}",
    "stage",
    type_=COUNTER,
)
STORE_SILENT = _worker("eroica_store_silent_seconds", "Time since the job's store answered.", "s")
RESOURCE_MISSING = _worker(
    "eroica_resource_missing",
    "1 where a resource could not be sampled in the latest window; of a GPU sm_clock, sm, dram, pcie and nvlink.",
    "",
    "resource",
)
HELPER_CPU = _worker(
    "eroica_helper_cpu_seconds_total", "CPU time of the helper process, summaries included.", "s", type_=COUNTER
)

VECTOR = _metric("eroica_vector", GAUGE, (*IDENTITY, "part", "dict"), "A window: slot i at i ms after the first; -1 = "
                 "not measured.", component=LAYOUT, cpu_job=False)  # fmt: skip
VECTOR_INFO = _metric("eroica_vector_info", GAUGE, (*JOB, "dict", "slot", "series", *FUNCTION, "family", "resource",
                      "group", "category", "reason", "stack", "run_id", "signature"), "What a slot is, always 1.",
                      component=LAYOUT, cpu_job=False)  # fmt: skip
VECTOR_PROBE = _metric("eroica_vector_probe", GAUGE, IDENTITY, "Eight samples 1 ms apart: does the backend keep them?",
                       component=LAYOUT, cpu_job=False)  # fmt: skip
_FINDING = IDENTITY + FUNCTION
EXPECTATION = _central(
    "eroica_anomaly_expectation_distance", _FINDING, "Distance from the expected range, findings only.", cpu_job=False
)
DIFFERENTIAL = _central(
    "eroica_anomaly_differential_distance", _FINDING, "Share of peers that differ, findings only.", cpu_job=False
)
DRIFT = _central(
    "eroica_anomaly_drift_distance",
    _FINDING,
    "Change against the healthy reference as a share of the iteration, findings only.",
    cpu_job=False,
)
IMPACT = _central(
    "eroica_anomaly_impact_ratio",
    (*_FINDING, "cause", "domain", "severity", "scope", "link", "verdict"),
    "Share of the iteration that the culprit costs.",
    "1",
    cpu_job=False,
)
VICTIMS = _central(
    "eroica_anomaly_victims", (*JOB, "function_id", "cause"), "Workers that wait for the culprit.", cpu_job=False
)
_PEERS = (*JOB, *FUNCTION, "peer_role", "component")
FUNCTION_MEDIAN = _central("eroica_function_median_ratio", _PEERS, "Median over the peers in the latest window.", "1")
FUNCTION_MAD = _central("eroica_function_mad_ratio", _PEERS, "Median absolute deviation over the peers.", "1")
FUNCTION_REFERENCE = _central("eroica_function_reference_ratio", _PEERS, "Median over the peers in the reference.", "1")
ANOMALIES = _central("eroica_job_anomalies", JOB, "Open findings above info; 0 when healthy.")
LOCALIZER_SEEN = _central("eroica_localizer_workers_seen", JOB, "Workers whose patterns of the latest window arrived.")
LOCALIZER_EXPECTED = _central("eroica_localizer_workers_expected", JOB, "Workers the job should have.")
LOCALIZER_NO_CONSENSUS = _central(
    "eroica_localizer_no_consensus", JOB, "Functions of the latest window on which the workers split evenly."
)
LOCALIZER_SUCCESS = _central(
    "eroica_localizer_last_success_timestamp_seconds", JOB, "Unix time of the latest verdict.", "s"
)
LOCALIZER_DURATION = _central("eroica_localizer_duration_seconds", JOB, "Time the latest verdict took to compute.", "s")
LOCALIZER_WINDOW = _central("eroica_localizer_window_id", (*JOB, "reason"), "Window the latest verdict is about.")
DUPLICATES = _central("eroica_duplicate_workers", JOB, "Live workers that share one identity; they are not judged.")
THRESHOLD = _central("eroica_localizer_threshold_ratio", ("threshold",), "Thresholds in force, so that rules compare "
                     "series with series.", "1")  # fmt: skip
JOB_THRESHOLD = _central(
    "eroica_job_threshold_ratio", (*JOB, "threshold"), "Thresholds of this job alone, if any.", "1", cpu_job=False
)
LOCALIZER_FAILURES = _central(
    "eroica_localizer_failures_total", ("stage",), "Failures inside the localizer by stage.", "{failure}", type_=COUNTER
)
LOCALIZER_ROUND = _central(
    "eroica_localizer_last_round_timestamp_seconds", (), "Unix time of the latest look at all jobs.", "s"
)
LOCALIZER_REJUDGED = _central(
    "eroica_localizer_rejudged_total",
    (),
    "Windows judged a second time because missing workers came after the verdict.",
    "{window}",
    type_=COUNTER,
)
LOCALIZER_REQUESTS = _central("eroica_localizer_requests_total", ("outcome",), "Requests that the embedded receiver "
                              "answered.", "{request}", type_=COUNTER)  # fmt: skip
LOCALIZER_QUERIES = _central(
    "eroica_localizer_queries_total",
    ("outcome",),
    "Questions that the localizer asked the backend it reads; absent where it reads none.",
    "{query}",
    type_=COUNTER,
    cpu_job=False,
)
LOCALIZER_DELIVERIES = _central(
    "eroica_localizer_deliveries_total",
    ("delivery", "outcome"),
    "Deliveries of the localizer's own series; absent where it only waits to be scraped.",
    "{delivery}",
    type_=COUNTER,
    cpu_job=False,
)
LOCALIZER_BUILD = _central(
    "eroica_localizer_build_info", ("version", "schema"), "Version of the running localizer, always 1."
)

ALL: tuple[Metric, ...] = tuple(value for value in tuple(globals().values()) if isinstance(value, Metric))
OF_WORKER = tuple(metric for metric in ALL if metric.component == WORKER)
OF_LOCALIZER = (*(metric for metric in ALL if metric.component == LOCALIZER), FUNCTION_INFO)
"""What the localizer shows: of a finding the stack of its function, too."""
BY_NAME = {metric.name: metric for metric in ALL}
BY_INSTRUMENT = {metric.instrument: metric for metric in ALL}

PATTERN_SERIES = (PATTERN_BETA, PATTERN_MU, PATTERN_SIGMA)

CAUSES: tuple[str, ...] = (
    "gpu_throttled", "gpu_power_capped", "gpu_memory_slow", "nvlink_degraded", "pcie_degraded", "nic_degraded",
    "link_flapping", "network_congestion", "collective_inefficient", "slow_input", "storage_slow", "cpu_starved",
    "numa_misplaced", "memory_pressure", "gc_pause", "python_overhead", "host_sync", "allocator_churn",
    "load_imbalance", "pipeline_imbalance", "checkpoint_stall", "recompilation", "process_stopped", "cpu_contention",
    "python_blocked", "hang_missing_rank", "hang_in_python", "unknown",
)  # fmt: skip
"""Closed list of causes; localize/causes.py gives each its evidence, domain and advice."""

ITERATION_BUCKETS_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
"""Explicit bucket borders of the two histograms: with +Inf, sum and count 18 series each."""

DURATIONS = (ITERATION_DURATION, ITERATION_PERIOD)
