"""Changes to what was read well: fields of messages, parts of documents, values of arrays."""

import json
import struct
from random import Random
from typing import Any

from google.protobuf.message import DecodeError

from tests.fuzz.packing import hidden, listed, parts_of, shown
from traceml.wire import telemetry_pb2 as pb

NUMBERS = [
    0, 1, -1, 2, 3, 16, 99, 100, 255, 256, 400, 1023, 1025, 2**31, 2**32 - 1, 2**53, 2**63, 2**64,
    10**30, -(2**63), 0.0, -0.0, 0.5, -0.5, 1e-300, 1e17, 1e18, 1e38, 1e150, 1e300,
    float("inf"), float("-inf"), float("nan"),
]  # fmt: skip
TEXTS = ["", "x", "running", "completed", "\x1b[2J", "../../x", "é" * 300, "NaN", "\ud800", "{"]
_MOST_ENTRIES = 60


def mutate_document(data: bytes, random: Random) -> bytes:
    """JSON in which some things are other things, or gone, or there twice."""
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return mutate_bytes(data, random)
    for _ in range(random.randint(1, 4)):
        document = _changed(document, random)
    return json.dumps(document).encode("utf-8", "replace")


def mutate_entries(data: bytes, random: Random) -> bytes:
    """Entries in another order, or with other fields."""
    parts = parts_of(data)
    for _ in range(random.randint(1, 4)):
        at = random.randrange(len(parts)) if parts else 0
        choice = random.random()
        if not parts or choice < 0.1:
            parts.insert(at, mutate_bytes(random.choice(parts or [b""]), random))
        elif choice < 0.2:
            parts.insert(random.randrange(len(parts) + 1), random.choice(parts))
        elif choice < 0.3:
            del parts[at]
        else:
            parts[at] = _mutated_entry(parts[at], random)
    return listed(parts[:_MOST_ENTRIES])


def mutate_bytes(data: bytes, random: Random) -> bytes:
    """Bytes that are others, gone, or there twice."""
    altered = bytearray(data or b"\0")
    for _ in range(random.randint(1, 4)):
        at = random.randrange(len(altered) + 1)
        choice = random.random()
        if choice < 0.5:
            altered[at : at + 1] = bytes([random.randrange(256)])
        elif choice < 0.7:
            del altered[at : at + random.randint(1, 40)]
        else:
            begin = random.randrange(len(altered) + 1)
            altered[at:at] = altered[begin : begin + random.randint(1, 40)]
    return bytes(altered)


def _changed(document: Any, random: Random) -> Any:
    inside: Any = None
    key: Any = None
    value = document
    while isinstance(value, dict | list) and value and random.random() < 0.93:
        inside, key = value, random.choice(_keys(value))
        value = value[key]
    if inside is None:
        return document
    if isinstance(value, str) and len(value) > 10 and random.random() < 0.9:
        inside[key] = _altered_array(value, random)
    elif random.random() < 0.2:
        del inside[key]
    else:
        inside[key] = _anything(document, random)
    return document


def _keys(value: Any) -> list[Any]:
    return list(value) if isinstance(value, dict) else list(range(len(value)))


def _anything(document: Any, random: Random) -> Any:
    choice = random.random()
    if choice < 0.5:
        return random.choice(NUMBERS)
    if choice < 0.65:
        return random.choice(TEXTS)
    if choice < 0.8:
        return random.choice([None, True, False, [], {}, [[]], {"dict": []}, {"list": []}])
    while isinstance(document, dict | list) and document and random.random() < 0.9:
        document = document[random.choice(_keys(document))]
    return json.loads(json.dumps(document))  # a part of the same, elsewhere


def _altered_array(text: str, random: Random) -> str:
    """Some values of an array are other values, or it is longer or shorter."""
    array = hidden(text)
    if array is None:
        return text[: random.randrange(len(text))]
    raw = bytearray(array)
    value = random.choice(NUMBERS)
    try:
        item = struct.pack("<d", value) if random.random() < 0.5 else struct.pack("<q", int(value))
    except (struct.error, ValueError, OverflowError):
        item = bytes([random.randrange(256)]) * 8
    if random.random() < 0.1:
        raw = raw[: random.randrange(len(raw) + 1)]
    elif random.random() < 0.1:
        raw += item * random.randint(1, 4)
    else:
        at = random.randrange(max(len(raw) // 8, 1)) * 8
        often = random.choice([1, 1, 1, len(raw) // 8])
        raw[at : at + 8 * often] = (item * often)[: len(raw) - at]
    return shown(bytes(raw))


def _mutated_entry(data: bytes, random: Random) -> bytes:
    try:
        entry = pb.Entry.FromString(data)
    except DecodeError:
        return mutate_bytes(data, random)
    _mutate_message(entry, random)
    return entry.SerializeToString()


def _mutate_message(message: Any, random: Random) -> None:
    fields = message.DESCRIPTOR.fields
    given = [field for field, _ in message.ListFields()]
    field = random.choice(given if given and random.random() < 0.8 else fields)
    value = getattr(message, field.name)
    if field.message_type is not None and not hasattr(value, "append"):
        _mutate_message(value, random)
    elif hasattr(value, "append"):
        _mutate_repeated(value, field, random)
    elif isinstance(value, bytes):
        setattr(message, field.name, _column(value, random))
    else:
        _assign(message, field.name, random.choice([*NUMBERS, *TEXTS]))


def _mutate_repeated(values: Any, field: Any, random: Random) -> None:
    if values and random.random() < 0.3:
        del values[random.randrange(len(values))]
    elif field.message_type is None:
        values.extend([random.choice(["", "a note", "x" * 5000])] * random.choice([1, 1, 100]))
    elif values and random.random() < 0.7:
        _mutate_message(random.choice(list(values)), random)
    else:
        _mutate_message(values.add(), random)


def _column(value: bytes, random: Random) -> bytes:
    number = random.choice(NUMBERS)
    try:
        item = random.choice([struct.pack("<f", number), struct.pack("<d", number)])
    except OverflowError:
        item = struct.pack("<I", random.randrange(2**32))
    at = random.randrange(len(value) // len(item) + 1) * len(item)
    altered = value[:at] + item + value[at + len(item) :]
    return random.choice([altered, altered, altered[: len(value)], b"", value + item])


def _assign(message: Any, name: str, value: Any) -> None:
    for attempt in (value, 7, "text", 0.25, True):
        try:
            setattr(message, name, attempt)
        except (TypeError, ValueError):
            continue
        return
