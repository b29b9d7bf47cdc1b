"""What is said of two runs, why, and how sure."""

from dataclasses import replace

import pytest

from tests.report.compare.conftest import MakeSide
from tests.report.compare.made import PHASES, Workload
from traceml.report.compare.comparison import compare
from traceml.report.compare.rules import DEFAULT
from traceml.report.compare.side import Diagnosed, Reading, Side, Worst

GIB = 2.0**30
CALM = Workload(step_noise=0.02, hiccups=0.0, run_noise=0.002)


def waiting(side: Side, wait: float, worst: dict[str, tuple[float, int]]) -> Side:
    """A run of two ranks in which the median rank waits so long for the other."""
    assert side.step is not None
    return replace(
        side,
        step=replace(side.step, value=side.step.value + wait),
        phases={**side.phases, "collective_wait": Reading(wait, side.phases["other"].series)},
        worst={
            **{phase: Worst(reading.value, 0) for phase, reading in side.phases.items()},
            **{phase: Worst(seconds, rank) for phase, (seconds, rank) in worst.items()},
        },
    )


def test_a_run_against_itself_is_equivalent(make_side: MakeSide) -> None:
    side = make_side(CALM)
    compared = compare([side, side, side], side)
    assert compared.verdict.state == "EQUIVALENT"
    assert compared.verdict.confidence == "high"
    assert compared.causes == ()


def test_the_longest_of_two_longer_phases_comes_first(make_side: MakeSide) -> None:
    slower = CALM.slower("forward", 0.2).slower("dataloader", 0.3)
    compared = compare([make_side(CALM)], make_side(slower))
    assert [cause.phase for cause in compared.causes] == ["dataloader", "forward"]


def test_a_machine_that_is_slower_altogether_is_no_phase_s_fault(make_side: MakeSide) -> None:
    slower = replace(CALM, phases={phase: 1.3 * seconds for phase, seconds in PHASES.items()})
    compared = compare([make_side(CALM)], make_side(slower))
    assert compared.verdict.state == "REGRESSION"
    (cause,) = compared.causes
    assert cause.phase is None
    assert "All phases take longer alike" in cause.summary
    assert compared.verdict.confidence == "medium"
    assert any("All phases changed alike" in doubt for doubt in compared.verdict.doubts)


def test_a_phase_that_is_gone_is_the_cause_even_if_the_others_are_shorter_too(
    make_side: MakeSide,
) -> None:
    """A slow loader was mended, and meanwhile the machine has less else to do."""
    slow = {phase: 2 * seconds for phase, seconds in PHASES.items()} | {"dataloader": 0.5}
    compared = compare([make_side(replace(CALM, phases=slow))], make_side(CALM))
    assert compared.verdict.state == "IMPROVEMENT"
    assert compared.causes[0].phase == "dataloader"


def test_a_phase_that_takes_over_another_s_time_is_no_change(make_side: MakeSide) -> None:
    moved = {**PHASES, "forward": PHASES["forward"] - 0.003, "backward": PHASES["backward"] + 0.003}
    bases = [make_side(CALM) for _ in range(3)]
    compared = compare(bases, make_side(replace(CALM, phases=moved)))
    assert compared.verdict.state == "EQUIVALENT"
    assert compared.effects.phases["forward"].says == "better"
    assert compared.effects.phases["backward"].says == "worse"


def test_the_rank_that_the_others_wait_for_is_named_not_their_waiting(make_side: MakeSide) -> None:
    before = waiting(make_side(CALM), 0.001, {})
    after = waiting(make_side(CALM), 0.011, {"dataloader": (0.0105, 1)})
    compared = compare([before], after)
    assert compared.verdict.state == "REGRESSION"
    assert (compared.causes[0].phase, compared.causes[0].rank) == ("dataloader", 1)
    assert "rank 1" in compared.causes[0].summary


def test_a_straggler_that_is_gone_is_named_as_well(make_side: MakeSide) -> None:
    before = waiting(make_side(CALM), 0.011, {"optimizer": (0.015, 3)})
    after = waiting(make_side(CALM), 0.001, {})
    compared = compare([before], after)
    assert compared.verdict.state == "IMPROVEMENT"
    assert (compared.causes[0].phase, compared.causes[0].rank) == ("optimizer", 3)


