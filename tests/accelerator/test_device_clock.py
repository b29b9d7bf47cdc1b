"""The device's clock on a device that truly works on while the CPU goes its own way.

What is compared are shares and ratios within a run, so that a slow machine is no failure.
"""

from dataclasses import replace

import pytest

from tests.accelerator.plan import Plan
from tests.accelerator.running import SETTLING, Run, run
from traceml.wire.columns import PHASES

pytestmark = [
    pytest.mark.alone,
    pytest.mark.timeout(900),  # the first may have to compile
    pytest.mark.usefixtures("accelerator"),
]

# One block, so that its gradients are exchanged when all of its work is done.
FAST = Plan("ddp", copy=8, forward=6, backward=8, collective=20, optimizer=4, blocks=1, steps=25)


@pytest.fixture(scope="module")
def fast(accelerator: None) -> Run:
    return checked(FAST)


def checked(plan: Plan) -> Run:
    ran = run(plan)
    assert (ran.told["clock"], ran.told["faults"], ran.told["notes"]) == ("DeviceClock", 0, [])
    assert len(ran.steps) == plan.steps
    return ran


def test_a_fetch_behind_queued_work_costs_the_device_nothing() -> None:
    hidden = checked(Plan(fetch=10, forward=10, backward=10, optimizer=5, steps=25, ahead=25))
    assert hidden.cpu_ms("dataloader") > 0.5 * hidden.cpu_ms("step")
    assert hidden.device_ms("dataloader") < 0.05 * hidden.device_ms("step")


def test_an_exposed_fetch_is_as_long_on_the_device_as_it_is() -> None:
    exposed = checked(Plan(fetch=20, forward=5, backward=5, optimizer=0, ahead=0, steps=25))
    assert 0.8 < exposed.device_ms("dataloader") / exposed.cpu_ms("dataloader") < 1.25
    assert exposed.device_ms("dataloader") > 0.4 * exposed.device_ms("step")
    assert exposed.cpu_ms("forward") < 0.5 * exposed.device_ms("forward")


def test_work_is_in_the_phase_that_queued_it_and_phases_add_up(fast: Run) -> None:
    planned = {
        "h2d": FAST.copy, "forward": FAST.forward, "backward": FAST.backward,
        "collective_wait": FAST.collective, "optimizer": FAST.optimizer,
    }  # fmt: skip
    scale = fast.device_ms("step") / sum(planned.values())
    for phase, ms in planned.items():
        assert 0.7 < fast.device_ms(phase) / (ms * scale) < 1.4, phase
    for step in fast.steps[SETTLING:]:
        total = sum(step[f"device_{phase}_ns"] for phase in PHASES)
        assert total == pytest.approx(step["device_step_ns"], rel=1e-3)
    # From the end of the exchange to the end of the step there is the optimizer.
    assert 0.7 < fast.device_ms("end") / fast.device_ms("optimizer") < 1.4


def test_a_slow_backward_on_one_rank_shows_there_and_nowhere_else(fast: Run) -> None:
    """Two ranks whose steps are equally long, as an exchange makes them."""
    slow = checked(replace(FAST, backward=FAST.backward + 16, collective=FAST.collective - 16))
    assert 0.8 < slow.device_ms("step") / fast.device_ms("step") < 1.25
    excess = {
        phase: slow.device_ms(phase) - fast.device_ms(phase)
        for phase in PHASES
        if phase != "collective_wait"
    }
    assert max(excess, key=excess.__getitem__) == "backward"
    others = [abs(ms) for phase, ms in excess.items() if phase != "backward"]
    assert sum(others) < 0.25 * excess["backward"]
    assert fast.device_ms("collective_wait") > 2 * slow.device_ms("collective_wait")
    # The CPU only queues this work, and has nothing to tell of it.
    assert abs(slow.cpu_ms("backward") - fast.cpu_ms("backward")) < 0.25 * excess["backward"]
