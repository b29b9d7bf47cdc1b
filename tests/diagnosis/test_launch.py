"""Devices that wait for the CPU: when that is a finding, and what it explains."""

from dataclasses import replace
from typing import Any

import pytest

from tests.builders import (
    Clock,
    gpu_sample,
    look,
    make_collector,
    on_device,
    start_ranks,
    tell,
    timed_records,
)
from tests.diagnosis.scene import step_time
from traceml.diagnosis.diagnose import diagnosed
from traceml.diagnosis.finding import Finding, title
from traceml.diagnosis.policy import DEFAULT, Policy
from traceml.snapshot import Snapshot
from traceml.wire import telemetry_pb2 as pb
from traceml.wire.columns import Records

STEP_MS = {
    "dataloader": 1.0,
    "h2d": 0.0,
    "forward": 12.0,
    "backward": 12.0,
    "optimizer": 12.0,
    "collective_wait": 2.0,
    "other": 1.0,
}


def steps(idle_ms: float, **phases_ms: float) -> Records:
    """Steps of 40 ms, 36 of them compute, in which the device idled so long."""
    work: dict[str, Any] = {**STEP_MS, **phases_ms}
    return on_device(timed_records(range(40), **work), device_idle_ns=idle_ms * 1e6)


def run_of(*ranks: Records, busy: float | None = None) -> Snapshot:
    """Ranks that did these steps, on GPUs that NVML says were so busy, if it says anything."""
    collector = make_collector(Clock(), ranks_expected=len(ranks))
    if busy is not None:
        gpus = [gpu_sample(rank) for rank in range(len(ranks))]
        for gpu in gpus:
            gpu.utilization_ratio = busy
        tell(collector, sampled=pb.Sampled(memory_size_bytes=2.0**35, gpus=gpus))
    processes = start_ranks(collector, len(ranks))
    for number, process in enumerate(processes):
        process.identity.gpu_uuid = f"GPU-{number}"
        process.session = f"again {number}"
        process.hello()
    for process, records in zip(processes, ranks, strict=True):
        process.send(records)
    return look(collector)


def launch_bound(snapshot: Snapshot) -> Finding | None:
    found = [each for each in step_time(snapshot).findings if each.state == "LAUNCH_BOUND"]
    return found[0] if found else None


def score(snapshot: Snapshot) -> float | None:
    return step_time(snapshot).scores.get("LAUNCH_BOUND")


@pytest.mark.parametrize(
    ("idle_ms", "severity"), [(7.6, None), (8.4, "warning"), (15.6, "warning"), (16.4, "critical")]
)
def test_a_device_that_idles_a_fifth_of_the_step_is_a_warning_and_two_are_critical(
    idle_ms: float, severity: str | None
) -> None:
    found = launch_bound(run_of(steps(idle_ms), steps(idle_ms), busy=0.4))
    assert (found and found.severity) == severity


def test_it_takes_the_place_of_compute_bound_and_names_neither_rank_nor_phase() -> None:
    healthy, waiting = run_of(steps(0.0), steps(0.0)), run_of(steps(12.0), steps(12.0))
    assert step_time(healthy).primary.state == "COMPUTE_BOUND"
    found = step_time(waiting).primary
    assert (found.state, found.rank, found.phase) == ("LAUNCH_BOUND", None, None)
    assert "COMPUTE_BOUND" not in {each.state for each in step_time(waiting).findings}


def test_it_says_how_long_the_device_waited_for_what_and_what_to_do() -> None:
    found = launch_bound(run_of(steps(12.0)))
    assert found is not None
    assert found.summary == (
        "In forward, backward and optimizer the device had done all that was queued, and waited "
        "for the CPU for up to 12.0 ms of a step of 40.0 ms: 30 % of it."
    )
    assert all(word in found.action for word in ("batch", "torch.compile", "CUDA graphs", ".item"))
    assert found.lost_seconds_per_step == pytest.approx(0.012)
    assert found.evidence == pytest.approx({"idle_seconds": 0.012, "share_ratio": 0.3})
    assert title(found.state) == "LAUNCH-BOUND"


