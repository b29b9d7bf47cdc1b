"""When it became another thing that holds back the steps.

Somebody has to look to know, and looks when it suits: so whoever has looked tells what
was seen as an entry of the journal, and this is made of such entries alone.
"""

from typing import Annotated

from traceml.diagnosis.finding import STEP_TIME
from traceml.sidecar.checkpoint import saved
from traceml.sidecar.shapes import Most, RankNumber, Text
from traceml.snapshot import Snapshot, Turn
from traceml.wire import telemetry_pb2 as pb

MAX_TURNS = 200  # the last ones are kept


@saved
class Timeline:
    """The primary finding on the latest steps, and since when it is that one."""

    _seen: Annotated[list[tuple[float, Text, Text, RankNumber | None, Text]], Most(MAX_TURNS)]

    def __init__(self) -> None:
        self._seen = []

    def add(self, diagnosed: pb.Diagnosed, at: float) -> None:
        """Take what was seen."""
        rank = diagnosed.rank if diagnosed.HasField("rank") else None
        self._seen.append((at, diagnosed.state, diagnosed.severity, rank, diagnosed.phase))
        del self._seen[:-MAX_TURNS]

    def turns(self) -> tuple[Turn, ...]:
        """All that are kept, in order."""
        return tuple(Turn(*seen[:4], seen[4] or None) for seen in self._seen)


def turned(snapshot: Snapshot) -> pb.Diagnosed | None:
    """What to tell of this Snapshot: its finding, if that is another one than the last told."""
    now = snapshot.window_diagnoses[STEP_TIME].primary
    last = snapshot.turns[-1] if snapshot.turns else None
    told = last and (last.state, last.severity, last.rank, last.phase)
    if told == (now.state, now.severity, now.rank, now.phase):
        return None
    return pb.Diagnosed(
        state=now.state, severity=now.severity, rank=now.rank, phase=now.phase or ""
    )
