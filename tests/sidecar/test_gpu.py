import logging
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pynvml
import pytest

from tests.builders import Clock
from tests.nvml import stub
from tests.nvml.stub import UUIDS, Machine
from traceml.sidecar.gpu import RETRY_SECONDS, GpuSampler, visible
from traceml.wire import telemetry_pb2 as pb

FIRST, SECOND = UUIDS
THROTTLE = {
    pynvml.nvmlClocksEventReasonSwPowerCap: "sw_power_cap",
    pynvml.nvmlClocksEventReasonHwSlowdown: "hw_slowdown",
    pynvml.nvmlClocksEventReasonSwThermalSlowdown: "sw_thermal_slowdown",
    pynvml.nvmlClocksEventReasonHwThermalSlowdown: "hw_thermal_slowdown",
    pynvml.nvmlClocksEventReasonHwPowerBrakeSlowdown: "hw_power_brake",
}
AS_WANTED = (
    pynvml.nvmlClocksEventReasonGpuIdle,
    pynvml.nvmlClocksEventReasonApplicationsClocksSetting,
    pynvml.nvmlClocksEventReasonSyncBoost,
    pynvml.nvmlClocksEventReasonDisplayClockSetting,
)
THERMAL = pynvml.nvmlClocksEventReasonHwThermalSlowdown
QUANTITIES = (
    "utilization_ratio",
    "memory_used_bytes",
    "memory_size_bytes",
    "temperature_celsius",
    "power_watts",
    "power_limit_watts",
    "sm_clock_hertz",
    "sm_clock_max_hertz",
    "ecc_corrected",
    "ecc_uncorrected",
    "xids",
)


def uuids(gpus: list[pb.Gpu]) -> list[str]:
    return [gpu.uuid for gpu in gpus]


def measured(gpu: pb.Gpu) -> set[str]:
    return {name for name in QUANTITIES if gpu.HasField(name)}


def test_every_gpu_is_read_with_all_that_it_tells(sampler: GpuSampler) -> None:
    first, second = sampler.sample()
    assert first == pb.Gpu(
        index=0,
        uuid=FIRST,
        utilization_ratio=0.87,
        memory_used_bytes=3 << 30,
        memory_size_bytes=8 << 30,
        temperature_celsius=61,
        power_watts=281.5,
        power_limit_watts=300,
        sm_clock_hertz=1.7e9,
        sm_clock_max_hertz=1.98e9,
        ecc_corrected=5,
        ecc_uncorrected=0,
        xids=0,
    )
    assert (second.index, second.uuid, second.temperature_celsius) == (1, SECOND, 62)
    assert measured(second) == set(QUANTITIES)
    assert sampler.failures == 0


def test_a_value_of_zero_is_a_value(sampler: GpuSampler, machine: Machine) -> None:
    machine.answer(0, utilization=0, memory_used=0, temperature=0, power=0, sm_clock=0)
    assert measured(sampler.sample()[0]) == set(QUANTITIES)


@pytest.mark.parametrize(
    ("quantity", "absent"),
    [
        ("utilization", {"utilization_ratio"}),
        ("memory_size", {"memory_used_bytes", "memory_size_bytes"}),
        ("temperature", {"temperature_celsius"}),
        ("power", {"power_watts"}),
        ("power_limit", {"power_limit_watts"}),
        ("reasons", set()),
        ("sm_clock", {"sm_clock_hertz"}),
        ("sm_clock_max", {"sm_clock_max_hertz"}),
        ("ecc_corrected", {"ecc_corrected"}),
        ("ecc_uncorrected", {"ecc_uncorrected"}),
        ("xids", {"xids"}),
    ],
)
@pytest.mark.parametrize("error", stub.UNANSWERED)
def test_what_a_gpu_does_not_tell_is_absent_and_no_failure(
    sampler: GpuSampler, machine: Machine, quantity: str, absent: set[str], error: str
) -> None:
    machine.answer(0, **{quantity: error})
    first, second = sampler.sample()
    assert measured(first) == set(QUANTITIES) - absent
    assert measured(second) == set(QUANTITIES)
    assert sampler.failures == 0


@pytest.mark.parametrize(("bit", "name"), THROTTLE.items())
def test_what_holds_the_clocks_back_is_named(
    sampler: GpuSampler, machine: Machine, bit: int, name: str
) -> None:
    machine.answer(1, reasons=bit)
    assert [list(gpu.throttled) for gpu in sampler.sample()] == [[], [name]]


def test_several_reasons_are_named_together(sampler: GpuSampler, machine: Machine) -> None:
    machine.answer(0, reasons=THERMAL | pynvml.nvmlClocksEventReasonHwSlowdown)
    assert list(sampler.sample()[0].throttled) == ["hw_slowdown", "hw_thermal_slowdown"]