def of_two_ranks(side: Side, dataloader: float) -> Side:
    """The median is the faster one: all but the step and the worst rank stay as they are."""
    assert side.step is not None
    more = dataloader - side.phases["dataloader"].value
    return replace(
        waiting(side, 0.001, {"dataloader": (dataloader, 1)}),
        step=replace(side.step, value=side.step.value + more),
        skew=Worst(more / side.step.value, 1),
    )


@pytest.mark.parametrize("times", [(0.001, 0.011), (0.011, 0.001)])
def test_one_of_two_ranks_is_named_though_the_median_stays_as_it_was(
    make_side: MakeSide, times: tuple[float, float]
) -> None:
    before, after = (of_two_ranks(make_side(CALM), seconds) for seconds in times)
    (cause,) = compare([before], after).causes
    assert (cause.phase, cause.rank) == ("dataloader", 1)


def test_a_change_of_many_times_is_no_other_machine_s(make_side: MakeSide) -> None:
    """The loader is mended, and forward happens to be as many times shorter."""
    slow = {**PHASES, "dataloader": 0.4, "forward": 0.1}
    compared = compare([make_side(replace(CALM, phases=slow))], make_side(CALM))
    assert compared.causes[0].phase == "dataloader"


def test_a_run_without_data_has_not_improved(make_side: MakeSide) -> None:
    before = replace(make_side(CALM), diagnosis=Diagnosed("INPUT_BOUND", "critical"))
    after = replace(make_side(CALM), diagnosis=Diagnosed("NO_DATA", "info"))
    assert compare([before], after).shift.says == ""


def test_waiting_that_no_rank_explains_is_the_exchange_s_own(make_side: MakeSide) -> None:
    before, after = (waiting(make_side(CALM), wait, {}) for wait in (0.001, 0.011))
    compared = compare([before], after)
    assert compared.causes[0].phase == "collective_wait"


def test_slow_steps_that_the_typical_one_hides_are_a_regression(make_side: MakeSide) -> None:
    """One step in twenty-five takes eleven times as long: 40 % more time, as good a median."""
    before, after = make_side(replace(CALM, steps=2000)), make_side(replace(CALM, steps=2000))
    assert after.step is not None
    assert after.step.series is not None
    values = after.step.series.values
    slow = tuple(each * (11 if n % 25 == 0 else 1) for n, each in enumerate(values))
    series = replace(after.step.series, values=slow)
    compared = compare([before], replace(after, step=replace(after.step, series=series)))
    assert compared.verdict.state == "REGRESSION"
    assert compared.causes[0].metric == "slow_steps"
    assert "slow steps" in compared.causes[0].summary


def test_a_single_hiccup_is_no_regression(make_side: MakeSide) -> None:
    bases, after = [make_side(CALM) for _ in range(3)], make_side(CALM)
    assert after.step is not None
    assert after.step.series is not None
    slow = (after.step.series.values[0] * 60, *after.step.series.values[1:])
    series = replace(after.step.series, values=slow)
    compared = compare(bases, replace(after, step=replace(after.step, series=series)))
    assert compared.verdict.state == "EQUIVALENT"
    assert compared.verdict.confidence == "medium"
    assert any("Slow steps" in doubt for doubt in compared.verdict.doubts)


def test_faster_and_hungrier_is_mixed(make_side: MakeSide) -> None:
    before = replace(make_side(CALM.slower("forward", 0.3)), memory={"allocated": 4 * GIB})
    after = replace(make_side(CALM), memory={"allocated": 5 * GIB})
    compared = compare([before], after)
    assert compared.verdict.state == "MIXED"
    assert [cause.metric for cause in compared.causes] == ["step_time", "memory"]


@pytest.mark.parametrize(
    ("before", "after", "state"),
    [
        (4 * GIB, 5 * GIB, "REGRESSION"),
        (5 * GIB, 4 * GIB, "IMPROVEMENT"),
        (GIB / 16, GIB / 12, "EQUIVALENT"),  # a third more, and too little to matter
        (4 * GIB, 4.1 * GIB, "EQUIVALENT"),
    ],
)
def test_memory_alone_decides_where_the_step_is_the_same(
    make_side: MakeSide, before: float, after: float, state: str
) -> None:
    bases = [replace(make_side(CALM), memory={"allocated": before}) for _ in range(3)]
    compared = compare(bases, replace(make_side(CALM), memory={"allocated": after}))
    assert compared.verdict.state == state


