"""At any instant the training is in exactly one phase.

Each change charges the time since the last one to the phase that was current,
so nested phases never count twice and the phases of a step add up to it exactly.
"""

from traceml.rank.slots import (
    ABSENT,
    BACKWARD,
    COLLECTIVE_WAIT,
    DATALOADER,
    ELEMENTS,
    END_NS,
    ENDS,
    FORWARD,
    IDLE,
    LOSS,
    OPTIMIZER,
    OTHER,
    SAMPLES,
    TAGS,
    UNSEEN,
    WAIT_FORWARD,
    WAIT_OPTIMIZER,
    WAIT_OTHER,
    WIDTH,
    Row,
)

# Where a wait within a phase is counted; one in backward is what no other place has.
_PLACES = {FORWARD: WAIT_FORWARD, LOSS: WAIT_FORWARD, OPTIMIZER: WAIT_OPTIMIZER, BACKWARD: None}


class Phases:
    """The phase under way, those around it, and the row that they fill."""

    def __init__(self) -> None:
        self._blank: Row = [0] * WIDTH
        for slot in (
            *range(DATALOADER, OTHER),
            *range(WAIT_FORWARD, WAIT_OTHER + 1),
            SAMPLES,
            ELEMENTS,
        ):
            self._blank[slot] = ABSENT
        self._around: list[int] = []
        self.row = self._blank.copy()
        self.current = IDLE
        self.since = 0

    @property
    def is_outermost(self) -> bool:
        """Whether the current phase is in no other."""
        return not self._around

    def stack(self) -> list[int]:
        """The phases under way, the innermost last."""
        return [phase for phase in (*self._around, self.current) if phase not in (IDLE, OTHER)]

    def is_in(self, phase: int) -> bool:
        """Whether this phase is current, or around the current one."""
        return self.current == phase or phase in self._around

    def enter(self, phase: int, now: int) -> None:
        """Begin a phase within the current one."""
        self.measures(phase)
        self._charge(now)
        self._around.append(self.current)
        self.current = phase

    def leave(self, phase: int, now: int) -> bool:
        """End a phase and all within it; False if it had not begun, or was left out."""
        if not self.is_in(phase):
            return False
        self._charge(now)
        while self.current != phase:
            self.current = self._around.pop()
        self.current = self._around.pop() or OTHER
        return True

    def leave_loss(self, now: int) -> None:
        """What follows is no loss any more."""
        if self.current == LOSS:
            self.leave(LOSS, now)

    def leave_all(self) -> None:
        """Whatever was under way is not."""
        self._around.clear()
        self.current = OTHER

    def measures(self, slot: int) -> None:
        """From now on this slot is measured: 0 where nothing happens, not absent."""
        if self._blank[slot] == ABSENT:
            self._blank[slot] = 0
            self.row[slot] = 0

    def leave_waits_unseen(self, reasons: int) -> None:
        """From now on there are so many reasons for waits that nobody sees."""
        self._blank[UNSEEN] = reasons
        self.row[UNSEEN] = max(self.row[UNSEEN], reasons)

    def count(self, slot: int, value: int) -> None:
        """Add to a slot that is no phase."""
        self.measures(slot)
        self.row[slot] += value

    def tag(self, tag: int) -> None:
        """Tag what the row will be part of."""
        self.row[TAGS] |= tag

    def close(self, now: int) -> Row:
        """End the row here and begin another; the phase goes on."""
        self._charge(now)
        self.current = self.current or OTHER  # idle no more
        row, self.row = self.row, self._blank.copy()
        row[END_NS] = now
        return row

    def _charge(self, now: int) -> None:
        self.row[self.current] += now - self.since
        if self.current == COLLECTIVE_WAIT:
            self._charge_place(now - self.since)
        self.row[ENDS + self.current] = self.since = now

    def _charge_place(self, waited: int) -> None:
        around = next((phase for phase in reversed(self._around) if phase != COLLECTIVE_WAIT), IDLE)
        place = _PLACES.get(around, WAIT_OTHER)
        if place is not None:
            self.count(place, waited)
