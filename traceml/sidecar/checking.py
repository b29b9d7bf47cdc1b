"""Messages against their limits: what comes in at the border, and from a journal."""

from typing import Any

import numpy as np
from google.protobuf.message import Message

from traceml.sidecar.limits import (
    LIMITS,
    REQUIRED,
    Column,
    Inner,
    Kind,
    Number,
    Several,
    Text,
    Word,
)
from traceml.sidecar.refusal import MalformedError
from traceml.wire.columns import VALUES, Records
from traceml.wire.tags import Tag

_SHOWN = 40  # characters of a value that is refused


def _bounds(name: str) -> Number:
    kind = LIMITS["Batch"][name]
    assert isinstance(kind, Column)
    return kind.of


_MOST = np.array([_bounds(name).most for name in VALUES])
_SMALLEST = np.array([_bounds(name).smallest for name in VALUES])
_TAGS = sum(Tag)


def check(message: Message) -> None:
    """Take out what was measured beyond its limits; MalformedError for what is nonsense.

    The columns of a batch are left as they are: see `bounded`.
    """
    kind = message.DESCRIPTOR.name
    limits, given = LIMITS[kind], message.ListFields()
    for field, value in given:
        if type(limits[field.name]) is not Column:
            _check(message, field.name, value, limits[field.name])
    missing = {*REQUIRED[kind]} - {field.name for field, _ in given}
    if missing:
        raise MalformedError(f"{kind} without {', '.join(sorted(missing))}")


def bounded(records: Records) -> Records:
    """Records in which a value beyond its limits is absent, and a tag that is unknown the user's.

    ValueError if a step has no length then. Changes what it is given.
    """
    values, tags = records.values, records.tags
    beyond = (values > _MOST) | (values < _SMALLEST) & (values != 0)  # NaN is not
    if beyond.any():
        values[beyond] = np.nan
        if beyond[:, 0].any():
            raise ValueError("a step in it has no length")
    if (tags > _TAGS).any():
        tags[:] = np.where(tags > _TAGS, tags & _TAGS | Tag.USER, tags)
    return records


def _check(message: Message, name: str, value: Any, kind: Kind) -> None:
    if isinstance(kind, Number):
        if not kind.allows(value):
            allowed = f"{kind.least} to {kind.most}"
            _leave_out(message, name, value, kind.is_measured, allowed)
    elif isinstance(kind, Word):
        if value not in kind.known:
            allowed = f"one of {', '.join(kind.known)}"
            _leave_out(message, name, value, kind.is_measured, allowed)
    elif isinstance(kind, Text):
        if len(value) > kind.most:
            raise _malformed(message, name, value, f"{kind.most} characters at most")
    elif isinstance(kind, Several):
        _check_several(message, name, value, kind)
    elif isinstance(kind, Inner):
        check(value)


def _check_several(message: Message, name: str, values: Any, kind: Several) -> None:
    if isinstance(kind.of, Text):
        values[:] = [text[: kind.of.most] for text in values[: kind.most]]
    elif len(values) > kind.most:
        raise _malformed(message, name, len(values), f"{kind.most} at most")
    else:
        for value in values:
            check(value)


def _leave_out(message: Message, name: str, value: Any, is_measured: bool, allowed: str) -> None:
    if not is_measured:
        raise _malformed(message, name, value, allowed)
    message.ClearField(name)


def _malformed(message: Message, name: str, value: object, allowed: str) -> MalformedError:
    shown = repr(value)
    shown = shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}..."
    return MalformedError(f"{message.DESCRIPTOR.name}.{name} is {shown}, and can be {allowed}")
