"""torch's Kineto profiler, ours and the training's own: start, stop, and who gives way.

torch's low-level functions are used, because only they keep ``trace_only`` (half the cost of stop). torch itself is an
argument: it is never imported here.
"""

from __future__ import annotations

import functools
import os
import weakref
from collections.abc import Callable
from typing import Any

from eroica_otel.errors import CaptureError, Guard, unguarded

_QUIET = ("KINETO_LOG_LEVEL", "6")
"""Kineto writes a line to stderr at each start and stop (its level 5), whoever asked for the profile. It reads this
once, at its first session (torch 2.13): a process in which that was ours stays quiet, what it starts later does not.
"""


class UserProfiler:
    """Sees the training's own use of torch's profiler, so that ours gives way; ``close()`` takes the look away, and
    what our sessions have set.

    Two sessions at once end the process (torch 2.13: an error, or a fault in C). torch prepares a session (warm-up of a
    schedule) some iterations before it starts it; one of ours in between would spoil it, so none is begun then, and a
    session that was prepared before we looked is prepared anew.
    """

    def __init__(self, torch: Any, on_conflict: Callable[[], None], guard: Guard = unguarded) -> None:
        """Args: guard: Runs what is ours inside the training's own calls, and lets nothing out of it."""
        self._guard = guard
        self._torch = torch
        self._owner = torch.autograd.profiler.profile
        self._on_conflict: Callable[[], None] = lambda: guard("profiler", on_conflict)
        self._prepared: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self.sessions = 0
        self._undo = [self._wrap("_prepare_trace", self._prepares), self._wrap("_start_trace", self._starts)]

    def _wrap(self, name: str, before: Callable[[Any, Any], None]) -> Callable[[], None]:
        owner, prepare = self._owner, self._owner._prepare_trace
        original = getattr(owner, name)

        @functools.wraps(original)
        def wrapper(profile: Any) -> Any:
            self._guard("profiler", lambda: before(profile, prepare))
            return original(profile)

        def undo() -> None:
            if getattr(owner, name) is wrapper:
                setattr(owner, name, original)

        setattr(owner, name, wrapper)
        return undo

    def _prepares(self, profile: Any, prepare: Any) -> None:
        self._on_conflict()
        self._prepared[profile] = self.sessions

    def _starts(self, profile: Any, prepare: Any) -> None:
        self._on_conflict()
        if self._prepared.pop(profile, 0) != self.sessions:
            prepare(profile)

    @property
    def active(self) -> bool:
        """Whether a session of the training is running on this thread or has been prepared."""
        return bool(self._torch._C._autograd._profiler_enabled()) or len(self._prepared) > 0

    def on_close(self, undo: Callable[[], None]) -> None:
        """Call ``undo`` at the end, the last one first."""
        self._undo.append(undo)

    def close(self) -> None:
        while self._undo:
            self._undo.pop()()


class TorchProfiler:
    """torch's Kineto profiler for one window."""

    def __init__(self, torch: Any, mode: str, user: UserProfiler) -> None:
        self._torch = torch
        self._user = user
        if _QUIET[0] not in os.environ:
            os.environ[_QUIET[0]] = _QUIET[1]
            user.on_close(_loud)
        profiler, activity = torch._C._profiler, torch._C._profiler.ProfilerActivity
        gpu = torch.cuda.is_available() and torch.cuda.is_initialized()
        self.gpu = bool(gpu)
        self._activities = set()
        if mode == "exact" or not gpu:
            self._activities.add(activity.CPU)
        if gpu:
            self._activities.add(activity.CUDA)
        try:
            experimental = profiler._ExperimentalConfig(trace_only=True)
        except TypeError:  # before torch 2.9 there was no such option
            experimental = profiler._ExperimentalConfig()
        self._scopes = () if mode == "exact" else (_charged(profiler.RecordScope),)
        self._config = torch.autograd.ProfilerConfig(
            torch.autograd.ProfilerState.KINETO, False, False, mode == "exact", False, False, experimental
        )

    def start(self) -> None:
        """Start; raises CaptureError while the user's own profiler runs or is about to."""
        if self._user.active:
            raise CaptureError("the training's own profiler is running; it goes first, the window is skipped")
        try:
            self._torch.autograd._prepare_profiler(self._config, self._activities)
        except RuntimeError as error:  # torch 2.4, where the training has prepared a session before we looked
            raise CaptureError(f"torch cannot begin a profile ({error}); the window is skipped") from error
        self._user.sessions += 1
        self._torch.autograd._enable_profiler(self._config, self._activities, *self._scopes)

    def stop(self) -> Any:
        """Stop and return Kineto's result, which has ``save(path)``."""
        return self._torch.autograd._disable_profiler()


def _charged(scopes: Any) -> set[Any]:
    """Return what is recorded for patterns: all but the nodes of the backward pass.

    A node is never charged (kinds.WRAPPERS), and lies inside of the engine's own event, which is not either. Without
    nodes a window has a fourteenth fewer events and no arrows between forward and backward, and is stopped and saved
    in nine tenths of the time (bench/README.md).
    """
    return set(scopes.__members__.values()) - {scopes.BACKWARD_FUNCTION}


def _loud() -> None:
    name, value = _QUIET
    if os.environ.get(name) == value:
        del os.environ[name]
