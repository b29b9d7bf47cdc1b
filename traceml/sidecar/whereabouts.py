"""Where in its step a rank is, and where it has been for longest."""

from traceml.sidecar.checkpoint import saved
from traceml.sidecar.shapes import Count, Text


@saved
class Whereabouts:
    """What the heartbeats of one process tell, by the time at which they came."""

    step: Count
    phase: Text
    _since: float
    _longest: tuple[Text, float]  # of the phases that it has left in this step, and how long

    def __init__(self) -> None:
        self.step = 0
        self.phase = ""
        self._since = 0.0
        self._longest = ("", 0.0)

    def hear(self, step: int, phase: str, now: float) -> None:
        """Take what a heartbeat says."""
        if step != self.step:
            self._longest = ("", 0.0)
        elif phase != self.phase:
            self._longest = self._stay(now)
        else:
            return
        self.step, self.phase, self._since = step, phase, now

    def correct(self, step: int, phase: str) -> None:
        """Where it was last heard to be in this step, it was in this phase all the while."""
        if step == self.step:
            self.phase = phase

    def settle(self, now: float) -> None:
        """It is told to end: where it was for longest says more than where it came to since."""
        self.phase = self._stay(now)[0]

    def _stay(self, now: float) -> tuple[str, float]:
        here = (self.phase, now - self._since)
        return here if not self._longest[0] or here[1] > self._longest[1] else self._longest