def test_memory_is_compared_by_a_kind_that_all_runs_have(make_side: MakeSide) -> None:
    before = replace(make_side(CALM), memory={"rss": GIB})
    after = replace(make_side(CALM), memory={"allocated": 9 * GIB, "rss": GIB})
    memory = compare([before], after).effects.memory
    assert memory is not None
    assert memory.kind == "rss"


def test_a_change_below_the_floor_is_no_news(make_side: MakeSide) -> None:
    """Of a step of 200 us a fifth more is 40 us."""
    tiny = replace(CALM, phases={phase: seconds / 100 for phase, seconds in PHASES.items()})
    compared = compare([make_side(tiny)] * 3, make_side(tiny.slower("forward", 0.2)))
    assert compared.verdict.state == "EQUIVALENT"


def test_a_threshold_of_one_s_own_decides(make_side: MakeSide) -> None:
    bases, after = [make_side(CALM) for _ in range(3)], make_side(CALM.slower("forward", 0.08))
    assert compare(bases, after).verdict.state == "REGRESSION"
    lax = replace(DEFAULT, threshold=0.15)
    assert compare(bases, after, lax).verdict.state == "EQUIVALENT"


@pytest.mark.parametrize("short", ["base", "candidate"])
def test_too_few_steps_are_inconclusive_and_it_is_said_how_many_would_do(
    make_side: MakeSide, short: str
) -> None:
    few, many = make_side(replace(CALM, steps=12), "few"), make_side(CALM, "many")
    compared = compare([few], many) if short == "base" else compare([many], few)
    assert compared.verdict.state == "INCONCLUSIVE"
    assert compared.verdict.confidence is None
    assert "few has 12 steps" in compared.verdict.summary
    assert compared.verdict.advice is not None
    assert compared.verdict.advice.steps == DEFAULT.least_steps
    assert compared.causes == ()


def test_steps_that_vary_much_need_more_of_them(make_side: MakeSide) -> None:
    wild = Workload(steps=60, step_noise=0.3, run_noise=0.0)
    compared = compare([make_side(wild) for _ in range(3)], make_side(wild))
    assert compared.verdict.state == "INCONCLUSIVE"
    assert compared.verdict.advice is not None
    assert compared.verdict.advice.steps is not None
    assert compared.verdict.advice.steps > 60


def test_runs_that_differ_much_need_something_else_than_steps(make_side: MakeSide) -> None:
    wild = replace(CALM, run_noise=0.15)
    compared = compare([make_side(wild) for _ in range(3)], make_side(CALM))
    assert compared.verdict.state == "INCONCLUSIVE"
    assert compared.verdict.advice is not None
    assert compared.verdict.advice.steps is None
    assert "quieter machine" in compared.verdict.advice.summary


def test_a_run_without_a_step_is_inconclusive(make_side: MakeSide) -> None:
    compared = compare([make_side(CALM)], replace(make_side(CALM), step=None))
    assert compared.verdict.state == "INCONCLUSIVE"
    assert "how long a step took" in compared.verdict.summary


def test_one_baseline_is_less_sure_unless_the_change_is_large(make_side: MakeSide) -> None:
    base = make_side(CALM)
    near, far = (compare([base], make_side(CALM.slower("other", by))) for by in (0.12, 0.9))
    assert (near.verdict.state, near.verdict.confidence) == ("REGRESSION", "medium")
    assert any("One baseline" in doubt for doubt in near.verdict.doubts)
    assert (far.verdict.state, far.verdict.confidence) == ("REGRESSION", "high")


def test_summaries_that_do_not_tell_how_steps_vary_are_never_called_equivalent(
    make_side: MakeSide,
) -> None:
    def silent(workload: Workload) -> Side:
        side = make_side(workload)
        assert side.step is not None
        phases = {phase: Reading(reading.value) for phase, reading in side.phases.items()}
        return replace(side, step=Reading(side.step.value), phases=phases)

    same = compare([silent(CALM) for _ in range(3)], silent(CALM), replace(DEFAULT, threshold=0.5))
    assert same.verdict.state == "INCONCLUSIVE"
    slower = compare([silent(CALM)], silent(CALM.slower("forward", 0.6)))
    assert (slower.verdict.state, slower.verdict.confidence) == ("REGRESSION", "low")
    assert slower.causes[0].phase == "forward"
    assert any("How steps vary" in doubt for doubt in slower.verdict.doubts)


