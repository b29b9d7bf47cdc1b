"""A line of the log that the fake accelerator keeps."""

from typing import NamedTuple


class Entry(NamedTuple):
    """What a stream did, by the device's clock, which is the host's monotonic one."""

    stream: int
    kind: str  # kernel, copy, collective, wait or mark
    label: str
    awaited: int  # of a wait: the stream that is waited for
    queued_ns: int
    begin_ns: int
    end_ns: int
