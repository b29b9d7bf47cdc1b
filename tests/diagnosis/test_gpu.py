"""The ranks' GPUs against each other."""

from typing import Any

import pytest

from tests.builders import (
    GIB,
    TYPICAL_MS,
    Clock,
    look,
    make_collector,
    start_ranks,
    tell,
    timed_records,
)
from traceml.diagnosis.finding import STEP_TIME, SYSTEM, Finding
from traceml.snapshot import Snapshot
from traceml.wire import telemetry_pb2 as pb

FAST: dict[str, Any] = {
    "utilization_ratio": 0.95,
    "sm_clock_hertz": 1.7e9,
    "power_watts": 690.0,
    "temperature_celsius": 62.0,
}
CAPPED: dict[str, Any] = {**FAST, "throttled": ["sw_power_cap"]}


def scene(
    *gpus: dict[str, Any], ranks: int = 2, uuids: str = "GPU-{}", phase: str = "forward"
) -> Snapshot:
    """Rank r uses GPU r; the last rank takes 30 ms longer in this phase."""
    collector = make_collector(Clock(), ranks_expected=ranks)
    told = [pb.Gpu(index=i, uuid=f"GPU-{i}", **gpu) for i, gpu in enumerate(gpus)]
    tell(collector, sampled=pb.Sampled(memory_size_bytes=GIB, gpus=told))
    for process in start_ranks(collector, ranks, attempt=1):
        process.identity.gpu_uuid = uuids.format(process.identity.rank)
        process.session += " again"
        process.hello()
        is_slow = process.identity.rank == ranks - 1
        work: dict[str, Any] = (
            {phase: TYPICAL_MS[phase] + 30.0} if is_slow else {"collective_wait": 34.0}
        )
        process.send(timed_records(range(30), **work))
    return look(collector)


def straggler(snapshot: Snapshot) -> Finding:
    found = snapshot.window_diagnoses[STEP_TIME].primary
    assert (found.state, found.phase) == ("COMPUTE_STRAGGLER", "forward")
    return found


def states(snapshot: Snapshot) -> set[str]:
    return {finding.state for finding in snapshot.window_diagnoses[SYSTEM].findings}


def test_a_slow_clock_is_told_against_the_others_with_its_reason() -> None:
    slow = {
        **FAST, "sm_clock_hertz": 1.1e9, "power_watts": 400.0, "temperature_celsius": 91.0,
        "throttled": ["hw_thermal_slowdown"],
    }  # fmt: skip
    found = straggler(scene(FAST, slow))
    assert found.summary.endswith(
        " Its GPU's SM clock was 1.10 GHz, the others' 1.70 GHz (hw_thermal_slowdown)."
    )
    assert found.evidence is not None
    assert {
        name: of for name, of in found.evidence.items() if name.startswith(("gpu", "other"))
    } == {
        "others_seconds": found.evidence["others_seconds"],
        "gpu_sm_clock_hertz": 1.1e9,
        "others_sm_clock_hertz": 1.7e9,
        "gpu_power_watts": 400.0,
        "others_power_watts": 690.0,
        "gpu_temperature_celsius": 91.0,
        "others_temperature_celsius": 62.0,
        "gpu_throttled": "hw_thermal_slowdown",
    }


def test_a_slow_clock_without_a_reason_is_told_all_the_same() -> None:
    found = straggler(scene(FAST, {**FAST, "sm_clock_hertz": 0.9e9}))
    assert found.summary.endswith(" Its GPU's SM clock was 900 MHz, the others' 1.70 GHz.")


@pytest.mark.parametrize("gpu", [FAST, CAPPED, {**FAST, "throttled": ["hw_thermal_slowdown"]}])
def test_clocks_that_are_alike_explain_nothing_but_are_evidence(gpu: dict[str, Any]) -> None:
    found = straggler(scene(gpu, gpu))
    assert "GPU" not in found.summary
    assert found.evidence is not None
    assert found.evidence["gpu_sm_clock_hertz"] == found.evidence["others_sm_clock_hertz"] == 1.7e9


