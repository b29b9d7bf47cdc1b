"""HTML and SVG, element by element: what is not markup already is escaped on its way in."""

from html import escape

FONT = "-apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"


class Markup(str):
    """Text that may stand in a page as it is."""

    __slots__ = ()


def element(name: str, *content: object, **attributes: object) -> Markup:
    """An element; `_` in an attribute's name stands for `-`, one at its end for nothing."""
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{_escaped(_number(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Markup(f"<{name}{given}>{joined(*content)}</{name}>")


def joined(*content: object) -> Markup:
    """One after the other; None is nothing."""
    return Markup("".join(_markup(each) for each in content if each is not None))


def _markup(value: object) -> str:
    return value if isinstance(value, Markup) else _escaped(str(value))


def _number(value: object) -> str:
    """A tenth of a pixel is as exact as it gets."""
    return f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else str(value)


def _escaped(text: str) -> str:
    """Safe in content and attributes, and without what no page may hold: control characters."""
    fit = text.encode("utf-8", "replace").decode()
    shown = "".join(each if each.isprintable() or each in "\n\t" else "\ufffd" for each in fit)
    return escape(shown, quote=True)
