"""Whether a value is of the kind that an annotation names: how a checkpoint's state is checked.

Annotations say more than types do: how large a number may be, how long a list, what shape an
array has. Whatever passes can be computed with in bounded memory and time.
"""

import math
import types
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np

from traceml.sidecar.limits import MAX_KEPT_RANKS, MAX_LOCAL_RANKS
from traceml.wire.columns import Integers, Matrix

_UNIONS = (Union, types.UnionType)
_LARGEST = 1e150  # its square is a number still


class ShapeError(ValueError):
    """A value is of another kind; the message says where and how."""


@dataclass(frozen=True, slots=True)
class Within:
    """In an annotation: from the one to the other."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Most:
    """In an annotation: of a text, list or dictionary, so many items at the most."""

    items: int


class Shape:
    """In an annotation: the lengths of an array's axes; None for any."""

    def __init__(self, *axes: int | None) -> None:
        self.axes = axes


Count = Annotated[int, Within(0, 2**62)]
RankNumber = Annotated[int, Within(0, 2**32)]
Expected = Annotated[int, Within(1, MAX_LOCAL_RANKS)]
Text = Annotated[str, Most(256)]
Moment = Annotated[float, Within(0.0, 1e11)]  # of the unix clock: up to the year 5138
Attempt = tuple[Annotated[int, Within(-1, 2**62)], Annotated[int, Within(-1, 2**62)]]
ByRank = Annotated[dict[RankNumber, Count], Most(MAX_KEPT_RANKS)]  # each rank's place among them
Row = Annotated[Matrix, Shape(None)]
Table = Annotated[Matrix, Shape(None, None)]
Cube = Annotated[Matrix, Shape(None, None, None)]
CountRow = Annotated[Integers, Shape(None)]


def check(kind: Any, value: Any, where: str) -> None:
    """ShapeError unless the value is of that kind."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Annotated:
        check(inner[0], value, where)
        for limit in inner[1:]:
            _expect(_is_within(limit, value), f"{limit}", where)
    elif origin is Literal:
        _expect(type(value) is str and value in inner, "one of those", where)
    elif origin in _UNIONS:
        _check_union(inner, value, where)
    elif origin is np.ndarray:
        _check_array(get_args(inner[1])[0], value, where)
    elif origin is not None:
        _expect(type(value) is origin, origin.__name__, where)
        _check_items(origin, inner, value, where)
    elif kind is float:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        _expect(is_number and not abs(value) > _LARGEST, "a number", where)
    elif kind is None:
        _expect(value is None, "nothing", where)
    elif kind is not Any:
        _expect(type(value) is kind, kind.__name__, where)


def check_attributes(kind: type, state: Any) -> None:
    """ShapeError unless the state holds each attribute that the class declares, and no other."""
    name = kind.__name__
    _expect(isinstance(state, dict), "a dictionary", name)
    hints = _hints(kind)
    _expect(state.keys() == hints.keys(), "what it declares", f"the attributes of {name}")
    for attribute, hint in hints.items():
        check(hint, state[attribute], f"{name}.{attribute}")


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind, include_extras=True)


def _check_union(inner: tuple[Any, ...], value: Any, where: str) -> None:
    for kind in inner[:-1]:
        try:
            return check(kind, value, where)
        except ShapeError:
            continue
    return check(inner[-1], value, where)


def _check_items(origin: type, inner: tuple[Any, ...], value: Any, where: str) -> None:
    if origin in (dict, Counter):
        of_keys, of_items = inner if origin is dict else (inner[0], Count)
        for key, item in value.items():
            check(of_keys, key, where)
            check(of_items, item, where)
    elif origin is tuple and inner[-1] is not Ellipsis:
        _expect(len(value) == len(inner), f"of {len(inner)} items", where)
        for kind, item in zip(inner, value, strict=True):
            check(kind, item, where)
    else:
        for item in value:
            check(inner[0], item, where)


def _check_array(dtype: Any, value: Any, where: str) -> None:
    is_one = isinstance(value, np.ndarray) and value.dtype == dtype
    _expect(is_one, f"an array of {np.dtype(dtype)}", where)
    if value.dtype.kind == "f":
        _expect(not (np.abs(value) > _LARGEST).any(), "of numbers", where)


def _is_within(limit: Any, value: Any) -> bool:
    if isinstance(limit, Within):
        return limit.low <= value <= limit.high and not math.isnan(value)
    if isinstance(limit, Most):
        return len(value) <= limit.items
    fits = zip(limit.axes, value.shape, strict=False)
    return len(limit.axes) == value.ndim and all(n in (None, of) for n, of in fits)


def is_numbered(columns: Mapping[int, int]) -> bool:
    """Whether each has a place of its own, and none is left out."""
    return sorted(columns.values()) == list(range(len(columns)))


def _expect(is_so: bool, wanted: str, where: str) -> None:
    if not is_so:
        raise ShapeError(f"{where} is not {wanted}")
