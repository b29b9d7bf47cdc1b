"""Inputs of the fuzzer: what lies in files without checksums, so that changes are not in vain."""

import base64
import json
import struct
import zlib
from collections.abc import Iterable
from typing import Any

from traceml.sidecar.checkpoint import FORMAT
from traceml.wire.frames import framed, read_frames

_LENGTH = struct.Struct("<I")


def listed(parts: Iterable[bytes]) -> bytes:
    """Parts one after the other, each with its length before it."""
    return b"".join(_LENGTH.pack(len(part)) + part for part in parts)


def parts_of(data: bytes) -> list[bytes]:
    """The parts, as far as there are any."""
    parts = []
    while len(data) >= _LENGTH.size:
        (length,) = _LENGTH.unpack_from(data)
        parts.append(data[_LENGTH.size : _LENGTH.size + length])
        data = data[_LENGTH.size + length :]
    return parts


def opened(checkpoint: bytes) -> bytes:
    """A checkpoint as one document, with its arrays in it."""
    document, *arrays = read_frames(checkpoint).payloads
    texts = [shown(zlib.decompress(array)) for array in arrays]
    return json.dumps({"state": json.loads(document)["state"], "arrays": texts}).encode()


def shown(array: bytes) -> str:
    """An array's bytes in a document: they are mostly zeros, and inputs should be short."""
    return base64.b64encode(zlib.compress(array)).decode()


def hidden(text: Any) -> bytes | None:
    """The array's bytes that a document shows; None if it shows none, or too many."""
    try:
        return zlib.decompressobj().decompress(base64.b64decode(text), 2**24)
    except (ValueError, TypeError, zlib.error):
        return None


def closed(document: Any) -> bytes:
    """The checkpoint that such a document is; of what is no document, one that is empty."""
    if not isinstance(document, dict):
        document = {}
    texts = document.get("arrays")
    arrays = [_deflated(text) for text in texts] if isinstance(texts, list) else []
    tree = {"format": FORMAT, "arrays": len(arrays), "state": document.get("state")}
    return framed([json.dumps(tree).encode(), *arrays])


def _deflated(text: Any) -> bytes:
    array = hidden(text)
    return repr(text).encode() if array is None else zlib.compress(array, 1)
