"""Mark-up that is made here and nowhere else: what comes from outside gets in only as text."""

import html
from typing import NewType

from edgeopt.errors import printable

Markup = NewType("Markup", str)
"""HTML or SVG that was made by the functions of this file."""

_VOID = frozenset({"br", "col", "link", "meta"})


def text(value: str) -> Markup:
    """The characters themselves; what cannot be seen (controls, marks that turn the direction) is escaped."""
    return Markup(html.escape(printable(value, line_ends=True)))


def tag(element: str, /, *children: Markup, **attributes: str | float | None) -> Markup:
    """An element; `class_` and the like lose their last underscore, inner ones become hyphens."""
    shown = "".join(f' {_name(key)}="{_value(value)}"' for key, value in attributes.items() if value is not None)
    if element in _VOID:
        return Markup(f"<{element}{shown}>")
    return Markup(f"<{element}{shown}>{''.join(children)}</{element}>")


def joined(*parts: Markup) -> Markup:
    return Markup("".join(parts))


def trusted(source: str) -> Markup:
    """Mark-up that is part of this package, such as its style sheet."""
    return Markup(source)


def _name(key: str) -> str:
    return key.removesuffix("_").replace("_", "-")


def _value(value: str | float) -> str:
    # Tenths of a pixel: more only makes the file larger.
    return (
        html.escape(printable(value, line_ends=True))
        if isinstance(value, str)
        else f"{value:.1f}".removesuffix(".0")
    )