@pytest.mark.parametrize(
    ("fact", "value", "listed"),
    [
        ("torch", "2.14.0", "torch 2.13.0 -> 2.14.0"),
        ("device", "cuda", "device cpu -> cuda"),
        ("world_size", 8, "world size 1 -> 8"),
        ("python", "3.12.1", "python 3.11.7 -> 3.12.1"),
    ],
)
def test_another_environment_is_listed_and_lowers_the_confidence(
    make_side: MakeSide, fact: str, value: object, listed: str
) -> None:
    after = make_side(CALM.slower("forward", 0.9), **{fact: value})
    compared = compare([make_side(CALM)], after)
    assert [str(each) for each in compared.changed] == [listed]
    assert (compared.verdict.state, compared.verdict.confidence) == ("REGRESSION", "medium")


def test_another_machine_and_batch_size_are_listed(make_side: MakeSide) -> None:
    before = make_side(CALM)
    environment = {**before.environment, "machine": "there"}
    after = replace(before, environment=environment, samples=64.0)
    listed = [str(each) for each in compare([before], after).changed]
    assert listed == ["machine here -> there", "batch size 32 -> 64"]


def test_a_smaller_last_batch_is_no_other_batch_size(make_side: MakeSide) -> None:
    before = make_side(CALM)
    assert compare([before], replace(before, samples=31.9)).changed == ()


def test_baselines_that_are_not_alike_are_listed_too(make_side: MakeSide) -> None:
    bases = [make_side(CALM, torch=version) for version in ("2.12.0", "2.13.0")]
    changed = compare(bases, make_side(CALM)).changed
    assert [str(each) for each in changed] == ["torch 2.12.0 and 2.13.0 -> 2.13.0"]


def test_an_environment_that_had_to_be_the_same_leaves_it_open(make_side: MakeSide) -> None:
    after = make_side(CALM.slower("forward", 0.9), torch="2.14.0")
    compared = compare([make_side(CALM)], after, same_environment=True)
    assert compared.verdict.state == "INCONCLUSIVE"
    assert "torch" in compared.verdict.summary
    assert compared.causes == ()
    same = compare([make_side(CALM)], make_side(CALM.slower("forward", 0.9)), same_environment=True)
    assert same.verdict.state == "REGRESSION"


def test_what_one_side_does_not_tell_is_no_change(make_side: MakeSide) -> None:
    before = make_side(CALM)
    assert compare([before], replace(before, environment={}, samples=None)).changed == ()


def test_a_run_that_was_cut_off_is_trusted_less(make_side: MakeSide) -> None:
    compared = compare([make_side(CALM)] * 3, make_side(CALM, status="interrupted"))
    assert compared.verdict.confidence == "medium"
    assert "Of run: the run was interrupted" in compared.verdict.doubts


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        (Diagnosed("INPUT_BOUND", "critical"), Diagnosed("COMPUTE_BOUND", "info"), "improved"),
        (Diagnosed("BALANCED", "info"), Diagnosed("INPUT_BOUND", "warning"), "worse"),
        (Diagnosed("BALANCED", "info"), Diagnosed("COMPUTE_BOUND", "info"), "changed"),
        (Diagnosed("BALANCED", "info"), Diagnosed("BALANCED", "info"), "same"),
        (None, Diagnosed("BALANCED", "info"), ""),
    ],
)
def test_a_diagnosis_is_better_if_it_is_less_grave(
    make_side: MakeSide, before: Diagnosed | None, after: Diagnosed, says: str
) -> None:
    side = make_side(CALM)
    compared = compare([replace(side, diagnosis=before)], replace(side, diagnosis=after))
    assert compared.shift.says == says


def test_gpu_use_and_rank_skew_stand_beside(make_side: MakeSide) -> None:
    side = make_side(CALM)
    before = replace(side, gpu_utilization=0.4, skew=Worst(0.5, 1))
    after = replace(side, gpu_utilization=0.9, skew=Worst(0.0, 1))
    facts = {fact.metric: (fact.base, fact.candidate) for fact in compare([before], after).facts}
    assert facts["gpu_utilization"] == (0.4, 0.9)
    assert facts["rank_skew"] == (0.5, 0.0)
    assert facts["samples_per_second"][0] == pytest.approx(32 / 0.020, rel=0.02)