def test_a_gpu_is_compared_with_those_of_other_ranks_and_with_no_other() -> None:
    idle = {**FAST, "sm_clock_hertz": 0.3e9}
    slow = {**FAST, "sm_clock_hertz": 1.1e9}
    found = straggler(scene(FAST, FAST, slow, idle, idle, idle, ranks=3))
    assert found.evidence is not None
    assert found.evidence["others_sm_clock_hertz"] == 1.7e9


def test_of_ranks_that_share_a_gpu_none_has_the_slower_one() -> None:
    found = straggler(scene(FAST, uuids="GPU-0"))
    assert found.evidence is not None
    assert found.evidence["gpu_sm_clock_hertz"] == 1.7e9
    assert "others_sm_clock_hertz" not in found.evidence


def test_without_clocks_the_reason_alone_is_told() -> None:
    found = straggler(scene({}, {"throttled": ["sw_power_cap", "hw_thermal_slowdown"]}))
    assert found.summary.endswith(" Its GPU's clocks were held back (hw_thermal_slowdown).")
    assert "GPU" not in straggler(scene({}, {"throttled": ["sw_power_cap"]})).summary


@pytest.mark.parametrize("uuids", ["", "MIG-{}", "GPU-elsewhere-{}"])
def test_a_rank_whose_gpu_is_not_known_has_no_evidence_of_one(uuids: str) -> None:
    found = straggler(scene(FAST, {**FAST, "sm_clock_hertz": 1e9}, uuids=uuids))
    assert "GPU" not in found.summary
    assert found.evidence is not None
    assert not any("gpu" in name for name in found.evidence)


def test_a_slow_clock_does_not_explain_a_slow_loader() -> None:
    snapshot = scene(FAST, {**FAST, "sm_clock_hertz": 1e9}, phase="dataloader")
    found = snapshot.window_diagnoses[STEP_TIME].primary
    assert found.state == "INPUT_STRAGGLER"
    assert "GPU" not in found.summary
    assert found.evidence is not None
    assert "gpu_sm_clock_hertz" not in found.evidence


def test_gpus_that_no_rank_uses_are_not_judged() -> None:
    idle = {"utilization_ratio": 0.0, "temperature_celsius": 95.0, "throttled": ["hw_slowdown"]}
    snapshot = scene(FAST, FAST, idle)
    assert states(snapshot) == {"NORMAL"}
    assert [gpu.uuid for gpu in snapshot.host_window.gpus] == ["GPU-0", "GPU-1", "GPU-2"]


def test_all_gpus_are_judged_where_no_rank_tells_which_it_uses() -> None:
    assert "LOW_GPU_UTILIZATION" in states(scene(FAST, {"utilization_ratio": 0.0}, uuids=""))


def test_a_power_cap_that_all_share_is_no_throttling() -> None:
    assert "GPU_THROTTLED" not in states(scene(CAPPED, CAPPED))


def test_a_power_cap_on_a_single_gpu_is_no_throttling() -> None:
    assert "GPU_THROTTLED" not in states(scene(CAPPED, ranks=1))


@pytest.mark.parametrize(("clock", "is_throttled"), [(1.5e9, True), (1.6e9, False)])
def test_a_power_cap_counts_where_it_makes_a_gpu_slower_than_the_others(
    clock: float, is_throttled: bool
) -> None:
    snapshot = scene(CAPPED, CAPPED, {**CAPPED, "sm_clock_hertz": clock}, ranks=3)
    assert ("GPU_THROTTLED" in states(snapshot)) == is_throttled


def test_the_gpu_that_is_held_back_is_named_with_what_counts() -> None:
    hot = {**CAPPED, "throttled": ["sw_power_cap", "sw_thermal_slowdown"]}
    found = scene(CAPPED, hot).window_diagnoses[SYSTEM].primary
    assert (found.state, found.severity) == ("GPU_THROTTLED", "warning")
    assert found.summary == (
        "GPU 1's clocks were held back in 100% of the time (sw_thermal_slowdown)."
    )


def test_of_a_gpu_that_tells_no_utilization_as_with_mig_none_is_judged() -> None:
    told = {name: value for name, value in FAST.items() if name != "utilization_ratio"}
    scores = scene(told, told).window_diagnoses[SYSTEM].scores
    assert "GPU_THROTTLED" in scores
    assert not {"LOW_GPU_UTILIZATION", "MODERATE_GPU_UTILIZATION"} & scores.keys()
