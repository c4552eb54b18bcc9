"""What the job's memory tells about a hang: takes snapshots of a job and of a window, gives who is there, who is gone,
and whether the window is due. Pure.
"""

from __future__ import annotations

from eroica_otel.jobstate import Patience, Sighting, is_due, is_hang_due
from eroica_otel.localize.presence import Presence
from eroica_otel.query.store import Arrived, Job, Worker


def presence(job: Job, now: float, patience: Patience) -> dict[int, Presence]:
    """Return what is known of each rank that ever delivered; a rank that two processes claim has no state."""
    gone = patience.gone_seconds(job.spacing)
    return {
        rank: Presence(
            state=_state(worker),
            silent_seconds=now - worker.last_seen,
            gone=now - worker.last_seen >= gone,
            host=worker.identity.host,
            role=worker.identity.role,
        )
        for rank, worker in job.workers.items()
    }


def sightings(job: Job) -> dict[int, Sighting]:
    """Return state and latest delivery of each rank; a rank that two processes claim is in no known state."""
    return {rank: Sighting(_state(worker), worker.last_seen) for rank, worker in job.workers.items()}


def due(job: Job, arrived: Arrived, expected: int, *, now: float, patience: Patience) -> bool:
    """Return whether a window of any reason is judged now."""
    seen = len(arrived.ranks)
    if not any(window.reason == "blocked" for window in arrived.windows.values()):
        return is_due(
            seen, expected, first=arrived.first, latest=arrived.latest, spacing=job.spacing, now=now, patience=patience
        )
    missing = _silences(job, arrived, expected, now)
    return is_hang_due(
        seen, missing, first=arrived.first, latest=arrived.latest, spacing=job.spacing, now=now, patience=patience
    )


def _state(worker: Worker) -> str:
    return "" if worker.duplicates else worker.state


def _silences(job: Job, arrived: Arrived, expected: int, now: float) -> list[float | None]:
    """Return since when each missing rank is silent; one None stands for all that never delivered: they may be many."""
    known = {rank: worker for rank, worker in job.workers.items() if rank < expected}
    silences: list[float | None] = [
        now - worker.last_seen
        for rank, worker in known.items()
        if rank not in arrived.windows and worker.state != "finished"
    ]
    return silences + ([None] if len(known.keys() | arrived.windows.keys()) < expected else [])
