"""A node agent for test_agent.py: parts of eroica_hardware on the interfaces and on some processes, until killed.

python sampling_agent.py FOLDER PID...
"""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path

from eroica_hardware.announce import Announcements
from eroica_hardware.listener import hold, listen
from eroica_hardware.rings import KeptRing
from eroica_hardware.sampler import Sampler, run
from eroica_hardware.windows import Windows
from eroica_otel.hardware.interfaces import InterfaceSource
from eroica_otel.hardware.processes import ProcessSource
from eroica_otel.hardware.shared import open_folder

MBIT = 8000.0


def main(place: Path, pids: list[int]) -> None:
    folder = open_folder(place)
    hold(folder)
    windows = Windows(time.monotonic_ns())
    announcements = Announcements(listen(folder), windows)
    threading.Thread(target=announcements.run, args=(lambda: False,), daemon=True).start()
    sources = (InterfaceSource(mbit=MBIT), ProcessSource({pid: (pid,) for pid in pids}))
    samplers = [Sampler(source, KeptRing(folder, source.family), windows.running) for source in sources]
    run(samplers, lambda: False)


if __name__ == "__main__":
    main(Path(sys.argv[1]), [int(pid) for pid in sys.argv[2:]])
