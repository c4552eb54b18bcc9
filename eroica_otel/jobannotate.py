"""Judged windows and findings drawn into a Grafana: takes what the localizer remembers, writes annotations.

A thread of its own asks Grafana, so that a round waits for nothing. What cannot be written waits and is tried again; it
is counted as a failure of stage ``publish`` each time and said once. Several localizers may annotate one Grafana: who
writes looks first for the one that is there, and afterwards again; of several written at once the oldest stays.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace

from eroica_otel.boards.access import Access
from eroica_otel.boards.api import Grafana, Noted
from eroica_otel.boards.notes import ALL, Note, of_finding, of_window
from eroica_otel.errors import DeliveryError, EroicaError, Guard
from eroica_otel.query.store import JobKey
from eroica_otel.statefolder import JobRecord

MOST_WAITING = 256
RETRY_SECONDS = 30.0
LAST_SECONDS = 3.0
"""How long the end waits for what is still to be written."""


class NotAnnotated(DeliveryError):
    """Grafana did not take an annotation."""


class Annotations:
    """Annotates one Grafana, or none; ``show`` is called by one thread and never waits."""

    def __init__(
        self, access: Access | None, guard: Guard, *, wall: Callable[[], float] = time.time, threaded: bool = True
    ) -> None:
        """Prepare; nothing is asked before something is shown. Not ``threaded``, ``write`` is the caller's.

        Raises:
            ConfigError: the access cannot be used.
        """
        self._grafana = Grafana(access) if access is not None else None
        self._guard, self._wall, self._threaded = guard, wall, threaded
        self._records: dict[JobKey, JobRecord] = {}
        self._open: dict[JobKey, dict[str, Note]] = {}
        self._waiting: dict[str, Note] = {}
        self._told: dict[str, str] = {}
        self._lock, self._news, self._end = threading.Lock(), threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None

    def show(self, records: Mapping[JobKey, JobRecord]) -> None:
        """Annotate what is new since the last call; what is not remembered any more has ended."""
        if self._grafana is None:
            return
        for key, record in records.items():
            if self._records.get(key) is not record:
                self._changed(key, record)
        for key in self._records.keys() - records.keys():
            self._changed(key, JobRecord(*key))
            del self._open[key]
        self._records = dict(records)
        if self._waiting and self._thread is None and self._threaded:
            self._thread = threading.Thread(target=self._run, name="eroica-annotations", daemon=True)
            self._thread.start()

    def _changed(self, key: JobKey, record: JobRecord) -> None:
        before = self._records.get(key)
        if record.report is not None and (before is None or before.report is not record.report):
            window = of_window(record.team, record.report)
            if window is not None:
                self._put(window)
        known, found = self._open.get(key, {}), dict[str, Note]()
        for item in record.life.open:
            note = of_finding(*key, item.window_id, item.finding)
            start = known[note.id].start_ms if note.id in known else note.start_ms
            found[note.id] = replace(note, start_ms=start, end_ms=start)
        for note in found.values():
            if known.get(note.id) != note:
                self._put(note)
        now = int(self._wall() * 1000)
        for gone in known.keys() - found.keys():
            self._put(replace(known[gone], end_ms=max(now, known[gone].start_ms + 1)))
        self._open[key] = found

    def _put(self, note: Note) -> None:
        with self._lock:
            self._waiting.pop(note.id, None)
            self._waiting[note.id] = note
            dropped = [self._waiting.pop(next(iter(self._waiting)))] if len(self._waiting) > MOST_WAITING else []
        if dropped:
            self._guard("publish", _dropped)
        self._news.set()

    def _run(self) -> None:
        ended = False
        while not ended:
            self._news.wait(RETRY_SECONDS if self._waiting else None)
            self._news.clear()
            ended = self._end.is_set()
            if not self.write() and not ended:
                self._end.wait(RETRY_SECONDS)

    def write(self) -> bool:
        """Write what waits until one cannot be written; return whether nothing is left. Called by one thread."""
        while True:
            with self._lock:
                note = next(iter(self._waiting.values()), None)
            if note is None:
                return True
            done: list[bool] = []
            self._guard("publish", lambda: done.append(self._written(note)))  # noqa: B023 - called at once
            with self._lock:
                if self._waiting.get(note.id) is note:
                    del self._waiting[note.id]
                    if not done:
                        self._waiting[note.id] = note  # the next time begins with another one
            if not done:
                return False

    def _written(self, note: Note) -> bool:
        assert self._grafana is not None
        try:
            held = self._held(note)
            if held is None:
                self._grafana.add_note(note.start_ms, note.end_ms, note.tags, note.text)
                self._held(note)
            else:
                self._adapt(held, note)
        except EroicaError as error:
            raise NotAnnotated(str(error)) from error
        self._told[note.id] = note.text
        if len(self._told) > MOST_WAITING:
            del self._told[next(iter(self._told))]
        return True

    def _held(self, note: Note) -> Noted | None:
        """Return the one that is there, None without one; what was written at the same moment as it is deleted."""
        assert self._grafana is not None
        found = sorted((one for one in self._grafana.notes((ALL, note.id)) if note.is_(one)), key=lambda one: one.id)
        for double in found[1:]:
            self._grafana.delete_note(double.id)
        return found[0] if found else None

    def _adapt(self, held: Noted, note: Note) -> None:
        """Give it the end that it lacks, and the text where this process has another to tell than before."""
        assert self._grafana is not None
        told = self._told.get(note.id)
        text = note.text if told is not None and told != note.text else held.text
        end = held.timeEnd if note.is_open or not held.is_open else note.end_ms
        if (text, end) != (held.text, held.timeEnd):
            tags = list(note.tags) if text != held.text else held.tags
            self._grafana.change_note(Noted(held.id, held.time, max(end, held.time), tags, text))

    def stop(self) -> None:
        """End the thread, after what still waits was tried once; findings that are open stay open. Waits for 3 s."""
        self._end.set()
        self._news.set()
        if self._thread is not None:
            self._thread.join(LAST_SECONDS)


def _dropped() -> None:
    raise NotAnnotated(f"more than {MOST_WAITING} annotations wait for Grafana; the oldest is dropped")
