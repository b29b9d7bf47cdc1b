"""Outcomes counted against the goals, as tables."""

from collections import Counter
from collections.abc import Iterator, Sequence
from statistics import median

from benchmarks.accuracy.judging import SURE_DELAY, Outcome
from benchmarks.accuracy.schedule import WINDOW_STEPS
from benchmarks.accuracy.truth import INFORMATIVE, JITTER
from benchmarks.report import Table

CONSTANT_STEPS = 30  # within which a constant fault has to be found


class Scores:
    """The outcomes, by what was asked of them."""

    def __init__(self, outcomes: Sequence[Outcome]) -> None:
        self.outcomes = outcomes
        self.faults = [each for each in outcomes if each.expected is not None and not each.masked]
        delays = [each for each in self.faults if each.segment.delay]
        self.large = [each for each in delays if each.segment.delay >= SURE_DELAY]
        self.small = [each for each in delays if each.segment.delay < SURE_DELAY]
        self.leaks = [each for each in self.faults if each.segment.leak_mib]
        self.stalls = [each for each in self.faults if each.segment.stuck]
        self.harmless = [each for each in outcomes if each.expected is None]
        alarming = [each for each in self.large if _state(each) != INFORMATIVE]
        self.constant = [each for each in alarming if each.segment.every == 1]
        self.seldom = [each for each in alarming if each.segment.every > 1]

    @property
    def false_alarms(self) -> list[Outcome]:
        return [each for each in self.harmless if each.is_wrong]

    @property
    def missed(self) -> list[Outcome]:
        """Faults that had to be found, and were not, or not as what they are."""
        had_to = (*self.large, *self.leaks, *self.stalls)
        return [each for each in had_to if not each.is_right]

    @property
    def wrong(self) -> list[Outcome]:
        """Small faults that were taken for something else than a busy machine's jitter."""
        return [each for each in self.small if each.is_wrong and each.found.state != JITTER]

    def late(self, grace: int = 0) -> list[Outcome]:
        """Found, but so many steps too late."""
        limits = ((self.constant, CONSTANT_STEPS), (self.seldom, WINDOW_STEPS))
        return [
            each
            for some, limit in limits
            for each in some
            if (each.steps_to_verdict or 0) > limit + grace
        ]

    @property
    def lingering(self) -> list[Outcome]:
        """Still said one window after the fault was over."""
        return [each for each in self.outcomes if each.gone is False]

    @property
    def astray(self) -> list[Outcome]:
        """Right or silent in the end, after something else was said."""
        return [each for each in self.outcomes if each.wrong_on_the_way]


def _state(outcome: Outcome) -> str:
    return "nothing" if outcome.expected is None else outcome.expected.state


def tables(outcomes: Sequence[Outcome]) -> Iterator[Table]:
    """All there is to see."""
    scores = Scores(outcomes)
    yield _summary(scores)
    yield _confusion(outcomes)
    yield _speed(scores)
    yield _not_right(outcomes)
    yield _astray(scores)


def _summary(scores: Scores) -> Table:
    def right(some: Sequence[Outcome]) -> str:
        return f"{sum(each.is_right for each in some)} of {len(some)}"

    def jitter(some: Sequence[Outcome]) -> str:
        said = sum(each.found.state == JITTER and _state(each) != JITTER for each in some)
        return f"{said} of {len(some)}"

    gone = [each for each in scores.outcomes if each.gone is not None]
    rows = [
        ("delays of 0.40 of a step and more: right", right(scores.large), "all"),
        ("the same: JITTER instead", jitter(scores.large), "-"),
        ("smaller delays: wrong", f"{len(scores.wrong)} of {len(scores.small)}", "none"),
        ("smaller delays: JITTER instead", jitter(scores.small), "-"),
        ("smaller delays: right", right(scores.small), "-"),
        ("nothing planted: alarms", f"{len(scores.false_alarms)} of {len(scores.harmless)}", "0"),
        ("nothing planted: JITTER", jitter(scores.harmless), "-"),
        ("leaks: right", right(scores.leaks), "all"),
        ("stalls: right", right(scores.stalls), "all"),
        (
            "said too late",
            f"{len(scores.late())} of {len(scores.constant) + len(scores.seldom)}",
            "0",
        ),
        ("gone one window later", f"{len(gone) - len(scores.lingering)} of {len(gone)}", "all"),
        ("something else said on the way", f"{len(scores.astray)} of {len(scores.faults)}", "0"),
        ("hidden by this machine: slow exchange, shared cores", _masked(scores.outcomes), "-"),
    ]
    how = (
        "Segments of real runs, each with one fault on top of equal work in forward, backward and "
        "optimizer, or with none; judged by the primary finding over the last "
        f"{WINDOW_STEPS} steps, at the end of the segment. Right: state, rank and phase. Wrong: a "
        "warning of anything else."
    )
    return Table("Accuracy", how, ("what", "result", "goal"), rows)


