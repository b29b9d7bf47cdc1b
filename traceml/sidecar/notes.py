"""Sentences that stand in the summary: what could not be measured, understood or kept."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated

from traceml import units
from traceml.sidecar.checkpoint import saved
from traceml.sidecar.rank import Rank
from traceml.sidecar.refusal import INTERNAL, MalformedError, UnauthenticatedError
from traceml.sidecar.sessions import Sessions
from traceml.sidecar.shapes import Most
from traceml.snapshot import Statistics

MAX_NOTES = 20  # a rank that keeps sending nonsense must not fill the memory
MAX_NOTE_LENGTH = 4096

_MUCH_WAITING = 0.2  # of a step

NOTHING_SEEN = (
    "No training was seen: no process called a backward pass or stepped an optimizer of torch's. "
    "If one did, inside a compiled function, put trace_step around it."
)
ENDED_EARLY = "The run ended before its first training step was seen."


@saved
class Notes:
    """What was noted while the ranks spoke, each sentence once."""

    _said: Annotated[dict[Annotated[str, Most(MAX_NOTE_LENGTH)], None], Most(MAX_NOTES)]

    def __init__(self) -> None:
        self._said = {}

    def add(self, sentence: str) -> None:
        """Note it, if there is room."""
        if len(self._said) < MAX_NOTES:
            self._said[sentence[:MAX_NOTE_LENGTH]] = None

    def of_ranks(self, ranks: Mapping[int, Rank], run_state: str) -> Iterator[str]:
        """All there is to say of the ranks, or of their absence once the run is over."""
        yield from self._said
        if not ranks and run_state != "running":
            yield NOTHING_SEEN if run_state == "completed" else ENDED_EARLY
        yield from _from_ranks(ranks)
        for number, rank in sorted(ranks.items()):
            if rank.faults:
                yield (
                    f"rank {number}: {rank.faults} errors inside TraceML's own hooks were "
                    "swallowed; tracing may have stopped early there"
                )


def session_notes(sessions: Sessions) -> Iterator[str]:
    """Processes that trained on and whose steps are not in the figures."""
    contested, left_behind = sorted(sessions.contested), sorted(sessions.left_behind)
    if contested:
        lost = sum(sessions.ranks[number].lost("superseded") for number in contested)
        yield (
            f"More than one process reported as rank {_listed(contested)} at the same time, as two "
            "trainings under one run do: the figures hold the steps of the process that came last, "
            f"and {lost} records of others were dropped. Start each training with a `traceml run` "
            "of its own; the processes of one training need a RANK each"
        )
    if left_behind:
        lost = sum(sessions.ranks[number].lost("late") for number in left_behind)
        yield (
            f"Rank {_listed(left_behind)} trained on in a process from before another rank was "
            f"started again: its steps can't be matched with the others', and {lost} records of it "
            "were dropped. If these are two trainings, start each with a `traceml run` of its own"
        )


def policy_notes(policy: Mapping[str, float]) -> Iterator[str]:
    """By what other measure than the usual one the run is judged."""
    if policy:
        changed = ", ".join(f"{name} = {value:g}" for name, value in policy.items())
        yield f"Judged by thresholds of your own: {changed}"


def service_notes(
    refused: Mapping[str, int], unjournaled: int, journal_problem: str
) -> Iterator[str]:
    """What the sidecar itself could not do."""
    if refused.get(INTERNAL):
        yield f"{refused[INTERNAL]} requests failed inside the sidecar; sidecar.log says why"
    if refused.get(MalformedError.reason):
        yield f"{refused[MalformedError.reason]} requests were nothing that a rank would send"
    if refused.get(UnauthenticatedError.reason):
        yield f"{refused[UnauthenticatedError.reason]} requests came without the right token"
    if journal_problem:
        yield (
            f"The journal cannot be written ({journal_problem}): "
            f"{unjournaled} records were taken into memory only"
        )
    elif unjournaled:
        yield (
            f"{unjournaled} records were taken while the journal could not be written; "
            "they are on disk since"
        )


def nodes_notes(nnodes: int | None, whole: Statistics) -> Iterator[str]:
    """What one node cannot know: whether it waits for a rank of another."""
    waiting = whole.phases.get("collective_wait")
    share = waiting.share_ratio if waiting is not None else None
    if (nnodes or 1) > 1 and share is not None and share >= _MUCH_WAITING:
        yield (
            f"{units.ratio(share)} of a step is waiting, and this node sees its own ranks alone. "
            "Whether one of another node is waited for, Prometheus can tell: "
            "run_rank:traceml_straggler_score, of the rules that `traceml rules` prints"
        )


def _from_ranks(ranks: Mapping[int, Rank]) -> Iterator[str]:
    """What ranks say they cannot measure; a sentence of all of them stands alone."""
    said: dict[str, list[int]] = {}
    for number, rank in sorted(ranks.items()):
        for note in rank.notes:
            said.setdefault(note, []).append(number)
    for note, by in said.items():
        yield note if len(by) == len(ranks) else f"rank {_listed(by)}: {note}"


def _listed(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, numbers))
