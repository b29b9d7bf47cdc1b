"""Right, silent or wrong: each segment's verdicts against what was planted in it."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from benchmarks.accuracy.looks import Look, looks
from benchmarks.accuracy.recorded import Recording
from benchmarks.accuracy.schedule import Segment
from benchmarks.accuracy.truth import INFORMATIVE, JITTER, Truth, Verdict, truth_of
from traceml.diagnosis.finding import INFO, STEP_MEMORY, STEP_TIME

SURE_DELAY = 0.4  # of a step: from here on a fault has to be found
SLOW_EXCHANGE_RATIO = 0.08  # of a healthy step: from here on it is no false alarm to say so


@dataclass(frozen=True, slots=True)
class Excuse:
    """What is true of a run on this machine whatever is planted, so no mistake to say."""

    slow_exchange: bool  # the exchange alone is a notable part of a healthy step
    crowded: bool  # ranks share cores: now this one is late, now that

    def covers(self, verdict: Verdict) -> bool:
        if verdict.state == "COMM_BOUND":
            return self.slow_exchange
        return verdict.state == "STRAGGLER" and verdict.rank is None and self.crowded


@dataclass(frozen=True, slots=True)
class Outcome:
    """A segment, or a whole run, and what was said of it."""

    run: str
    segment: Segment
    expected: Truth | None
    found: Verdict  # at the segment's end
    steps_to_verdict: int | None = None  # until the right one stood, and stayed
    wrong_on_the_way: tuple[str, ...] = ()
    jittery: bool = False  # JITTER was said on the way
    gone: bool | None = None  # by the end of the healthy segment that follows; None without one
    scope: str = "window"
    load: str = ""  # of the machine before the run
    masked: bool = False  # what is said is true of this machine, and hides what is planted

    @property
    def is_right(self) -> bool:
        if self.expected is None:
            return self.found.is_silent or self.found.state == JITTER
        return self.expected.matches(self.found)

    @property
    def is_wrong(self) -> bool:
        """Somebody would have been alarmed of something that is not there."""
        return not self.is_right and not self.found.is_silent and not self.masked


def judge(recording: Recording) -> list[Outcome]:
    """All that a recorded run has to show."""
    busy = recording.load_file.read_text(encoding="utf-8")
    return [replace(outcome, load=busy) for outcome in _outcomes(recording)]


def _outcomes(recording: Recording) -> list[Outcome]:
    schedule = recording.schedule
    if schedule.is_stuck:
        return [_stall(recording)]
    seen = [*looks(recording)]
    completed = seen[-1].completed if seen else 0
    if completed < schedule.steps:
        held = f"its journal was looked at up to step {completed} of {schedule.steps}"
        raise SystemExit(f"{recording.folder}: {held}")
    outcomes = list(_segments(recording, seen))
    if schedule.judged_whole:
        outcomes.append(_whole(recording, schedule.segments[0]))
    return outcomes


def _segments(recording: Recording, seen: Sequence[Look]) -> Iterator[Outcome]:
    schedule = recording.schedule
    excused = Excuse(_is_exchange_slow(seen, schedule.starts[0]), recording.is_crowded)
    segments = list(zip(schedule.starts, schedule.segments, strict=True))
    for index, (start, segment) in enumerate(segments):
        within = [look for look in seen if start < look.completed <= start + segment.steps]
        follower = segments[index + 1] if index + 1 < len(segments) else None
        gone = None if follower is None or not segment.is_fault else _gone(seen, follower, excused)
        yield _outcome(recording.schedule.name, start, segment, within, gone, excused)


def _outcome(
    run: str,
    start: int,
    segment: Segment,
    within: Sequence[Look],
    gone: bool | None,
    excused: Excuse,
) -> Outcome:
    truth = truth_of(segment)
    said = [(look.completed - start, _relevant(look, truth)) for look in within]
    found = said[-1][1]
    # What a healthy segment says while the fault before it is in the window is no mistake.
    wrong = [] if truth is None else [(at, each) for at, each in said if truth.contradicts(each)]
    return Outcome(
        run=run,
        segment=segment,
        expected=truth,
        found=found,
        steps_to_verdict=_steps_until_it_stood(said, truth),
        wrong_on_the_way=tuple(
            f"{each} at {at}"
            for at, each in _first_of_each(wrong)
            if not _is_tolerated(each, excused)
        ),
        jittery=any(each.state == JITTER for _, each in said),
        gone=gone,
        masked=excused.covers(found) and _is_slight(segment, truth),
    )


def _is_slight(segment: Segment, truth: Truth | None) -> bool:
    """Whether what the machine itself does may well be more than what is planted."""
    return truth is None or truth.state == INFORMATIVE or 0 < segment.delay < SURE_DELAY


def _relevant(look: Look, truth: Truth | None) -> Verdict:
    """The verdict of the domain in question; where nothing is planted, the worse one."""
    if truth is not None:
        return look.verdicts[truth.domain]
    memory = look.verdicts[STEP_MEMORY]
    return look.verdicts[STEP_TIME] if memory.is_silent else memory


def _steps_until_it_stood(said: Sequence[tuple[int, Verdict]], truth: Truth | None) -> int | None:
    if truth is None or not truth.matches(said[-1][1]):
        return None
    since = said[-1][0]
    for at, verdict in reversed(said):
        if not truth.matches(verdict):
            break
        since = at
    return since


def _first_of_each(said: Sequence[tuple[int, Verdict]]) -> list[tuple[int, Verdict]]:
    first: dict[str, tuple[int, Verdict]] = {}
    for at, verdict in said:
        first.setdefault(str(verdict), (at, verdict))
    return list(first.values())


def _is_tolerated(verdict: Verdict, excused: Excuse) -> bool:
    return verdict.state == JITTER or excused.covers(verdict)


def _gone(seen: Sequence[Look], follower: tuple[int, Segment], excused: Excuse) -> bool:
    start, segment = follower
    last = [look for look in seen if start < look.completed <= start + segment.steps][-1]
    verdict = last.verdicts[STEP_TIME]
    return verdict.is_silent or _is_tolerated(verdict, excused)


def _is_exchange_slow(seen: Sequence[Look], first_fault: int) -> bool:
    """Whether the exchange alone is a notable part of the steps before anything was planted."""
    ratios = [look.exchange_ratio for look in seen if look.completed <= first_fault + 60]
    known = [ratio for ratio in ratios if ratio is not None]
    return bool(known) and max(known[-5:]) >= SLOW_EXCHANGE_RATIO


def _whole(recording: Recording, segment: Segment) -> Outcome:
    """By what the run's summary says of it."""
    truth = truth_of(segment)
    said = recording.summary()["primary_diagnosis"]
    found = Verdict(
        said["state"], said["severity"], said.get("rank"), said.get("phase"), said.get("chronic")
    )
    masked = Excuse(False, recording.is_crowded).covers(found)
    return Outcome(recording.schedule.name, segment, truth, found, scope="summary", masked=masked)


def _stall(recording: Recording) -> Outcome:
    segment = recording.schedule.segments[-1]
    file = recording.stall_file
    said = json.loads(file.read_text(encoding="utf-8")) if file.exists() else None
    found = Verdict("nothing", INFO) if said is None else Verdict(**said["verdict"])
    return Outcome(
        recording.schedule.name, segment, truth_of(segment), found, scope="live metrics"
    )  # fmt: skip
