"""Every threshold of the localizer in one frozen dataclass; takes nothing, gives numbers with their origin.

"Paper" is the published method; "measured" are our own fault and clean windows on real jobs; "chosen" is ours without
more.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

MAD_TO_SIGMA = 1.4826
"""Standard deviation of a normal distribution over its median absolute deviation."""


@dataclass(frozen=True, slots=True)
class Policy:
    """Thresholds of the verdict; ratios are shares of the iteration unless their comment says otherwise."""

    # Excess over the peers.
    material_ratio: float = 0.05  # measured: the largest excess of a clean window was 0.040
    material_least_seconds: float = 0.0028  # chosen: healthy ranks of one machine differ by 1 to 2 ms for good
    peers_factor: float = 1.4  # measured: below it a fault of all ranks reads as one rank's
    cpu_factor: float = 1.25  # chosen: six times the measured 4 % spread of CPU seconds, which are that steady
    peers_spreads: float = 4.75  # 1 of 1,000,000 normal numbers; 1.4x alone names healthy ranks that differ by 10 %
    spread_peers: float = 64.0  # simulated: fewer do not know their spread well enough to do without a reference
    noise_levels: float = 6.0  # chosen: also the factor on the MAD in a tolerance
    explains_ratio: float = 0.5  # chosen: a function is named when it holds half of what its family is too long
    # Another cause at the same rank must be half as large, else it is a symptom, and half of it must be in what the
    # rank works more than its peers beyond the first.
    second_ratio: float = 0.5  # chosen
    split_ratio: float = 0.1  # chosen: |2 x high - peers| up to this share of the peers is an even split

    # Waiting and blame.
    gap_ratio: float = 0.08  # measured: gaps of clean windows reach 0.066
    gap_errors: float = 3.0  # measured: clean windows reach 2.4 standard errors
    gap_least_ratio: float = 0.03  # measured: median gap of clean windows 0.028; fewer is no gap, however steady
    impact_least_ratio: float = 0.02  # chosen: below it the finding is only info, since nobody waits for that rank
    critical_ratio: float = 0.20  # chosen: a fifth of the machine is lost
    critical_kept_ratio: float = 0.15  # chosen: three quarters of it; below, a critical finding is a warning again
    victim_ratio: float = 0.5  # chosen: a victim waits longer than the culprit by half of the gap
    late_ratio: float = 0.2  # chosen: between the least and the median time in a collective, up to here it came last

    # Time without a core. Both are shares of the window above the peers' median.
    throttle_ratio: float = 0.05  # measured: 0.37 under a quota; 0.05 to 0.09 on all ranks is no fault of one
    run_delay_ratio: float = 0.10  # chosen: on shared cores it moves more than throttling
    run_delay_grave_ratio: float = 0.20  # chosen: unthrottled; ranks that share cores differ by 10 % of the window
    contention_ratio: float = 0.20  # chosen: share of the window that the median rank waits, without a reference
    on_cpu_ratio: float = 0.25  # measured: CPU share of blocked frames up to 0.09, of busy ones from 0.45
    idle_use_ratio: float = 0.10  # chosen: an operator that uses the CPU less than this cannot lack one

    gpu_slowdown_ratio: float = 0.10  # chosen: share of the window in which heat or power supply hold a clock down

    # A process that did not run.
    silence_least_seconds: float = 0.1  # measured: up to 0.07 s without a stack in windows that nothing disturbed
    stopped_gap_seconds: float = 1.0  # measured: the longest gap of a busy but running process was 0.6 s
    stopped_cpu_ratio: float = 0.3  # chosen: CPU time above the peers, as a share of the gap, that means "it ran"

    # Nothing moves.
    hang_share: float = 0.5  # chosen: where a rank is in more than half of the samples is where it stands
    hang_least_seconds: float = 10.0  # design: blocked is no event for 10 s or more
    pause_most_seconds: float = 600.0  # design: a save longer than this is a stall, where the rank does not say itself

    # Change against the reference.
    drift_small_ratio: float = 0.5  # design: small is below half of large
    drift_iterations: float = 16.0  # measured: below it the noise is unknown, so low confidence
    drift_unknown_ratio: float = (
        0.10  # chosen: without a cause, a change of all is a warning only above this and if the trigger fired
    )
    noise_unknown_ratio: float = 0.10  # chosen: noise of a function that came without one, as a share of its time
    noise_least_ratio: float = 0.01  # chosen: no function is known better than this share of its time
    all_ratio: float = 0.9  # chosen: this share of the ranks is "all"

    # Links.
    link_ratio: float = 0.9  # measured: 20 of 20 slow links below, 0 of 95 healthy ones (lowest 0.95)
    link_used_ratio: float = (
        0.2  # chosen: share of the link speed that the best edges must reach; idle links compare nothing
    )

    # Differential distance: floors of the tolerance per component, and the outlier rule.
    floor_beta: float = 0.02  # measured (simulation): with these, a 10 % throttle is found at 0 to 3 false in 5,120
    floor_mu: float = 0.05
    floor_sigma: float = 0.05
    outlier_mads: float = 5.0  # paper
    outlier_least: float = 0.1  # chosen: MAD is 0 when all are healthy
    outlier_share: float = 0.5  # chosen: an outlier differs from most of its peers
    decisive_peers: float = 8.0  # measured: below it MAD does nothing
    fewest_peers: float = 3.0  # measured: with two peers the healthy one is flagged as often
    exact_peers: float = 4096.0  # measured: exact costs are quadratic
    sample_peers: float = 1000.0  # measured: one shared sample; a sample per worker flags thousands of healthy ones
    sample_seed: float = 20260.0

    # Expectation distance: largest expected beta by kind. Python is the paper's; the others are starting values.
    expected_python: float = 0.01
    expected_communication: float = 0.30
    expected_memory: float = 0.10
    expected_host: float = 0.10
    expected_compute: float = 1.0

    # Roles from function sets, where nobody named them.
    role_ratio: float = 0.3  # chosen: share of compute in families that the other worker does not have at all
    role_limit: float = 64.0  # chosen: more sets than this are no roles

    def thresholds(self) -> dict[str, float]:
        """Return every threshold by name, for publication."""
        return {item.name: float(getattr(self, item.name)) for item in fields(self)}

    def expected(self, kind: str) -> float:
        """Return the largest beta that is expected of one function of this kind."""
        return float(getattr(self, f"expected_{kind}", 1.0))
