"""What was read of a device's memory, and which steps it is told of."""

from dataclasses import dataclass

from traceml.rank.slots import ABSENT, ALLOCATED, FLOOR, RESERVED, RETRIES, Row


@dataclass(frozen=True, slots=True)
class Reading:
    """What an allocator said, in bytes."""

    allocated: int  # at the most, in the step
    reserved: int
    floor: int  # what stays allocated where the step ends; ABSENT if nobody saw that
    retries: int  # since the reading before
    retries_so_far: int
    cost_ns: int  # what it took the training thread to read it


class Carried:
    """The last reading: peaks hold until the next, for steps that are shorter than the time
    between two. The floor and the retries are told once, so that none counts twice.
    """

    def __init__(self) -> None:
        self._allocated = self._reserved = self._floor = self._retries = ABSENT
        self.retries_so_far = 0
        self._is_told = True

    def take(self, reading: Reading) -> None:
        """Tell this reading of the step that ends next."""
        several = not self._is_told  # in one step
        self._allocated = max(reading.allocated, self._allocated if several else ABSENT)
        self._retries = reading.retries + (self._retries if several else 0)
        self._reserved, self._floor = reading.reserved, reading.floor
        self.retries_so_far = reading.retries_so_far
        self._is_told = False

    def fill(self, row: Row) -> None:
        """Tell it of this step."""
        row[ALLOCATED], row[RESERVED] = self._allocated, self._reserved
        row[FLOOR], row[RETRIES] = self._floor, self._retries
        if not self._is_told:
            self._is_told = True
            self._floor, self._retries = ABSENT, 0
