import zlib
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from traceml.wire import frames as frames_module
from traceml.wire.frames import MARK, Frames, FrameScan, framed, read_frames

payloads = st.lists(st.binary(max_size=40) | st.just(MARK) | st.just(b"x" + MARK * 3), max_size=8)


@given(payloads)
def test_what_was_framed_is_read(payloads: list[bytes]) -> None:
    frames = read_frames(framed(payloads))
    assert frames.payloads == tuple(payloads)
    assert (frames.damaged_bytes, frames.torn_bytes) == (0, 0)


@given(payloads, st.data())
def test_a_file_cut_anywhere_gives_all_frames_before_the_cut(
    payloads: list[bytes], data: st.DataObject
) -> None:
    whole = framed(payloads)
    cut = data.draw(st.integers(0, len(whole)))
    frames = read_frames(whole[:cut])
    assert frames.payloads == tuple(payloads[: len(frames.payloads)])
    before = len(framed(frames.payloads))
    assert frames.damaged_bytes == 0
    assert frames.torn_bytes == cut - before
    assert len(frames.payloads) == len(payloads) or cut < len(
        framed(payloads[: len(frames.payloads) + 1])
    )


def test_a_flipped_bit_costs_the_frame_it_is_in_and_no_other() -> None:
    payloads = [b"first", b"second one", b"the third", b"and the last"]
    whole = framed(payloads)
    for place in range(len(whole)):
        for bit in range(8):
            altered = bytearray(whole)
            altered[place] ^= 1 << bit
            frames = read_frames(bytes(altered))
            lost = [payload for payload in payloads if payload not in frames.payloads]
            assert len(lost) == 1, f"bit {bit} of byte {place}"
            assert len(frames.payloads) == 3
            assert frames.damaged_bytes + frames.torn_bytes == len(framed(lost))


@given(st.binary(max_size=400))
def test_any_bytes_can_be_read(data: bytes) -> None:
    frames = read_frames(data)
    read = len(framed(frames.payloads))
    assert read + frames.damaged_bytes + frames.torn_bytes == len(data)


def counted(data: bytes, monkeypatch: pytest.MonkeyPatch) -> tuple[Frames, int]:
    """What is read, and how many bytes were looked at for it."""
    looked = []

    def crc32(checked: bytes | memoryview) -> int:
        looked.append(memoryview(checked).nbytes)
        return zlib.crc32(checked)

    monkeypatch.setattr(frames_module, "zlib", SimpleNamespace(crc32=crc32))
    return read_frames(data), sum(looked)


@pytest.mark.parametrize("length", [b"\xff\xff\xff\xff", b"\0\0\x10\0", b"\0\x10\0\0", b"\1\0\0\0"])
def test_marks_that_begin_no_frame_are_not_looked_at_without_end(
    monkeypatch: pytest.MonkeyPatch, length: bytes
) -> None:
    data = (MARK + length) * 2**19
    frames, looked = counted(data, monkeypatch)
    assert looked <= 20 * len(data)
    assert frames.payloads == ()
    assert frames.damaged_bytes + frames.torn_bytes == len(data)


def test_frames_between_many_damaged_ones_are_read() -> None:
    damaged = framed([b"x" * 1000])[:-1] + b"y"
    data = (damaged * 4 + framed([b"whole"])) * 1000
    assert read_frames(data).payloads == (b"whole",) * 1000


def test_what_is_longer_than_any_frame_of_its_kind_is_none() -> None:
    scan = FrameScan(framed([b"x" * 11, b"y" * 10]), 10)
    assert list(scan) == [b"y" * 10]
    assert scan.damaged_bytes == 23
