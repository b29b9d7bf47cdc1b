"""Frames: how messages lie in files, so that damage to one costs that one alone.

A mark, the length, a checksum, the bytes. Where a frame is torn or altered, the
reader goes on at the next mark and says how many bytes it could not read.
"""

import struct
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from traceml.files import limits

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
    scan = FrameScan(data)
    payloads = tuple(scan)
    return Frames(payloads, scan.damaged_bytes, scan.torn_bytes)


class FrameScan:
    """The frames in `data` that are whole, one after the other; of up to `largest` bytes each.

    Work is linear in the data: when too much of it was looked at in vain, nothing more is
    looked for, and what is left counts as damaged.
    """

    def __init__(self, data: bytes, largest: int = limits.SEGMENT_BYTES) -> None:
        self._data = data
        self._view = memoryview(data)
        self._largest = largest
        self._in_vain = limits.SCANS * (len(data) + limits.MIB)  # bytes that still may be
        self._read = 0
        self._end = 0  # of the last frame that is whole

    @property
    def damaged_bytes(self) -> int:
        """So far, before the last frame that is whole; and all the rest, if it is given up."""
        end = len(self._data) if self._in_vain < 0 else self._end
        return end - self._read

    @property
    def torn_bytes(self) -> int:
        """Behind it: what was being written when the writer died."""
        return 0 if self._in_vain < 0 else len(self._data) - self._end

    def __iter__(self) -> Iterator[bytes]:
        at = 0
        while self._in_vain >= 0 and (at := self._data.find(MARK, at)) >= 0:
            payload = self._payload(at)
            if payload is None:
                at += 1
                continue
            at = self._end = at + _HEADER.size + len(payload)
            self._read += _HEADER.size + len(payload)
            yield payload

    def _payload(self, at: int) -> bytes | None:
        begin = at + _HEADER.size
        if begin <= len(self._data):
            _, length, checksum = _HEADER.unpack_from(self._data, at)
            if length <= min(self._largest, len(self._data) - begin):
                payload = self._view[begin : begin + length]
                if zlib.crc32(payload) == checksum:
                    return bytes(payload)
                self._in_vain -= length
        self._in_vain -= limits.MARK_COST_BYTES
        return None