def test_clocks_that_are_as_somebody_wanted_them_are_not_held_back(
    sampler: GpuSampler, machine: Machine
) -> None:
    machine.answer(0, reasons=sum(AS_WANTED))
    assert list(sampler.sample()[0].throttled) == []


def test_a_reason_is_gone_when_it_has_passed(sampler: GpuSampler, machine: Machine) -> None:
    machine.answer(0, reasons=THERMAL)
    assert sampler.sample()[0].throttled
    machine.answer(0, reasons=0)
    assert not sampler.sample()[0].throttled


@pytest.mark.parametrize("kind", ["OLD_DRIVER", "NEW_DRIVER"])
def test_functions_that_one_driver_lacks_are_found_under_their_other_name(
    sampler: GpuSampler, machine: Machine, driver: Callable[..., None], kind: str
) -> None:
    driver(kind)
    machine.answer(0, reasons=THERMAL)
    gpu = sampler.sample()[0]
    assert gpu.temperature_celsius == 61
    assert list(gpu.throttled) == ["hw_thermal_slowdown"]


def test_functions_that_nobody_has_leave_their_quantity_absent(
    sampler: GpuSampler, driver: Callable[..., None], machine: Machine
) -> None:
    driver("OLD_DRIVER", "NEW_DRIVER")
    machine.answer(0, reasons=THERMAL)
    gpu = sampler.sample()[0]
    assert measured(gpu) == set(QUANTITIES) - {"temperature_celsius"}
    assert not gpu.throttled
    assert sampler.failures == 0


VISIBLE = [
    (None, [0, 1]),
    ("0", [0]),
    ("1", [1]),
    ("0,1", [0, 1]),
    ("1,0", [0, 1]),  # CUDA's order, but not NVML's
    (" 1 , 0 ", [0, 1]),
    ("", []),
    ("-1", []),
    ("NoDevFiles", []),
    ("0,-1,1", [0]),
    ("0,2,1", [0]),
    ("0,,1", [0]),
    ("0,0", []),
    ("1st", [1]),
    ("all", []),
    (FIRST, [0]),
    (f"{SECOND},{FIRST}", [0, 1]),
    (SECOND[:8], [1]),
    ("GPU-8", []),  # either of them
    ("GPU-", []),
    (f"{SECOND},GPU-0,{FIRST}", [1]),
    (f"{SECOND},{SECOND[:8]}", []),
    (SECOND.removeprefix("GPU-"), []),
    ("MIG-8932f937-d72c-4106-c12f-20bd9faed9f6", []),
    (f"MIG-{FIRST}/1/0,{SECOND}", [1]),
    ("0,MIG-8932f937,1", [0, 1]),
]


@pytest.mark.parametrize(("shown", "indices"), VISIBLE)
def test_only_gpus_that_cuda_would_show_are_read(
    driver: Callable[..., None], shown: str | None, indices: list[int]
) -> None:
    environ = {} if shown is None else {"CUDA_VISIBLE_DEVICES": shown}
    sampler = GpuSampler(environ)
    assert [gpu.index for gpu in sampler.sample()] == indices
    assert sampler.failures == 0


def test_visible_gpus_are_in_the_order_in_which_cuda_numbers_them() -> None:
    assert visible(UUIDS, "1,0") == [1, 0]


def test_gpus_that_we_may_not_open_are_none_of_ours(sampler: GpuSampler, machine: Machine) -> None:
    machine.state("0", stub.NO_PERMISSION)
    assert uuids(sampler.sample()) == [SECOND]
    assert sampler.failures == 0


@pytest.mark.parametrize("error", [stub.GPU_IS_LOST, stub.UNKNOWN])
def test_a_lost_gpu_disappears_and_counts_once_however_often_it_is_looked_for(
    sampler: GpuSampler, machine: Machine, clock: Clock, error: str
) -> None:
    sampler.sample()
    machine.state("0", error)
    for _ in range(200):
        assert uuids(sampler.sample()) == [SECOND]
        clock.advance(1)
    assert sampler.failures == 1


def test_a_gpu_that_can_be_read_again_comes_back_and_can_be_lost_again(
    sampler: GpuSampler, machine: Machine, clock: Clock
) -> None:
    for losses in (1, 2):
        assert uuids(sampler.sample()) == [FIRST, SECOND]
        machine.state("0", stub.GPU_IS_LOST)
        assert uuids(sampler.sample()) == [SECOND]
        assert sampler.failures == losses
        machine.state("0", 0)
        clock.advance(RETRY_SECONDS)
    assert uuids(sampler.sample()) == [FIRST, SECOND]


def test_a_gpu_of_which_one_quantity_fails_stays_away_and_counts_once(
    sampler: GpuSampler, machine: Machine, clock: Clock
) -> None:
    machine.answer(0, power=stub.UNKNOWN)
    for _ in range(3):
        assert uuids(sampler.sample()) == [SECOND]
        clock.advance(RETRY_SECONDS)
    assert sampler.failures == 1


