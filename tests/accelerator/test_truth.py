"""What TraceML measures of real torch code on a device, against what the device truly did."""

import pytest

from tests.accelerator.cases import CASES, Figure, figures, run_cases
from tests.accelerator.running import Run

pytestmark = [
    pytest.mark.alone,
    pytest.mark.timeout(900),  # the first may have to compile
    pytest.mark.usefixtures("accelerator"),
]


@pytest.fixture(scope="module")
def runs(accelerator: None) -> dict[str, Run]:
    return run_cases(list(CASES))


@pytest.mark.parametrize("name", CASES)
def test_the_device_did_what_was_planned(name: str, runs: dict[str, Run]) -> None:
    ran = runs[name]
    plan, recomputed = ran.plan, ran.plan.shape.startswith("checkpoint")
    planned = {
        "forward": plan.forward * plan.micro_batches,
        "backward": (plan.backward + plan.forward * recomputed) * plan.micro_batches,
        "optimizer": plan.optimizer,
    }
    for phase, ms in planned.items():
        assert ran.true_ms(lambda step, phase=phase: step.own[phase]) == pytest.approx(ms)  # type: ignore[misc]


@pytest.mark.parametrize("name", CASES)
def test_what_is_measured_is_true(name: str, runs: dict[str, Run]) -> None:
    ran = runs[name]
    assert (ran.told["clock"], ran.told["faults"], ran.told["notes"]) == ("DeviceClock", 0, [])
    assert wrong(figures(ran)) == {}


def wrong(found: dict[str, Figure]) -> dict[str, Figure]:
    return {phase: figure for phase, figure in found.items() if not figure.is_right}
