"""The collector's state as bytes: a tree of plain values, arrays, messages and our own objects.

Like pickle, but it makes only what is named here, because a run's folder may come
from anywhere.
"""

import json
import zlib
from collections import Counter
from collections.abc import Sequence
from itertools import islice
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from google.protobuf.message import DecodeError, Message

from traceml.files import limits, parse_json
from traceml.sidecar.shapes import ShapeError, check_attributes
from traceml.wire import telemetry_pb2 as pb
from traceml.wire.frames import FrameScan, framed

FORMAT = 9  # raise it when an attribute of a saved class comes, goes or changes its meaning

_COMPRESSION = 1  # histograms are mostly zeros: the fastest level takes most of them
_MESSAGES = {kind.__name__: kind for kind in (pb.Identity, pb.Heartbeat, pb.Sampled)}
_OBJECTS: dict[str, type] = {}
_DTYPES = {np.dtype(kind).str for kind in (bool, np.uint8, np.int32, np.int64, np.float64)}

Class = TypeVar("Class", bound=type)


class UnreadableError(Exception):
    """These bytes are no checkpoint, or one of another format."""


def saved(kind: Class) -> Class:
    """Mark a class whose objects are part of the state: all of their attributes are.

    Each is declared in the class's body, and checked when it is read again. With `save()` and
    `load(state)` a class chooses for itself what is kept of it; `is_sound()` says what types
    can't: whether its parts belong together.
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
    scan = FrameScan(data)
    payloads = list(islice(scan, 1 + limits.ARRAYS))
    if scan.damaged_bytes or scan.torn_bytes or not payloads:
        raise UnreadableError("damaged")
    if len(payloads[0]) > limits.DOCUMENT_BYTES:
        raise UnreadableError("too large")
    try:
        document = parse_json(payloads[0], limits.DOCUMENT_VALUES, constants=True)
        if document["format"] != FORMAT:
            raise UnreadableError(f"of format {document['format']!r:.20}, not {FORMAT}")
        if len(payloads) != 1 + document["arrays"]:
            raise UnreadableError("not whole")
        return _Restoring(payloads).restored(document["state"])
    except (
        ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError,
        MemoryError, zlib.error, DecodeError,
    ) as error:  # fmt: skip
        raise UnreadableError(f"no checkpoint of ours: {error!r:.100}") from None


class _Restoring:
    """Makes a state of its document and arrays, which may not be more than there is room for."""

    def __init__(self, payloads: Sequence[bytes]) -> None:
        self._payloads = payloads
        self._room = limits.UNPACKED_BYTES

    def restored(self, value: Any) -> Any:
        """The value that stands for itself, or that its kind and content tell of."""
        if not isinstance(value, dict):
            return value
        ((kind, content),) = value.items()
        if kind == "array":
            return self._array(*content)
        if kind in ("dict", "Counter"):
            pairs = [(self.restored(key), self.restored(item)) for key, item in content]
            return Counter(dict(pairs)) if kind == "Counter" else dict(pairs)
        if kind in ("list", "tuple"):
            items = [self.restored(item) for item in content]
            return items if kind == "list" else tuple(items)
        if kind in _MESSAGES:
            return _MESSAGES[kind].FromString(self.restored(content).tobytes())
        return _made(_OBJECTS[kind], self.restored(content))

    def _array(self, index: int, dtype: str, shape: list[int]) -> npt.NDArray[Any]:
        if dtype not in _DTYPES:
            raise ShapeError(f"an array of {dtype!r:.20}")
        inflating = zlib.decompressobj()
        raw = bytearray(inflating.decompress(self._payloads[index], self._room + 1))
        self._room -= len(raw)
        if self._room < 0 or not inflating.eof:
            raise ShapeError("more than there is room for")
        array = np.frombuffer(raw, np.uint8 if dtype == "|b1" else dtype).reshape(shape)
        return array != 0 if dtype == "|b1" else array


def _made(kind: type, state: Any) -> Any:
    load = getattr(kind, "load", None)
    if load is not None:
        thing: Any = load(state)
    else:
        check_attributes(kind, state)
        thing = object.__new__(kind)
        vars(thing).update(state)
    if hasattr(kind, "is_sound") and not thing.is_sound():
        raise ShapeError(f"the parts of {kind.__name__} do not belong together")
    return thing
