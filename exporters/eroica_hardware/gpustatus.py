"""The state of each NVIDIA GPU that was ever seen: ok, about to fail, or gone, as hw_status of the conventions.

Takes what source `nvml_state` knows and its readings, gives samples. A GPU that fell off the bus has no name any more
once the devices are looked at anew; that is why those seen are remembered. Where the driver is gone nothing is said.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from eroica_hardware import names
from eroica_hardware.readings import Reading, by_name
from eroica_hardware.series import Sample

SOURCE = "nvml_state"
OK, FAILED, PREDICTED = "ok", "failed", "predicted_failure"
REMAPS = ("remap_pending", "remap_failed")
"""Rows of memory to be remapped at the next reset, and those for which there was no spare row."""


class Seen:
    """The GPUs that this agent has seen."""

    def __init__(self) -> None:
        self._gpus: set[str] = set()

    def samples(
        self, present: Mapping[str, object], missing: Mapping[str, str], driver: bool, readings: Sequence[Reading]
    ) -> Iterator[Sample]:
        """Yield one sample for each state of each GPU, 1 for the one it is in.

        ``present`` has the GPUs of the latest look, ``missing`` those lost since, ``driver`` whether one answers.
        """
        self._gpus |= set(present)
        known = by_name(readings)
        for gpu in sorted(self._gpus) if driver else ():
            state = FAILED if gpu in missing or gpu not in present else self._alive(gpu, known)
            for each in (OK, FAILED, PREDICTED):
                labels = {"hw_id": gpu, "hw_type": "gpu", "hw_state": each}
                yield names.STATUS, labels, float(each == state)

    def _alive(self, gpu: str, known: Mapping[tuple[str, str], Reading]) -> str:
        values = [known[gpu, name].value for name in REMAPS if (gpu, name) in known]
        return PREDICTED if any(value > 0 for value in values) else OK
