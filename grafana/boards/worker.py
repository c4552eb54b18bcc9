"""Worker: one rank: its state, its critical path beside that of its role, and its hardware by other exporters."""

from __future__ import annotations

from boards import promql as p
from boards.spec import FUNCTION, GREEN, ORANGE, RED, WORKER, Board, Link, Query, Section, Spot, Variable

RANK = f'{p.ONE}, rank="$rank"'
ROLE = f'{p.ONE}, role=~"$role"'
PEERS = f'{p.ONE}, component="COMPONENT", peer_role=~"$role|all.*"'
INFO = f"eroica_worker_info{{{RANK}}}"
FUNCTIONS = "function, function_id, kind"
BETA = p.seen("eroica_pattern_beta_ratio", RANK, FUNCTIONS)
SHARE = "percentunit"
GPU = 'device=~"$gpu", device!=""'
NODE = 'instance=~"$node(:[0-9]+)?"'
CARD = f'{NODE}, device=~"$nic"'
NOT_TOLD = "No window in the time range, or the kernel does not tell"
HEAT = "throttle_(hw_slowdown|hw_thermal|hw_power_brake|sw_thermal|sw_power_cap)"
TO_FUNCTION = Link(
    "Open the function", FUNCTION, ("team", "training_job"), {"function": "${__data.fields.Function:percentencode}"}
)


def _peers(component: str) -> str:
    series = f"eroica_function_median_ratio{{{PEERS.replace('COMPONENT', component)}}}"
    return f"max by ({FUNCTIONS}) ({series})"


def _lines(title: str, description: str, unit: str, queries: list[Query], missing: str, width: int = 8) -> Spot:
    return Spot("timeseries", title, description, (width, 7), unit, queries, missing)


FACTS = (
    Spot(
        "stat", "State", "The state this worker is in.", (4, 4), "none",
        [Query(f"max by (state) (eroica_worker_state{{{RANK}}} == 1)", "{{state}}")], p.NO_JOB, named=True,
    ),
    Spot(
        "stat", "Iteration time", "Recent mean time from one optimizer update to the next.", (4, 4), "s",
        [Query(
            f"max(eroica_iteration_baseline_seconds{{{RANK}}})"
            f" * (1 + max(eroica_iteration_degradation_ratio{{{RANK}}}))", "recent",
        )],
        p.NO_LEARNED,
    ),
    Spot(
        "stat", "Slower than baseline", "Rise over this worker's baseline.", (4, 4), SHARE,
        [Query(f"max(eroica_iteration_degradation_ratio{{{RANK}}})", "rise")], p.NO_LEARNED,
        [(0, GREEN), (0.05, ORANGE), (0.2, RED)],
    ),
    Spot(
        "stat", "Costs the job", "Share of each iteration that open findings about this worker cost; the largest.",
        (4, 4),
        SHARE,
        [Query(f"max(eroica_anomaly_impact_ratio{{{RANK}}}) or 0 * max(eroica_job_anomalies{{{p.ONE}}})", "finding")],
        p.NO_LOCALIZER, [(0, GREEN), (0.05, ORANGE), (0.2, RED)],
    ),
    Spot(
        "stat", "Waits for input", "Share of its time inside next() of its input.", (4, 4), SHARE,
        [Query(f"max(rate(eroica_input_wait_seconds_total{{{RANK}}}[$__rate_interval]))", "share")], p.NO_JOB,
    ),
    Spot(
        "stat", "Last update", "Time since its latest optimizer update.", (4, 4), "s",
        [Query(f"time() - max(eroica_iteration_last_timestamp_seconds{{{RANK}}})", "age")], p.NO_JOB,
    ),
    Spot(
        "table", "Who it is", "Where this rank runs, and what joins it to other exporters.", (24, 4), "string",
        [Query(
            "max by (rank, host, role, local_rank, gpu_uuid, pci_bus_id, nic, k8s_pod, run_id, restart) "
            f"(last_over_time({INFO}[$__range]))"
        )],
        p.NO_JOB,
        columns={
            "rank": "Rank", "host": "Host", "role": "Role", "local_rank": "Local rank", "gpu_uuid": "GPU",
            "pci_bus_id": "PCI", "nic": "Network card", "k8s_pod": "Pod", "run_id": "Run", "restart": "Restart",
            "A": "Seen",
        },
        units={"Seen": "none"},
    ),
)  # fmt: skip

