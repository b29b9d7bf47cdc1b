"""System and process: what stands beside the steps."""

from typing import Any

import pytest

from tests.builders import Clock, look, make_collector, start_ranks, tell, timed_records
from traceml.diagnosis.finding import Finding, primary
from traceml.snapshot import Snapshot
from traceml.wire import telemetry_pb2 as pb
from traceml.wire.columns import VALUES

GIB = 2.0**30


def sampled(gpus: int = 0, **gpu: Any) -> Snapshot:
    collector = make_collector(Clock(), ranks_expected=1)
    idle = {"utilization_ratio": 0.9, "memory_used_bytes": GIB, "memory_size_bytes": 40 * GIB}
    tell(
        collector,
        sampled=pb.Sampled(
            cpu_utilization_ratio=0.2,
            memory_used_bytes=GIB,
            memory_size_bytes=32 * GIB,
            gpus=[pb.Gpu(index=i, uuid=f"GPU-{i}", **{**idle, **gpu}) for i in range(gpus)],
        ),
    )
    return look(collector)


def system(snapshot: Snapshot) -> Finding:
    return snapshot.window_diagnoses["system"].primary


def test_a_machine_with_nothing_to_say_of_is_normal() -> None:
    assert system(sampled()).state == "NORMAL"
    assert system(sampled(gpus=2)).state == "NORMAL"


def test_a_machine_that_nobody_looked_at_is_not_judged() -> None:
    assert system(look(make_collector(Clock()))).state == "NO_DATA"


@pytest.mark.parametrize(
    ("gpu", "state"),
    [
        ({"memory_used_bytes": 39 * GIB}, "VERY_HIGH_GPU_MEMORY"),
        ({"memory_used_bytes": 35 * GIB}, "HIGH_GPU_MEMORY"),
        ({"temperature_celsius": 86.0}, "HIGH_GPU_TEMPERATURE"),
        ({"throttled": ["hw_thermal_slowdown"]}, "GPU_THROTTLED"),
        ({"power_watts": 399.0, "power_limit_watts": 400.0}, "HIGH_GPU_POWER"),
        ({"utilization_ratio": 0.1}, "LOW_GPU_UTILIZATION"),
        ({"utilization_ratio": 0.0}, "LOW_GPU_UTILIZATION"),
        ({"utilization_ratio": 0.5}, "MODERATE_GPU_UTILIZATION"),
    ],
)
def test_each_fact_about_a_gpu_is_found(gpu: dict[str, Any], state: str) -> None:
    assert system(sampled(gpus=1, **gpu)).state == state


def test_without_gpus_nothing_is_said_of_them() -> None:
    assert sampled().window_diagnoses["system"].scores.keys() == {"HIGH_HOST_MEMORY", "HIGH_CPU"}


def test_context_never_outranks_a_step() -> None:
    snapshot = sampled(gpus=1, temperature_celsius=99.0)
    assert system(snapshot).severity == "warning"
    assert primary(snapshot.window_diagnoses).domain == "step_time"


def on_a_device(allocated: float, reserved: float, cores: float = 1.0) -> Snapshot:
    clock = Clock()
    collector = make_collector(clock, ranks_expected=1)
    (process,) = start_ranks(collector, 1)
    process.identity.memory_limit_bytes = int(40 * GIB)
    process.session = "again"
    process.hello()
    for second in range(5):
        process.heartbeat = pb.Heartbeat(cpu_seconds=cores * second, resident_bytes=2**30)
        process.beat()
        clock.advance(1.0)
    records = timed_records(range(10))
    records.values[:, VALUES.index("allocated_bytes")] = allocated
    records.values[:, VALUES.index("reserved_bytes")] = reserved
    process.send(records)
    return look(collector)


@pytest.mark.parametrize(
    ("run", "state"),
    [
        ((10 * GIB, 11 * GIB), "NORMAL"),
        ((35 * GIB, 37 * GIB), "HIGH_GPU_MEMORY"),
        ((10 * GIB, 25 * GIB), "RESERVED_OVERHANG"),
        ((1 * GIB, 3 * GIB), "NORMAL"),
        ((10 * GIB, 11 * GIB, 12.0), "HIGH_CPU"),
    ],
)
def test_each_fact_about_a_process_is_found(run: tuple[float, ...], state: str) -> None:
    assert on_a_device(*run).window_diagnoses["process"].primary.state == state
