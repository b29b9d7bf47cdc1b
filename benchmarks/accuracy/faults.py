"""What this rank does in this step: its share of the work, and the fault if one is planted here."""

import os
import random
import signal
import time

from benchmarks.accuracy.labour import Labour
from benchmarks.accuracy.schedule import ALL, CALIBRATION_STEPS, ROTATING, Schedule, Segment

BATCH = 8

# Forward, backward and optimizer alike, so that whichever is delayed is the largest; with more
# ranks more, because their exchange takes longer, and should stay a small part of the step.
_INPUT_SECONDS = 0.0005
_PHASE_SECONDS, _PHASE_SECONDS_PER_RANK = 0.004, 0.0025
_FOR_EVER_SECONDS = 3600.0


class Faults:
    """The schedule as one rank lives through it; `begin` says which step it is."""

    def __init__(self, schedule: Schedule, rank: int, labour: Labour) -> None:
        self.healthy_step_seconds = 0.0  # known once it has been measured
        self.segment = Segment(CALIBRATION_STEPS)
        self._schedule = schedule
        self._rank = rank
        self._labour = labour
        self._since = 0  # the segment's first step
        self._step = 0
        self._starts = dict(zip(schedule.starts, schedule.segments, strict=True))
        self._kept: list[bytes] = []
        self._sizes = random.Random(rank)
        self.batch_size = BATCH

    def begin(self, step: int) -> None:
        """From here on it is this step."""
        self._step = step
        if step in self._starts:
            self.segment, self._since = self._starts[step], step
            self._kept.clear()
        spread = round(BATCH * self.segment.batch_spread)
        self.batch_size = BATCH + self._sizes.randint(-spread, spread)

    def is_due(self, every: int) -> bool:
        """Whether something that happens once in so many steps happens in this one."""
        return every > 0 and (self._step - self._since) % every == every - 1

    def work(self, place: str) -> None:
        """Do what is to be done here in a healthy step, and what a fault adds."""
        self._get_stuck(place)
        if place == "forward" and self.segment.leak_mib and self._is_meant():
            self._kept.append(b"x" * int(self.segment.leak_mib * 2**20))
        self._labour.take(self._base_seconds(place))
        self._labour.take(self._delay_seconds(place), alone=self.segment.ranks != ALL)

    def wait_for_exchange(self) -> None:
        """What a slow network adds; it computes nothing."""
        time.sleep(self._delay_seconds("exchange"))

    def start_cold(self) -> None:
        """What comes before the first batch."""
        time.sleep(self._schedule.cold_seconds)

    def _base_seconds(self, place: str) -> float:
        if place not in ("input", "forward", "backward", "optimizer"):
            return 0.0
        seconds = _PHASE_SECONDS + _PHASE_SECONDS_PER_RANK * self._schedule.world_size
        if place == "input":
            seconds = _INPUT_SECONDS
        if place in ("forward", "backward"):  # by the sample
            seconds *= self.batch_size / BATCH
        return seconds if place == "optimizer" else seconds / self.segment.accumulate

    def _delay_seconds(self, place: str) -> float:
        segment = self.segment
        turn, off = divmod(self._step - self._since, segment.every)
        if segment.place != place or segment.stuck or off or not self._is_meant(turn):
            return 0.0
        return segment.delay * self.healthy_step_seconds

    def _is_meant(self, turn: int = 0) -> bool:
        if self.segment.ranks == ROTATING:
            return turn % self._schedule.world_size == self._rank
        return self.segment.ranks in (ALL, self._rank)

    def _get_stuck(self, place: str) -> None:
        segment = self.segment
        if segment.place != place or not segment.stuck or not self._is_meant():
            return
        if segment.stuck == "stopped":
            os.kill(os.getpid(), signal.SIGSTOP)
        time.sleep(_FOR_EVER_SECONDS)
