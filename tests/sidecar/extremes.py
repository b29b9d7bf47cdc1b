"""One message with one field that is out of all bounds, for every field that there is."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from traceml.sidecar.limits import LIMITS, Column, Number
from traceml.wire import telemetry_pb2 as pb
from traceml.wire.columns import VALUES

DOUBLES = (float("nan"), float("inf"), float("-inf"), 1e308, -1e308, 1e19, -1.0, 5e-324, 1e-30)
TEXTS = ("", "x" * 10_000, '\0\x1b[31m\n"\\', "\u202e\U0001f600", "NaN", "-1")
COLUMN = (float("nan"), float("inf"), float("-inf"), 3e38, -3e38, 1e19, -1.0, 1e-45, 1e-30, 0.0)
SPOILT = (b"", b"\0", b"\xff" * 7, b"\xff" * 800)
MANY = 2_000

_NUMBERS: dict[int, tuple[int, ...]] = {
    FieldDescriptor.TYPE_UINT32: (2**32 - 1, 2**31, 2**31 - 1),
    FieldDescriptor.TYPE_UINT64: (2**64 - 1, 2**63, 2**63 - 1, 2**53 + 1),
    FieldDescriptor.TYPE_INT32: (2**31 - 1, -(2**31), -1),
    FieldDescriptor.TYPE_INT64: (2**63 - 1, -(2**63), -1),
    FieldDescriptor.TYPE_BOOL: (0, 1),
}


def read_messages() -> dict[str, Descriptor]:
    """All that a sidecar reads, from ranks and from journals, by name."""
    service = pb.DESCRIPTOR.services_by_name["Telemetry"]
    found: dict[str, Descriptor] = {}
    waiting: list[Any] = [pb.Entry.DESCRIPTOR, *(method.input_type for method in service.methods)]
    while waiting:
        message = waiting.pop()
        if message.name not in found:
            found[message.name] = message
            waiting += [field.message_type for field in message.fields if field.message_type]
    return found


def message_of(field: FieldDescriptor) -> str:
    """The message that it is a field of."""
    assert field.containing_type is not None
    return str(field.containing_type.name)


def altered(message: Message, field: FieldDescriptor) -> Iterator[Any]:
    """Copies in which this field holds each of its extremes."""
    for extreme in _extremes(message, field):
        copy = type(message)()
        copy.CopyFrom(message)
        copy.ClearField(field.name)
        if _is_repeated(message, field):
            getattr(copy, field.name).extend(extreme)
        elif field.type == FieldDescriptor.TYPE_MESSAGE:
            assert extreme is None  # it is missing
        else:
            setattr(copy, field.name, extreme)
        yield copy


def _extremes(message: Message, field: FieldDescriptor) -> Iterator[Any]:
    if field.type == FieldDescriptor.TYPE_MESSAGE:
        yield [*getattr(message, field.name)] * MANY if _is_repeated(message, field) else None
    elif _is_repeated(message, field):
        yield from ([text] for text in TEXTS)
        yield [TEXTS[2]] * MANY
    elif field.type == FieldDescriptor.TYPE_STRING:
        yield from TEXTS
    elif field.type == FieldDescriptor.TYPE_DOUBLE:
        yield from (*DOUBLES, *_limits(message.DESCRIPTOR.name, field.name))
    elif field.type == FieldDescriptor.TYPE_BYTES:
        yield from SPOILT
        yield from _columns(field.name, getattr(message, "records"))  # noqa: B009
    else:
        yield from _NUMBERS[field.type]
        yield from map(int, _limits(message.DESCRIPTOR.name, field.name))


def _is_repeated(message: Message, field: FieldDescriptor) -> bool:
    """The descriptors of protobuf's versions do not agree on how to ask them."""
    return hasattr(getattr(message, field.name), "extend")


def _columns(name: str, records: int) -> Iterator[bytes]:
    """Columns of the right size, with each extreme as their last value, and nothing but it."""
    if name not in VALUES:
        kind = np.dtype("<u4" if name == "step" else "u1")
        yield np.full(records, np.iinfo(kind).max, kind).tobytes()
        return
    precision = np.dtype("<f8" if name == "end_ns" else "<f4")
    for extreme in (*COLUMN, *_limits("Batch", name)):
        yield np.full(records, extreme, precision).tobytes()
        yield np.array([*[1e6] * (records - 1), extreme], precision).tobytes()


def _limits(message: str, name: str) -> tuple[float, ...]:
    """The last values that are not out of bounds: they have to be borne."""
    kind = LIMITS[message][name]
    if isinstance(kind, Column):
        return float(np.nextafter(np.float32(kind.of.most), np.float32(0))), kind.of.smallest
    return (kind.most, kind.smallest or kind.least) if isinstance(kind, Number) else ()
