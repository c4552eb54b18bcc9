"""The node agent as it is, over a machine with 8 GPUs that does not exist; bench/hardware.py starts it.

    python -m bench.hardware_agent [--recorded] [--latency-us 0] [--scrape] OPTIONS OF eroica-hardware

GPUs: the real nvidia-ml-py on the stand-in of its library that LD_LIBRARY_PATH leads to, or, with ``--recorded``, an
object with the NVML calls. Interfaces, RDMA ports and PCIe devices: files of the form of sysfs. The rest is this
machine's.
"""

from __future__ import annotations

import argparse
import signal
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

from bench.recorded_nvml import Remembered
from eroica_hardware import catalog
from eroica_hardware.agent import Agent
from eroica_hardware.gpm import GpmSource
from eroica_hardware.nvml import NvmlSource
from eroica_hardware.options import configure, resolve
from eroica_otel.hardware.interfaces import InterfaceSource
from eroica_otel.hardware.pcie import PcieSource
from eroica_otel.hardware.rdma import RdmaSource, RdmaStateSource
from eroica_otel.hardware.source import Source
from factories_hardware import Tree

GPUS = 8
COUNTERS = ("port_rcv_errors", "port_xmit_discards", "port_xmit_wait", "symbol_error", "link_downed")
HW_COUNTERS = ("out_of_sequence", "packet_seq_err", "rnr_nak_retry_err", "np_cnp_sent", "rp_cnp_handled")


def machine(root: Path) -> Tree:
    """Return files as a node with 8 GPUs has them: an RDMA port and its interface for each, and one more interface."""
    tree = Tree(root)
    tree.interface("eth0")
    for number in range(GPUS):
        tree.interface(f"ib{number}", speed=400_000)
        files = {f"counters/{name}": 0 for name in ("port_xmit_data", "port_rcv_data", *COUNTERS)}
        files |= {f"hw_counters/{name}": 0 for name in HW_COUNTERS}
        tree.port(f"mlx5_{number}", rate="400 Gb/sec (4X NDR)", files=files)
        tree.pci(f"0000:{number + 16:02x}:00.0")
    return tree


def main() -> None:
    """Run the agent until it is told to end."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recorded", action="store_true")
    parser.add_argument("--latency-us", type=float, default=0.0, help="of each call of a recorded GPU, on the core")
    configure(parser)
    arguments = parser.parse_args()
    options = resolve(arguments, {})
    nvml = Remembered(GPUS, arguments.latency_us / 1e6) if arguments.recorded else None
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        tree = machine(Path(folder))
        made: dict[str, Callable[[], Source]] = {
            "nvml": lambda: NvmlSource(nvml, quick=True),
            "nvml_state": lambda: NvmlSource(nvml, quick=False),
            "gpm": lambda: GpmSource(nvml),
            "rdma": lambda: RdmaSource(tree.sys),
            "rdma_state": lambda: RdmaStateSource(tree.sys),
            "net": lambda: InterfaceSource(sys=tree.sys),
            "pcie": lambda: PcieSource(tree.sys),
        }
        wanted = catalog.Wanted(options.dcgm, options.nic_mbit)
        agent = Agent(options, lambda family: made.get(family, lambda: catalog.CATALOG[family].make(wanted))())
        agent.start()
        try:
            agent.run(stop)
        finally:
            agent.close()


if __name__ == "__main__":
    main()