def test_one_rank_whose_device_idles_is_not_all() -> None:
    snapshot = run_of(steps(16.0), steps(1.0))
    assert launch_bound(snapshot) is None
    assert score(snapshot) == pytest.approx(1.0 / 40.0 / 0.20)


def test_it_abstains_on_the_cpus_clock() -> None:
    untimed = timed_records(range(40), forward=30.0)
    assert score(run_of(untimed)) is None
    assert score(run_of(steps(20.0), untimed)) is None


def test_it_abstains_where_nobody_knows_whether_the_device_idled() -> None:
    assert score(run_of(steps(float("nan")))) is None


def test_it_abstains_where_some_steps_have_no_device_times() -> None:
    records = steps(20.0)
    records.values[::2] = timed_records(range(20)).values
    assert score(run_of(records)) is None


def test_a_gpu_that_was_busy_did_not_idle_in_that_time() -> None:
    elsewhere = 2.0 / 40.0  # in the loader, and between the phases
    busy = run_of(steps(20.0), busy=0.9)
    assert score(busy) == pytest.approx((0.1 - elsewhere) / 0.20)
    found = launch_bound(run_of(steps(20.0), busy=0.7))
    assert found is not None
    assert found.evidence is not None
    assert found.evidence["share_ratio"] == pytest.approx(0.3 - elsewhere)
    assert found.evidence["gpu_utilization_ratio"] == pytest.approx(0.7)


def test_what_a_gpu_idles_while_it_waits_for_input_is_not_counted_again() -> None:
    snapshot = run_of(steps(36.0, dataloader=41.0), busy=0.45)
    assert step_time(snapshot).primary.state == "INPUT_BOUND"
    assert launch_bound(snapshot) is None


def test_a_gpu_that_no_rank_uses_caps_nothing() -> None:
    snapshot = run_of(steps(20.0), busy=0.95)
    ranks = tuple(replace(rank, gpu_uuid="GPU-of-another") for rank in snapshot.ranks)
    assert launch_bound(diagnosed(replace(snapshot, ranks=ranks), DEFAULT)) is not None


def test_it_is_sure_only_where_the_gpus_utilization_is_known() -> None:
    alone, backed = launch_bound(run_of(steps(30.0))), launch_bound(run_of(steps(30.0), busy=0.1))
    assert alone is not None
    assert backed is not None
    assert (alone.severity, alone.confidence) == ("warning", "low")
    assert (backed.severity, backed.confidence) == ("critical", "high")


def test_what_is_shorter_than_a_millisecond_is_nobodys_problem() -> None:
    assert score(run_of(steps(0.6, **dict.fromkeys(STEP_MS, 0.3)))) == 0.0


def test_its_thresholds_can_be_changed() -> None:
    snapshot = diagnosed(
        run_of(steps(4.0), busy=0.5), Policy(launch_warning=0.05, launch_critical=0.06)
    )
    found = launch_bound(snapshot)
    assert found is not None
    assert found.severity == "critical"


@pytest.mark.parametrize(
    ("busy", "state"), [(0.2, "LOW_GPU_UTILIZATION"), (0.5, "MODERATE_GPU_UTILIZATION")]
)
def test_it_explains_a_gpu_that_has_little_to_do(busy: float, state: str) -> None:
    snapshot = run_of(steps(16.0), busy=busy)
    cause, found = launch_bound(snapshot), snapshot.window_diagnoses["system"].primary
    assert cause is not None
    assert found.state == state
    assert f"The step's own finding, LAUNCH-BOUND, says why: {cause.summary}" in found.summary
    assert found.action == cause.action


def test_another_finding_of_the_step_explains_it_as_well() -> None:
    found = run_of(steps(0.0, dataloader=40.0), busy=0.2).window_diagnoses["system"].primary
    assert "INPUT-BOUND, says why" in found.summary


def test_a_step_that_says_nothing_explains_nothing() -> None:
    found = run_of(steps(0.0), busy=0.2).window_diagnoses["system"].primary
    assert found.summary == "GPU 0 was busy in 20% of the time only."


def test_a_gpu_that_is_well_used_needs_no_explanation() -> None:
    found = run_of(steps(0.0, dataloader=40.0), busy=0.9).window_diagnoses["system"].primary
    assert "says why" not in found.summary