def _masked(outcomes: Sequence[Outcome]) -> str:
    return f"{sum(each.masked for each in outcomes)} of {len(outcomes)}"


def _confusion(outcomes: Sequence[Outcome]) -> Table:
    """States only; a right state with a wrong rank or phase is marked as such."""
    counts: Counter[tuple[str, str]] = Counter()
    for each in outcomes:
        counts[_state(each), _column(each)] += 1
    columns = sorted({found for _, found in counts})
    rows = [
        [expected, *(str(counts[expected, found] or "") for found in columns)]
        for expected in sorted({expected for expected, _ in counts})
    ]
    how = (
        "Rows are what was planted, columns what was said at the end of the segment. `*`: the "
        "right state, but another rank or phase. Small delays are in it: silence is right there."
    )
    return Table("Planted and found", how, ("planted", *columns), rows)


def _column(outcome: Outcome) -> str:
    misnamed = (
        outcome.expected is not None
        and not outcome.is_right
        and outcome.found.state == outcome.expected.state
    )
    return f"{outcome.found.state}{'*' if misnamed else ''}"


def _speed(scores: Scores) -> Table:
    rows = []
    kinds = (
        ("every step", scores.constant, CONSTANT_STEPS),
        ("one in three", scores.seldom, WINDOW_STEPS),
    )
    for often, outcomes, goal in kinds:
        for delay in sorted({each.segment.delay for each in outcomes}):
            steps = {
                each: each.steps_to_verdict
                for each in outcomes
                if each.segment.delay == delay and each.steps_to_verdict is not None
            }
            if steps:
                last = max(steps, key=steps.__getitem__)
                figures = (len(steps), median(steps.values()), steps[last], goal)
                where = f"{last.run}: {last.segment.label}"
                rows.append([f"{delay:.2f}, {often}", *map(str, figures), where])
    how = (
        "Completed steps from the first slow one until the right verdict stood and stayed; "
        f"{INFORMATIVE}, which alarms nobody, left out."
    )
    columns = ("delay", "found", "median", "worst", "goal", "the worst")
    return Table("Steps to the verdict", how, columns, rows)


def _not_right(outcomes: Sequence[Outcome]) -> Table:
    rows = [
        [
            each.run,
            each.segment.label,
            str(each.expected or "nothing"),
            f"{each.found} ({each.found.severity})",
            each.scope,
            "hidden" if each.masked else "WRONG" if each.is_wrong else "silent",
            each.load,
        ]
        for each in outcomes
        if not each.is_right
    ]
    how = "Every segment whose verdict was not the right one, small delays included."
    columns = ("run", "planted", "expected", "found", "by", "so it was", "load before")
    return Table("Not right", how, columns, rows)


def _astray(scores: Scores) -> Table:
    rows = [
        [each.run, each.segment.label, "; ".join(each.wrong_on_the_way)] for each in scores.astray
    ]
    how = "Alarms during a segment that were not the right one, and after how many of its steps."
    return Table("Something else on the way", how, ("run", "planted", "said"), rows)
