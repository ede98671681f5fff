"""HTML and SVG as text in which nothing that is told can become markup."""

from html import escape
from typing import Final, TypeAlias

Value: TypeAlias = str | float | bool | None

VOID: Final = frozenset({"meta", "rect", "line", "path", "br"})
"""Elements that hold nothing; inside SVG they must be closed."""


class Markup(str):
    """Text that is markup already; any other text is escaped where it is put into an element."""

    __slots__ = ()


def element(tag: str, /, *children: str, **attributes: Value) -> Markup:
    """An element; of the attributes' names a last `_` is dropped and each other one is a dash.

    An attribute that is None or False is left out, and one that is True stands without a value.
    """
    written = "".join(_attribute(key, value) for key, value in attributes.items())
    if tag in VOID:
        return Markup(f"<{tag}{written}/>")
    return Markup(f"<{tag}{written}>{join(*children)}</{tag}>")


def join(*children: str) -> Markup:
    """Several pieces one after the other."""
    return Markup("".join(child if isinstance(child, Markup) else escape(child) for child in children))


def _attribute(key: str, value: Value) -> str:
    if value is None or value is False:
        return ""
    name = key.removesuffix("_").replace("_", "-")
    if value is True:
        return f" {name}"
    text = f"{value:.3f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
    return f' {name}="{escape(text)}"'
