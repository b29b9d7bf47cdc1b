"""JSON of which only parts are known, read with suspicion: what is wrong is said with its place."""

from collections.abc import Iterator
from typing import Any

from traceml.printable import one_line
from traceml.report.typed import ShapeError

_LARGEST_AMOUNT = 1e18
_SHOWN = 40


class Node:
    """An object of a document and the way to it. What is null or not there reads as None."""

    def __init__(self, value: Any, path: str = "") -> None:
        if not isinstance(value, dict):
            raise ShapeError(f"{path or 'it'} is {_kind(value)}, not an object")
        self._value: dict[str, Any] = value
        self._path = path

    def __contains__(self, key: str) -> bool:
        return self._value.get(key) is not None

    def __iter__(self) -> Iterator[str]:
        return iter(self._value)

    def node(self, key: str) -> "Node":
        """The object below; an empty one if there is none."""
        return Node(self._value.get(key) or {}, self._at(key))

    def nodes(self, key: str) -> "Iterator[Node]":
        """The objects of the list below."""
        listed = self._value.get(key) or []
        if not isinstance(listed, list):
            raise ShapeError(f"{self._at(key)} is {_kind(listed)}, not a list")
        for index, item in enumerate(listed):
            yield Node(item, f"{self._at(key)}[{index}]")

    def text(self, key: str) -> str | None:
        """A string, fit to be shown in one line."""
        value = self._value.get(key)
        if value is None:
            return None
        if not isinstance(value, str):
            raise ShapeError(f"{self._at(key)} is {_kind(value)}, not text")
        return one_line(value)

    def amount(self, key: str) -> float | None:
        """A number that is not negative."""
        value = self._value.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise ShapeError(f"{self._at(key)} is {_kind(value)}, not a number")
        if not 0 <= value < _LARGEST_AMOUNT:
            raise ShapeError(f"{self._at(key)} is no amount: {value!s:.{_SHOWN}}")
        return float(value)

    def count(self, key: str) -> int | None:
        """A whole number that is not negative."""
        value = self.amount(key)
        if value is not None and value != int(value):
            raise ShapeError(f"{self._at(key)} is no whole number: {value}")
        return None if value is None else int(value)

    def flag(self, key: str) -> bool | None:
        """Yes or no."""
        value = self._value.get(key)
        if value is not None and not isinstance(value, bool):
            raise ShapeError(f"{self._at(key)} is {_kind(value)}, not true or false")
        return value

    def _at(self, key: str) -> str:
        return f"{self._path}.{one_line(key)}" if self._path else one_line(key)


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    names = {bool: "a boolean", int: "a number", float: "a number", str: "text", list: "a list"}
    return names.get(type(value), "an object")
