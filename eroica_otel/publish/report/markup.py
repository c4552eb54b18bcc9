"""HTML elements from Python: takes names, attributes, children; gives markup in which every text is escaped. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import TypeAlias

from eroica_otel.publish.report.words import glued, visible

_VOID = frozenset({"meta", "link", "br", "hr", "path", "circle", "line", "rect"})


class Markup(str):
    """Text that is HTML already; only :func:`element`, :func:`raw` and :func:`join` make it."""

    __slots__ = ()


Child: TypeAlias = str | Markup | None


def raw(text: str) -> Markup:
    """Return ``text`` as it is; for text of this package only, never for anything that a report holds."""
    return Markup(text)


def join(children: Iterable[Child], between: str = "") -> Markup:
    """Return the children one after another, plain ones escaped, None left out."""
    return Markup(between.join(_child(child) for child in children if child is not None))


def element(tag: str, /, *children: Child, **attributes: str | float | None) -> Markup:
    """Return one element.

    An attribute "class_" is written "class", "stroke_width" is "stroke-width"; one that is None is left out.
    """
    written = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{escape(_value(value), quote=True)}"'
        for name, value in attributes.items()
        if value is not None
    )
    if tag in _VOID:
        return Markup(f"<{tag}{written}>" if tag in ("meta", "link", "br", "hr") else f"<{tag}{written}/>")
    return Markup(f"<{tag}{written}>{join(children)}</{tag}>")


def _child(child: Child) -> str:
    return child if isinstance(child, Markup) else escape(glued(visible(child or "")), quote=True)


def _value(value: str | float | None) -> str:
    if isinstance(value, float):
        return f"{value:.1f}".removesuffix(".0")
    return visible(str(value)).encode("utf-8", "replace").decode("utf-8")
