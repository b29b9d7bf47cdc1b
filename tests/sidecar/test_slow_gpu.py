"""A slow GPU, from NVML's answers through the real binding to the finding, metrics and summary."""

from typing import Any

import pynvml
import pytest

from tests.builders import look, start_ranks, tell, timed_records
from tests.nvml import stub
from tests.nvml.stub import UUIDS, Machine
from traceml.publish.exposition import Form, Writer
from traceml.report.summary import summarized, summary
from traceml.report.text import summary_text
from traceml.sidecar.collector import Collector
from traceml.sidecar.gpu import GpuSampler
from traceml.sidecar.host import HostSampler
from traceml.snapshot import Snapshot

SLOW = UUIDS[1]


@pytest.fixture
def host(sampler: GpuSampler) -> HostSampler:
    return HostSampler(sampler)


def run(collector: Collector, host: HostSampler, slow_rank: int) -> Snapshot:
    """Two ranks, each on its GPU; one of them takes 30 ms longer in forward."""
    for process, uuid in zip(start_ranks(collector, 2), UUIDS, strict=True):
        process.identity.gpu_uuid = uuid
        process.session += " again"
        process.hello()
        is_slow = process.identity.rank == slow_rank
        work: dict[str, Any] = {"forward": 40.0} if is_slow else {"collective_wait": 34.0}
        process.send(timed_records(range(30), **work))
    tell(collector, sampled=host.sample())
    return look(collector)


@pytest.fixture
def slowed(collector: Collector, host: HostSampler, machine: Machine) -> Snapshot:
    """The GPU of rank 1 gets hot, loses memory and reports an Xid."""
    reasons = pynvml.nvmlClocksEventReasonHwThermalSlowdown
    machine.answer(1, sm_clock=1100, power=190_000, temperature=92, reasons=reasons)
    tell(collector, sampled=host.sample())
    machine.answer(1, ecc_uncorrected=2, xids="94")
    return run(collector, host, slow_rank=1)


def test_a_rank_that_is_slow_by_its_gpu_is_told_with_the_proof(slowed: Snapshot) -> None:
    found = summary(slowed)["primary_diagnosis"]
    assert (found["state"], found["rank"], found["phase"]) == ("COMPUTE_STRAGGLER", 1, "forward")
    proof = " Its GPU's SM clock was 1.10 GHz, the others' 1.70 GHz (hw_thermal_slowdown)."
    assert found["summary"].endswith(proof)
    expected = {
        "gpu_sm_clock_hertz": 1.1e9,
        "others_sm_clock_hertz": 1.7e9,
        "gpu_power_watts": 190.0,
        "others_power_watts": 281.5,
        "gpu_temperature_celsius": 92.0,
        "others_temperature_celsius": 61.0,
        "gpu_throttled": "hw_thermal_slowdown",
    }
    assert {name: found["evidence"].get(name) for name in expected} == expected


def test_clock_and_errors_of_a_gpu_are_in_the_summary(slowed: Snapshot) -> None:
    gpu = summary(slowed)["system"]["gpus"][1]
    assert (gpu["uuid"], gpu["sm_clock_hertz"], gpu["sm_clock_max_hertz"]) == (SLOW, 1.1e9, 1.98e9)
    assert gpu["errors"] == {"ecc_corrected": 0, "ecc_uncorrected": 2, "xid": 1}
    text = " ".join(summary_text(summarized(slowed)).split())
    assert "SM clock at 56 %" in text
    assert "memory errors not corrected: 2, Xids: 1" in text


def test_clock_and_errors_of_a_gpu_are_scraped(slowed: Snapshot) -> None:
    lines = Writer().write(slowed, Form.CLASSIC).decode().splitlines()
    labels = f'gpu="1",gpu_uuid="{SLOW}"'
    assert f'traceml_gpu_sm_clock_hertz{{{labels},run="demo"}} 1.1e+09' in lines
    assert f'traceml_gpu_errors_total{{{labels},kind="xid",run="demo"}} 1.0' in lines


def test_a_rank_that_is_slow_on_a_gpu_like_the_others_is_not_told_to_be_slow_by_it(
    collector: Collector, host: HostSampler, machine: Machine
) -> None:
    for gpu in range(2):
        machine.answer(gpu, reasons=pynvml.nvmlClocksEventReasonSwPowerCap)
    snapshot = run(collector, host, slow_rank=0)
    found = snapshot.window_diagnoses["step_time"].primary
    assert (found.state, found.rank) == ("COMPUTE_STRAGGLER", 0)
    assert "GPU" not in found.summary
    assert found.evidence is not None
    assert found.evidence["gpu_sm_clock_hertz"] == found.evidence["others_sm_clock_hertz"]
    assert snapshot.window_diagnoses["system"].scores["GPU_THROTTLED"] == 0
    assert snapshot.host is not None
    assert snapshot.host.gpus[0].throttled == ("sw_power_cap",)


def test_a_gpu_split_by_mig_is_not_judged_by_a_utilization_that_it_does_not_tell(
    collector: Collector, host: HostSampler, machine: Machine
) -> None:
    for gpu in range(2):
        machine.answer(gpu, utilization=stub.UNANSWERED[0])
    snapshot = run(collector, host, slow_rank=0)
    scores = snapshot.window_diagnoses["system"].scores
    assert not {"LOW_GPU_UTILIZATION", "MODERATE_GPU_UTILIZATION"} & scores.keys()
    assert all("utilization_ratio" not in gpu for gpu in summary(snapshot)["system"]["gpus"])