PATH = (
    Spot(
        "timeseries", "Critical path by kind", "Share of the window by kind of work; shown for some minutes after a "
        "window.", (12, 8), SHARE,
        [Query(f"max by (kind) (eroica_kind_beta_ratio{{{RANK}}})", "{{kind}}")], p.NO_WINDOW, stacked=True,
    ),
    Spot(
        "table", "Kinds beside its role", "Share of the latest window of the time range by kind: this worker, the "
        "median of its role, and the difference.", (12, 8), "string",
        [
            Query(p.seen("eroica_kind_beta_ratio", RANK, "kind")),
            Query(f"quantile by (kind) (0.5, {p.seen('eroica_kind_beta_ratio', ROLE, 'rank, kind')})"),
            Query(
                f"{p.seen('eroica_kind_beta_ratio', RANK, 'kind')} - on (kind) "
                f"quantile by (kind) (0.5, {p.seen('eroica_kind_beta_ratio', ROLE, 'rank, kind')})"
            ),
        ],
        p.NO_WINDOW, columns={"kind": "Kind", "A": "This worker", "B": "Its role", "C": "Difference"},
        units=dict.fromkeys(("This worker", "Its role", "Difference"), SHARE),
    ),
    Spot(
        "table", "Its functions beside its role", "Beta and mu of each function in the latest window of the time "
        "range, and the medians that the latest verdict compared (its 20 largest functions).", (24, 9), "string",
        [
            Query(BETA), Query(_peers("beta")), Query(f"{BETA} - on ({FUNCTIONS}) {_peers('beta')}"),
            Query(p.seen("eroica_pattern_mu_ratio", RANK, FUNCTIONS)), Query(_peers("mu")),
        ],
        p.NO_WINDOW,
        columns={
            "function": "Function", "kind": "Kind", "A": "Beta", "B": "Role's beta", "C": "Difference", "D": "Mu",
            "E": "Role's mu",
        },
        hidden=("function_id",), units=dict.fromkeys(("Beta", "Role's beta", "Difference", "Mu", "Role's mu"), SHARE),
        links={"Function": TO_FUNCTION},
    ),
    Spot(
        "table", "Findings about it", "Open findings that name this worker, and what to do.", (24, 5), "string",
        [Query(p.advised(p.open_findings(RANK, ".+")))], p.HEALTHY,
        columns={
            "function": "Function", "cause": "Cause", "severity": "Severity", "scope": "Scope", "A": "Costs",
            "advice": "What to do",
        },
        hidden=("training_job", "team", "rank", "host", "role", "function_id", "link"), units={"Costs": SHARE},
        links={"Function": TO_FUNCTION},
    ),
)  # fmt: skip

WINDOW = (
    _lines(
        "Use of the host in the window", "What the process and its cgroup used, throttling by the CPU quota, and "
        "waiting for a core, as shares.", SHARE,
        [
            Query(f"max by (resource) (eroica_window_host_ratio{{{RANK}}})", "{{resource}}"),
            Query(f"max(eroica_window_throttled_ratio{{{RANK}}})", "throttled"),
            Query(f"max(eroica_window_run_delay_ratio{{{RANK}}})", "waits for a core"),
        ],
        NOT_TOLD, width=6,
    ),
    _lines(
        "Page faults", "Of the process in the window, a second.", "cps",
        [Query(
            f'max by (resource) (eroica_window_host_per_second{{{RANK}, resource=~".*_faults"}})', "{{resource}}"
        )],
        NOT_TOLD, width=6,
    ),
    _lines(
        "Disk", "What the process reads and writes in the window.", "Bps",
        [Query(
            f'max by (resource) (eroica_window_host_per_second{{{RANK}, resource!~".*_faults"}})', "{{resource}}"
        )],
        NOT_TOLD, width=6,
    ),
    _lines(
        "Stopped and stood still", "Time in process state T in the window, and time for which the window itself held "
        "the training up.", "s",
        [
            Query(f"max(eroica_window_stopped_seconds{{{RANK}}})", "stopped"),
            Query(f"max(eroica_window_blocked_seconds{{{RANK}}})", "held up"),
        ],
        p.NO_WINDOW, width=6,
    ),
)  # fmt: skip

