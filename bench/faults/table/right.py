"""Sets of causes that are right together, each with its reason. Where only one is right the row says it itself."""

from __future__ import annotations

SLOW_STORE = frozenset({"storage_slow", "slow_input"})
"""The store (or disk) answers late, and so the input is slow: the first says why, the second what. Both lead to it."""
NO_CORE = frozenset({"cpu_starved", "cpu_contention"})
"""Somebody else has the core: the rank lacks it, and there is contention for it."""
CROWDED_LOADER = frozenset({"cpu_starved", "cpu_contention", "slow_input"})
"""The loader's processes have too few cores, so the input is slow: cause and what is seen of it."""
ALL_LINKS = frozenset({"network_congestion", "collective_inefficient"})
"""All ports give less. From the hosts a switch that gives less looks as a collective does that uses links badly."""
ALL_LIMITED = frozenset({"cpu_starved", "cpu_contention"})
"""Every container has too small a quota: all are starved, and that all lack a core is how contention is defined."""
CHURN = frozenset({"allocator_churn", "load_imbalance"})
"""Memory is taken and given back: that is the cause. On a CPU it happens inside operators, as more CPU time in them,
without a call of its own that a profiler would show: more work on this rank is true, too."""
LOCKED_CACHE = frozenset({"slow_input", "storage_slow"})
"""They wait for each other at a file in the input: slow is the input, and what they wait for is a file."""
METRICS = frozenset({"collective_inefficient", "host_sync"})
"""Many small collectives, each fetched at once: the collectives are used badly, and each fetch is a synchronisation."""
LENGTHS = frozenset({"load_imbalance", "unknown"})
"""In every iteration another rank has most to do, over a window all have more: no cause says this exactly."""
GIL = frozenset({"python_overhead", "python_blocked"})
"""A thread of the same process takes the interpreter: Python of this rank costs more, and the training waits for it."""
GONE = frozenset({"hang_missing_rank", "hang_in_python"})
"""The training's thread has ended while the process lives: the rank is missing, and stands in Python's shutdown."""
FLAPPING = frozenset({"link_flapping", "nic_degraded"})
"""A link that goes down again and again flaps, and it carries less than the others: the card or cable is bad."""
SLOW_TRAFFIC = frozenset({"nic_degraded", "network_congestion"})
"""Another job's traffic fills one link: the link gives this job less, by congestion."""
TWO = frozenset({"python_overhead", "slow_input", "storage_slow"})
"""One rank computes in Python, the other's input is late."""
