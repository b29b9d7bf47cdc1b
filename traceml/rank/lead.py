"""How far the CPU is ahead of its device at each mark, and so when the device idles.

An event is recorded by the CPU at one time and passed by the device at another, each told by
its own clock. A device never passes an event before it was recorded, nor before it was found
not to have been passed: the largest of these differences, taken over the last moments because
clocks drift, says how the two clocks lie to each other at the least.

A device that passes a mark at once had nothing left to do. So the time since the mark before
went at the CPU's pace. How much of it the device was idle shows no event; all of it at most.
"""

from collections.abc import Iterator, Sequence

_SPAN_NS = 1_000_000_000  # two of these are looked back on
_AT_ONCE_NS = 100_000
_AT_ONCE_RATIO = 0.05  # of the time since the mark before, if that is more
_NEVER = -(1 << 62)


class Lead:
    """Compares the two clocks, segment by segment."""

    def __init__(self) -> None:
        self._offset = self._offset_before = _NEVER  # from the device's clock to the CPU's
        self._since = 0  # when the present span began
        self._last = -1  # the device's time at the last mark; -1 if unknown

    def interrupt(self) -> None:
        """The times of some marks are not known."""
        self._last = -1

    def idle(
        self, recorded: Sequence[int], passed: Sequence[int], not_passed_ns: int
    ) -> Iterator[int]:
        """For each mark, how long the device may have idled since the one before.

        `recorded` is told by the CPU's clock, as is when the last was found not to be passed.
        """
        offset = self._look(recorded, passed, not_passed_ns)
        for cpu, device in zip(recorded, passed, strict=True):
            took = device - self._last if self._last >= 0 else 0
            self._last = device
            behind = device + offset - cpu
            yield took if behind <= max(_AT_ONCE_NS, _AT_ONCE_RATIO * took) else 0

    def _look(self, recorded: Sequence[int], passed: Sequence[int], not_passed_ns: int) -> int:
        if recorded[-1] - self._since > _SPAN_NS:
            self._since = recorded[-1]
            self._offset_before, self._offset = self._offset, _NEVER
        least = max(cpu - device for cpu, device in zip(recorded, passed, strict=True))
        self._offset = max(self._offset, least, not_passed_ns - passed[-1])
        return max(self._offset, self._offset_before)