def test_a_lost_gpu_does_not_hide_those_named_after_it(
    driver: Callable[..., None], machine: Machine, clock: Clock
) -> None:
    sampler = GpuSampler({"CUDA_VISIBLE_DEVICES": f"{FIRST},{SECOND}"}, clock)
    sampler.sample()
    machine.state("0", stub.GPU_IS_LOST)
    for _ in range(3):
        assert uuids(sampler.sample()) == [SECOND]
        clock.advance(RETRY_SECONDS)


def test_a_gpu_that_is_no_longer_counted_is_lost_though_others_move_up(
    sampler: GpuSampler, machine: Machine, clock: Clock
) -> None:
    sampler.sample()
    machine.state("0", stub.GPU_IS_LOST)
    sampler.sample()
    machine.state("0", 0)
    machine.state("gpus", 1)
    machine.answer(0, uuid=SECOND)
    for _ in range(3):
        clock.advance(RETRY_SECONDS)
        assert uuids(sampler.sample()) == [SECOND]
    assert sampler.failures == 1


def test_a_gpu_that_is_dead_from_the_start_is_a_failure(
    sampler: GpuSampler, machine: Machine, clock: Clock
) -> None:
    machine.state("0", stub.GPU_IS_LOST)
    for _ in range(3):
        assert uuids(sampler.sample()) == [SECOND]
        clock.advance(RETRY_SECONDS)
    assert sampler.failures == 1


def test_with_the_driver_all_gpus_are_lost_until_it_is_back(
    sampler: GpuSampler, machine: Machine, clock: Clock
) -> None:
    sampler.sample()
    machine.state("driver", stub.DRIVER_NOT_LOADED)
    for _ in range(3):
        assert sampler.sample() == []
        clock.advance(RETRY_SECONDS)
    assert sampler.failures == 2
    machine.state("driver", 0)
    assert uuids(sampler.sample()) == [FIRST, SECOND]
    assert sampler.failures == 2


def test_a_driver_that_goes_while_a_lost_gpu_is_looked_for_takes_the_others_along(
    sampler: GpuSampler, machine: Machine, clock: Clock
) -> None:
    sampler.sample()
    machine.state("0", stub.GPU_IS_LOST)
    sampler.sample()
    machine.state("driver", stub.DRIVER_NOT_LOADED)
    clock.advance(RETRY_SECONDS)
    assert sampler.sample() == []
    assert sampler.failures == 2


def test_a_loss_is_logged_once(
    sampler: GpuSampler, machine: Machine, caplog: pytest.LogCaptureFixture
) -> None:
    sampler.sample()
    machine.state("0", stub.GPU_IS_LOST)
    with caplog.at_level(logging.WARNING):
        sampler.sample()
        sampler.sample()
    assert caplog.messages == [f"cannot read {FIRST}: GPU is lost"]


def test_a_driver_that_comes_later_is_found_within_the_minute(
    sampler: GpuSampler, machine: Machine, clock: Clock
) -> None:
    machine.state("driver", stub.DRIVER_NOT_LOADED)
    assert sampler.sample() == []
    machine.state("driver", 0)
    clock.advance(RETRY_SECONDS - 1)
    assert sampler.sample() == []
    clock.advance(1)
    assert uuids(sampler.sample()) == [FIRST, SECOND]
    assert sampler.failures == 0


def test_without_a_library_there_are_no_gpus_and_it_is_looked_for_once_a_minute(
    load: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    looks = []

    def missing(name: str) -> None:
        looks.append(name)
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(pynvml, "CDLL", missing)
    sampler = GpuSampler({}, clock)
    for _ in range(2 * int(RETRY_SECONDS)):
        assert sampler.sample() == []
        clock.advance(1)
    assert looks == [stub.SONAME] * 2
    assert sampler.failures == 0


def test_without_the_binding_there_are_no_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    sampler = GpuSampler({})
    assert sampler.sample() == []
    assert sampler.failures == 0


def run(code: str, **environ: str) -> str:
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env={**os.environ, **environ},
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    ).stdout


def test_the_library_is_found_by_its_name_as_the_driver_installs_it(
    machine: Machine, build: Callable[..., Path]
) -> None:
    code = "from traceml.sidecar.host import HostSampler\n"
    code += "print(*(gpu.uuid for gpu in HostSampler().sample().gpus))"
    output = run(code, LD_LIBRARY_PATH=str(build().parent), CUDA_VISIBLE_DEVICES="1")
    assert output.split() == [SECOND]


def test_the_binding_is_not_imported_before_it_is_needed() -> None:
    run("import sys, traceml.sidecar.host; assert 'pynvml' not in sys.modules")


def test_the_binding_is_the_one_that_does_not_warn() -> None:
    assert run("import pynvml") == ""
