"""What a worker exports -> the same without the names of the training's own code. Pure.

``paths``: modules and files of the training become tokens, names of functions stay. ``names``: every name of the
training does. A token is a keyed hash, equal wherever name and key are, so that workers can be compared; only who has
the key or the names (commands/unredact.py) can tell which name it stands for. Names of the libraries of
:mod:`eroica_otel.export.public` stay: they are no secret, and verdicts read them. Kind, family and resource of a
function are closed lists of ours, found out before.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace

from eroica_otel import kinds
from eroica_otel.export import public
from eroica_otel.kinds import Frame
from eroica_otel.model import Collective, Pattern, WorkerWindow
from eroica_otel.status import Status
from eroica_otel.uncharged import OTHERS

NONE, PATHS, NAMES = "none", "paths", "names"
TOKEN = re.compile(r"~[0-9a-f]{12}")
_MAIN = "__main__"
_WHOLE_FILE = "<module>"
"""Module of every script, and what runs outside functions: words of Python's, not names of the training's."""
_Files = Mapping[str, Collection[str]]
"""Identity of a frame -> the files in which such a frame is."""


def token(key: bytes, name: str) -> str:
    """Return what leaves instead of ``name``: "~" and 12 hex digits. ``key`` has at most 64 bytes."""
    return "~" + hashlib.blake2b(name.encode("utf-8", "replace"), key=key, digest_size=6).hexdigest()


class Redactor:
    """Takes the training's names out of what one worker exports."""

    def __init__(self, mode: str, key: bytes, learn: Callable[[str, str], None] = lambda token, name: None) -> None:
        """Args: mode: NONE, PATHS or NAMES. learn: Is told (token, name) each time a token is used."""
        self._mode, self._key, self._learn = mode, key, learn

    def window(self, window: WorkerWindow, frames: Iterable[Frame]) -> WorkerWindow:
        """Return ``window`` without names; ``frames`` are those of its stacks, which tell their files.

        A frame whose file is not told, or that is also in a file of the training's, counts as the training's own.
        """
        if self._mode == NONE:
            return window
        files: dict[str, set[str]] = {}
        for frame in frames:
            files.setdefault(kinds.frame_identity(frame), set()).add(frame.file)
        return replace(
            window,
            patterns=tuple(self._pattern(pattern, files) for pattern in window.patterns),
            progress={self._group(group): value for group, value in window.progress.items()},
            unknown={self._category(category): value for category, value in window.unknown.items()},
        )

    def status(self, status: Status) -> Status:
        """Return ``status`` without names of process groups."""
        if self._mode == NONE:
            return status
        return replace(
            status,
            collectives={self._group(group): count for group, count in status.collectives.items()},
            groups=tuple((self._group(group), size, ranks) for group, size, ranks in status.groups),
        )

    def _pattern(self, pattern: Pattern, files: _Files) -> Pattern:
        stack = tuple(self._frame(frame, files) for frame in pattern.stack)
        return replace(
            pattern,
            # The plain one could be found out by trying names; the same key gives the same one on all workers.
            function_id=self._hash(pattern.function_id)[1:],
            function=self._function(pattern, stack),
            collectives=tuple(self._collective(one) for one in pattern.collectives),
            stack=stack,
        )

    def _function(self, pattern: Pattern, stack: tuple[str, ...]) -> str:
        if pattern.kind != "python":
            known = self._mode != NAMES or public.is_public_name(pattern.kind, pattern.function)
            return pattern.function if known else self._token(pattern.function)
        if not stack:
            return self._token(pattern.function)
        if stack[-1] == pattern.stack[-1]:
            return self._own_name(pattern, stack[-1])
        module, qualname, line = stack[-1].rsplit(":", 2)
        return f"{qualname} ({module}:{line})"[: kinds.NAME_LENGTH]

    def _own_name(self, pattern: Pattern, frame: str) -> str:
        """Return the name of a function whose frame is as it was: of a script it holds the name of the file."""
        module, found, rest = frame.partition(":")
        if found and module == _MAIN:
            qualname, line = rest.rsplit(":", 1)
            return f"{qualname} ({module}:{line})"[: kinds.NAME_LENGTH]
        return pattern.function

    def _frame(self, text: str, files: _Files) -> str:
        if text == kinds.GC_FUNCTION:
            return text
        module, qualname, line = _parts(text)
        if all(public.is_public_frame(Frame(module, qualname, file, 0)) for file in files.get(text, ("",))):
            return text
        shown = module if module == _MAIN else self._token(module)
        hidden = self._mode == NAMES and qualname != _WHOLE_FILE
        return f"{shown}:{self._token(qualname) if hidden else qualname}:{line}"

    def _collective(self, collective: Collective) -> Collective:
        return replace(collective, group=self._group(collective.group))

    def _group(self, group: str) -> str:
        known = self._mode != NAMES or public.is_public_group(group)
        return group if known else self._token(group)

    def _category(self, category: str) -> str:
        """A category that is not known may be one that the training gave its own events."""
        return self._token(category) if self._mode == NAMES and category != OTHERS else category

    def _token(self, name: str) -> str:
        made = self._hash(name)
        self._learn(made, name)
        return made

    def _hash(self, name: str) -> str:
        return token(self._key, name)


def _parts(frame: str) -> tuple[str, str, str]:
    """Return module, qualified name and line of "module:qualname:firstline"; of another text, that as the name."""
    parts = frame.rsplit(":", 2)
    if len(parts) != 3 or not parts[2].isdecimal():
        return _MAIN, frame, "0"
    module, qualname, line = parts
    return module, qualname, line