AGENT = (
    _lines(
        "GPU: reasons for a lower clock", "Share of the latest 10 s in which heat, the power supply or the power limit "
        "held the clock down. The power limit alone is normal under full load.", SHARE,
        [Query(f'max by (resource) (eroica_hardware_resource_ratio{{{GPU}, resource=~"{HEAT}"}})', "{{resource}}")],
        p.NO_AGENT,
    ),
    _lines(
        "GPU: use", "Share of its peak, mean of the latest 10 s: clock, streaming processors, memory, PCIe, NVLink.",
        SHARE,
        [Query(
            f'max by (resource) (eroica_hardware_resource_ratio{{{GPU}, resource!~"throttle_.*"}})', "{{resource}}"
        )],
        p.NO_AGENT,
    ),
    _lines(
        "GPU: temperature", "By the node agent, at the chip and at its memory.", "celsius",
        [Query('max by (hw_sensor_location) (hw_temperature_celsius{hw_id=~"$gpu"})', "{{hw_sensor_location}}")],
        p.NO_AGENT,
    ),
    _lines(
        "GPU: power", "What it draws, by the node agent.", "watt",
        [Query('max(hw_power_watts{hw_id=~"$gpu"})', "draws")], p.NO_AGENT,
    ),
    _lines(
        "GPU: errors", "Errors found in its memory and on its bus, a second.", "cps",
        [Query(
            'max by (error_type) (rate(hw_errors_total{hw_id=~"$gpu", hw_type="gpu"}[$__rate_interval]))',
            "{{error_type}}",
        )],
        p.NO_AGENT,
    ),
    _lines(
        "Network: use of the node's links", "Share of what the link can, sent and received, mean of the latest 10 s, "
        "by the node agent.", SHARE,
        [Query(
            'max by (device, resource) (eroica_hardware_resource_ratio{host=~"$node", resource=~"(nic|rdma)_(tx|rx)"})',
            "{{device}} {{resource}}",
        )],
        p.NO_AGENT,
    ),
)  # fmt: skip

OTHERS = (
    _lines(
        "GPU: clock (DCGM)", "Clock of the streaming processors.", "rotmhz",
        [Query('max(DCGM_FI_DEV_SM_CLOCK{UUID=~"$gpu"})', "clock")], p.NO_DCGM, width=6,
    ),
    _lines(
        "GPU: temperature (DCGM)", "At the chip.", "celsius",
        [Query('max(DCGM_FI_DEV_GPU_TEMP{UUID=~"$gpu"})', "gpu")], p.NO_DCGM, width=6,
    ),
    _lines(
        "GPU: power (DCGM)", "What it draws.", "watt",
        [Query('max(DCGM_FI_DEV_POWER_USAGE{UUID=~"$gpu"})', "draws")], p.NO_DCGM, width=6,
    ),
    _lines(
        "GPU: latest XID (DCGM)", "Number of the latest error that the driver reported; 0 is none.", "none",
        [Query('max(DCGM_FI_DEV_XID_ERRORS{UUID=~"$gpu"})', "XID")], p.NO_DCGM, width=6,
    ),
    _lines(
        "Node: waiting (node_exporter)", "Share of the time in which some process of the node waits for a core, for "
        "storage or for memory.", SHARE,
        [
            Query(f"max(rate(node_pressure_{what}_waiting_seconds_total{{{NODE}}}[$__rate_interval]))", what)
            for what in ("cpu", "io", "memory")
        ],
        p.NO_NODE,
    ),
    _lines(
        "Node: cores that throttle (node_exporter)", "How often a second cores throttle for heat.", "cps",
        [Query(f"sum(rate(node_cpu_core_throttles_total{{{NODE}}}[$__rate_interval]))", "throttles")], p.NO_NODE,
    ),
    _lines(
        "Network card (node_exporter)", "What this worker's card sends and receives; InfiniBand or Ethernet.", "Bps",
        [
            Query(
                f"max(rate(node_infiniband_port_data_{word}_bytes_total{{{CARD}}}[$__rate_interval])"
                f" or rate(node_network_{short}_bytes_total{{{CARD}}}[$__rate_interval]))", word,
            )
            for word, short in (("transmitted", "transmit"), ("received", "receive"))
        ],
        p.NO_NODE,
    ),
)  # fmt: skip

VARIABLES = (
    Variable("rank", "Rank", f'eroica_world_size{{{p.ONE}, host=~"$host"}}', "rank", numeric=True),
    Variable("node", "Node", INFO, "host", shown=False),
    Variable("role", "Role of the rank", INFO, "role", shown=False),
    Variable("gpu", "GPU", INFO, "gpu_uuid", shown=False),
    Variable("nic", "Network card", INFO, "nic", shown=False),
)
HOST = Variable("host", "Host", f"eroica_world_size{{{p.ONE}}}", "host", everything=".+")
BOARD = Board(
    WORKER, "Eroica / Worker", "One rank: its state, its critical path beside its role, and its hardware.",
    (*p.job_variables(several=False), HOST, *VARIABLES),
    (
        Section("", FACTS), Section("Critical path", PATH), Section("In the window", WINDOW),
        Section("Hardware by the node agent", AGENT), Section("Hardware by other exporters", OTHERS),
    ), p.ONE,
)  # fmt: skip
