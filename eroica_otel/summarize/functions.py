"""The functions of one window: each (kind, identity) gets a number that intervals carry."""

from __future__ import annotations

from dataclasses import dataclass

from eroica_otel import kinds


@dataclass(frozen=True, slots=True)
class Function:
    """What is charged; ``stack`` (outermost first) is filled for Python."""

    kind: str
    identity: str
    name: str
    family: str
    stack: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        """Return 12 hex digits of kind and identity."""
        return kinds.function_id(self.kind, self.identity)


class Functions:
    """Numbers functions in the order in which they are first seen."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[str, str], int] = {}
        self._all: list[Function] = []

    def number(self, function: Function) -> int:
        """Return the function's number; the first one seen under an identity stands for all."""
        key = (function.kind, function.identity)
        if key not in self._numbers:
            self._numbers[key] = len(self._all)
            self._all.append(function)
        return self._numbers[key]

    def all(self) -> tuple[Function, ...]:
        """Return every function in the order of its number."""
        return tuple(self._all)
