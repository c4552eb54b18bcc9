"""What a target raised, by where and why: the smallest input of each, and its traceback, in a folder."""

from __future__ import annotations

import hashlib
import time
import traceback
from pathlib import Path

from bench.fuzz.check import Violation, hold
from bench.fuzz.target import Target

SLOW_SECONDS = 5.0
"""CPU time that no input of a fuzzer's size may take."""
_OURS = ("/eroica_otel/", "/bench/fuzz/")


class Findings:
    """Runs a target and keeps what it raises, so that one finding does not end the search for others."""

    def __init__(self, target: Target, folder: Path) -> None:
        self.target, self._folder = target, folder
        self._smallest: dict[str, int] = {}
        self.runs = 0

    def __len__(self) -> int:
        return len(self._smallest)

    def run(self, data: bytes) -> None:
        """Run the target once; nothing is raised but what ends a process."""
        self.runs += 1
        begin = time.process_time()
        try:
            self.target.run(data)
            hold(time.process_time() - begin < SLOW_SECONDS, "it takes too long")
        except Exception as error:  # noqa: BLE001  whatever it is, it is a finding
            self._keep(data, error)

    def _keep(self, data: bytes, error: Exception) -> None:
        mark = _mark(error)
        if len(data) >= self._smallest.get(mark, len(data) + 1):
            return
        self._smallest[mark] = len(data)
        self._folder.mkdir(parents=True, exist_ok=True)
        place = self._folder / hashlib.sha256(mark.encode()).hexdigest()[:10]
        place.with_suffix(".input").write_bytes(data)
        text = "".join(traceback.format_exception(error))
        place.with_suffix(".txt").write_text(f"{mark}\n\n{text[-6000:]}", "utf-8", "backslashreplace")


def _mark(error: Exception) -> str:
    """Return the same text for the same fault: its type, and the line of ours that raised or called what raised."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if any(o in frame.filename for o in _OURS)]
    last = frames[-1]
    said = f": {error}" if isinstance(error, Violation) else ""
    return f"{type(error).__name__} at {Path(last.filename).name}:{last.lineno} {last.name}{said}"
