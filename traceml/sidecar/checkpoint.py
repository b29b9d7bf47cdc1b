"""The collector's state as bytes: a tree of plain values, arrays, messages and our own objects.

Like pickle, but it makes only what is named here, because a run's folder may come
from anywhere.
"""

import json
import zlib
from collections import Counter
from typing import Any, TypeVar

import numpy as np
from google.protobuf.message import DecodeError, Message

from traceml.wire import telemetry_pb2 as pb
from traceml.wire.frames import framed, read_frames

FORMAT = 5  # raise it when an attribute of a saved class comes, goes or changes its meaning

_COMPRESSION = 1  # histograms are mostly zeros: the fastest level takes most of them
_MESSAGES = {kind.__name__: kind for kind in (pb.Identity, pb.Heartbeat, pb.Sampled)}
_OBJECTS: dict[str, type] = {}

Class = TypeVar("Class", bound=type)


class UnreadableError(Exception):
    """These bytes are no checkpoint, or one of another format."""


def saved(kind: Class) -> Class:
    """Mark a class whose objects are part of the state: all of their attributes are.

    With `save()` and `load(state)` a class chooses for itself what is kept of it.
    """
    assert kind.__name__ not in _OBJECTS, "its name is how it is found again"
    _OBJECTS[kind.__name__] = kind
    return kind


def capture(value: Any) -> Any:
    """A copy of the state that goes on unchanged while the state itself does not."""
    if isinstance(value, np.ndarray):
        return value.copy()
    if isinstance(value, Message):
        name = type(value).__name__
        return {name: np.frombuffer(value.SerializeToString(), np.uint8)}
    if isinstance(value, dict):
        kind = type(value).__name__
        return {kind: [[capture(key), capture(item)] for key, item in value.items()]}
    if isinstance(value, list | tuple):
        return {type(value).__name__: [capture(item) for item in value]}
    if type(value).__name__ in _OBJECTS:
        state = value.save() if hasattr(value, "save") else vars(value)
        return {type(value).__name__: capture(state)}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"a checkpoint cannot hold {value!r}")


def pack(captured: Any) -> bytes:
    """A captured state as bytes."""
    arrays: list[bytes] = []

    def replaced(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            arrays.append(zlib.compress(value.tobytes(), _COMPRESSION))
            return {"array": [len(arrays), value.dtype.str, value.shape]}
        if isinstance(value, dict):
            return {kind: replaced(item) for kind, item in value.items()}
        return [replaced(item) for item in value] if isinstance(value, list) else value

    tree = replaced(captured)
    document = {"format": FORMAT, "arrays": len(arrays), "state": tree}
    return framed([json.dumps(document).encode(), *arrays])


def unpack(data: bytes) -> Any:
    """The state that was captured and packed, made anew; UnreadableError if it can't be."""
    frames = read_frames(data)
    if frames.damaged_bytes or frames.torn_bytes or not frames.payloads:
        raise UnreadableError("damaged")
    try:
        document = json.loads(frames.payloads[0])
        if document["format"] != FORMAT:
            raise UnreadableError(f"of format {document['format']}, not {FORMAT}")
        if len(frames.payloads) != 1 + document["arrays"]:
            raise UnreadableError("not whole")
        return _restored(document["state"], frames.payloads)
    except (ValueError, LookupError, TypeError, AttributeError, zlib.error, DecodeError) as error:
        raise UnreadableError(f"no checkpoint of ours: {error!r}") from None


def _restored(value: Any, payloads: tuple[bytes, ...]) -> Any:
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    if kind == "array":
        index, dtype, shape = content
        raw = zlib.decompress(payloads[index])
        return np.frombuffer(raw, np.dtype(dtype)).reshape(shape).copy()
    if kind in ("dict", "Counter"):
        pairs = [(_restored(key, payloads), _restored(item, payloads)) for key, item in content]
        return Counter(dict(pairs)) if kind == "Counter" else dict(pairs)
    if kind in ("list", "tuple"):
        items = [_restored(item, payloads) for item in content]
        return items if kind == "list" else tuple(items)
    if kind in _MESSAGES:
        return _MESSAGES[kind].FromString(_restored(content, payloads).tobytes())
    return _made(_OBJECTS[kind], _restored(content, payloads))


def _made(kind: type, state: dict[str, Any]) -> Any:
    load = getattr(kind, "load", None)
    if load is not None:
        return load(state)
    thing: Any = object.__new__(kind)
    vars(thing).update(state)
    return thing
