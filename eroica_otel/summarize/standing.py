"""One stack that does not change -> the blocked window of a worker that could not take it itself."""

from __future__ import annotations

from collections.abc import Mapping

from eroica_otel.kinds import Frame
from eroica_otel.model import KINDS, Identity, Pattern, WorkerWindow
from eroica_otel.summarize.stacks import python_function


def standing_window(
    identity: Identity,
    window_id: int,
    seconds: float,
    stack: tuple[Frame, ...],
    *,
    stopped_seconds: float,
    silent_seconds: float,
    progress: Mapping[str, tuple[int, int | None]],
    end_timestamp_seconds: float,
    signature: str,
) -> WorkerWindow:
    """Return a blocked window of ``seconds`` in which the training stood in ``stack`` (outermost first, () unknown)."""
    patterns = _pattern(stack)
    shares = dict.fromkeys((*KINDS, "idle"), 0.0) | {"python" if patterns else "idle": 1.0}
    return WorkerWindow(
        identity=identity,
        window_id=window_id,
        reason="blocked",
        seconds=seconds,
        iterations=0,
        patterns=patterns,
        kinds=shares,
        end_timestamp_seconds=end_timestamp_seconds,
        stopped_seconds=stopped_seconds,
        silent_seconds=silent_seconds,
        progress=progress,
        signature=signature,
    )


def _pattern(stack: tuple[Frame, ...]) -> tuple[Pattern, ...]:
    function = python_function(stack)
    if function is None:
        return ()
    name, kind, family = function.name, function.kind, function.family
    return (Pattern(function.id, name, kind, family, resource="", beta=1.0, stack=function.stack),)
