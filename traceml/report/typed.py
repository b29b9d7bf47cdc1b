"""Typed data as JSON: dataclasses to documents and back, and the schema of such documents.

What is None is left out, and whatever stands beside the known keys is passed over.
"""

import math
import types
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from traceml.printable import one_line

_UNIONS = (Union, types.UnionType)
_LARGEST = 1e18  # what is larger is no figure, and breaks arithmetic
_SCALARS = {bool: "boolean", int: "integer", float: "number", str: "string"}


class ShapeError(ValueError):
    """A document is not what it should be; the message says where and how."""


@dataclass(frozen=True, slots=True)
class Least:
    """In an annotation: the value is at least this."""

    value: float


Amount = Annotated[float, Least(0)]
Count = Annotated[int, Least(0)]


def plain(value: Any) -> Any:
    """The document of typed data."""
    if is_dataclass(value):
        found = ((of.name, getattr(value, of.name)) for of in fields(value))
        return {name: plain(item) for name, item in found if item is not None}
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items() if item is not None}
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    return value


def read(kind: Any, value: Any, where: str = "it") -> Any:
    """The typed data of a document; ShapeError if it is none of that kind."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _read_limited(inner, value, where)
    if origin in _UNIONS:
        return _read_union(inner, value, where)
    if origin is Literal:
        _expect(value in inner, f"one of {', '.join(map(str, inner))}", value, where)
        return value
    if origin is tuple:
        _expect(isinstance(value, list), "a list", value, where)
        return tuple(read(inner[0], item, f"{where}[{n}]") for n, item in enumerate(value))
    if origin is Mapping:
        _expect(isinstance(value, dict), "an object", value, where)
        return {
            one_line(key): read(inner[1], item, f"{where}.{one_line(key)[:40]}")
            for key, item in value.items()
        }
    return _read_object(kind, value, where) if is_dataclass(kind) else _scalar(kind, value, where)


def schema(kind: type, title: str) -> dict[str, Any]:
    """The JSON Schema of documents of this kind."""
    definitions: dict[str, Any] = {}
    top = _object_schema(kind, definitions)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": title,
        **top,
        "$defs": dict(sorted(definitions.items())),
    }


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind, include_extras=True)


def _read_object(kind: Any, value: Any, where: str) -> Any:
    _expect(isinstance(value, dict), "an object", value, where)
    found = {}
    for name, hint in _hints(kind).items():
        inside = f"{where}.{name}" if where != "it" else name
        if value.get(name) is not None:
            found[name] = read(hint, value[name], inside)
        elif name in _required(kind):
            raise ShapeError(f"{inside} is missing")
        elif _may_be_none(hint):
            found[name] = None
    return kind(**found)


def _read_limited(inner: Any, value: Any, where: str) -> Any:
    kind, *limits = inner
    value = read(kind, value, where)
    for limit in limits:
        if isinstance(limit, Least):
            _expect(value >= limit.value, f"at least {limit.value:g}", value, where)
    return value


def _read_union(inner: tuple[Any, ...], value: Any, where: str) -> Any:
    wanted = [kind for kind in inner if kind is not type(None)]
    for kind in wanted[:-1]:
        try:
            return read(kind, value, where)
        except ShapeError:
            continue
    return read(wanted[-1], value, where)


def _scalar(kind: Any, value: Any, where: str) -> Any:
    wanted = (int, float) if kind is float else kind
    is_one = isinstance(value, wanted) and isinstance(value, bool) == (kind is bool)
    _expect(is_one, f"a {_SCALARS[kind]}", value, where)
    if kind in (int, float):
        _expect(abs(value) < _LARGEST and math.isfinite(value), "finite", value, where)
    return one_line(value) if kind is str else value


def _expect(is_so: bool, wanted: str, value: Any, where: str) -> None:
    if not is_so:
        found = one_line(_shown(value))
        found = found if len(found) <= 40 else f"{found[:37]}..."
        raise ShapeError(f"{where} should be {wanted}, and is {found}")


def _shown(value: Any) -> str:
    """As Python would, without writing all of it: of what is large, only its kind."""
    if isinstance(value, dict | list) and len(value) > 3:
        return f"{'an object' if isinstance(value, dict) else 'a list'} of {len(value)}"
    return repr(value[:40] if isinstance(value, str) else value)


@cache
def _required(kind: Any) -> list[str]:
    hints = _hints(kind)
    without = [of.name for of in fields(kind) if of.default is MISSING]
    return [name for name in without if not _may_be_none(hints[name])]


def _may_be_none(hint: Any) -> bool:
    inner = get_args(hint)
    return type(None) in inner or (get_origin(hint) is Annotated and _may_be_none(inner[0]))


def _schema(kind: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return {**_schema(inner[0], definitions), **_notes(inner[1:])}
    if origin in _UNIONS:
        choices = [_schema(each, definitions) for each in inner if each is not type(None)]
        return choices[0] if len(choices) == 1 else {"anyOf": choices}
    if origin is Literal:
        return {"enum": list(inner)}
    if origin is tuple:
        return {"type": "array", "items": _schema(inner[0], definitions)}
    if origin is Mapping:
        return {"type": "object", "additionalProperties": _schema(inner[1], definitions)}
    if is_dataclass(kind) and isinstance(kind, type):
        if kind.__name__ not in definitions:
            definitions[kind.__name__] = {}  # for one that holds itself
            definitions[kind.__name__] = _object_schema(kind, definitions)
        return {"$ref": f"#/$defs/{kind.__name__}"}
    return {"type": _SCALARS[kind]}


def _object_schema(kind: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    return {
        "description": " ".join((kind.__doc__ or "").split()),
        "type": "object",
        "properties": {name: _schema(of, definitions) for name, of in _hints(kind).items()},
        "required": _required(kind),
    }


def _notes(marks: tuple[Any, ...]) -> dict[str, Any]:
    """What an annotation adds: a limit, or a sentence."""
    found: dict[str, Any] = {}
    for mark in marks:
        if isinstance(mark, Least):
            found["minimum"] = mark.value
        else:
            found["description"] = mark
    return found
