"""Frames: how messages lie in files, so that damage to one costs that one alone.

A mark, the length, a checksum, the bytes. Where a frame is torn or altered, the
reader goes on at the next mark and says how many bytes it could not read.
"""

import struct
import zlib
from collections.abc import Iterable
from dataclasses import dataclass

MARK = b"\xf1tml"
_HEADER = struct.Struct("<4sII")  # mark, length, CRC-32 of the bytes


@dataclass(frozen=True, slots=True)
class Frames:
    """What could be read of a file, in order, and how much of it could not."""

    payloads: tuple[bytes, ...]
    damaged_bytes: int  # before the last frame that is whole
    torn_bytes: int  # behind it: what was being written when the writer died


def framed(payloads: Iterable[bytes]) -> bytes:
    """The payloads as they go into a file."""
    return b"".join(
        _HEADER.pack(MARK, len(payload), zlib.crc32(payload)) + payload for payload in payloads
    )


def read_frames(data: bytes) -> Frames:
    """Every frame in `data` that is whole."""
    payloads, read, at, end = [], 0, 0, 0
    while (at := data.find(MARK, at)) >= 0:
        payload = _payload(data, at)
        if payload is None:
            at += 1
            continue
        payloads.append(payload)
        read += _HEADER.size + len(payload)
        at = end = at + _HEADER.size + len(payload)
    return Frames(tuple(payloads), end - read, len(data) - end)


def _payload(data: bytes, at: int) -> bytes | None:
    begin = at + _HEADER.size
    if begin > len(data):
        return None
    _, length, checksum = _HEADER.unpack_from(data, at)
    payload = data[begin : begin + length]
    return payload if len(payload) == length and zlib.crc32(payload) == checksum else None
