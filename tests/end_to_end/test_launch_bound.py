"""A device that waits for its CPU, on the fake accelerator, whose log tells the truth.

What is measured is an upper bound: of a device that is done shortly before a mark, all the time
since the mark before may count. NVML, which caps it, has nothing to say of this device.
"""

from dataclasses import replace

import pytest

from tests.accelerator.launched import finish, true_idle_ratio
from tests.accelerator.plan import Plan
from tests.launching import Finished, Launcher

pytestmark = [
    pytest.mark.timeout(900),  # the first may have to compile
    pytest.mark.usefixtures("accelerator"),
]

# Many small kernels, as such trainings have: 2 ms each for the CPU, up to 0.75 for the device.
SLOW_CPU = Plan(
    forward=8, backward=12, optimizer=1, blocks=16, launch=2, copy=1, world=1, steps=24
)  # fmt: skip
BUSY_DEVICE = replace(SLOW_CPU, forward=60, backward=90, optimizer=8)


def states(finished: Finished) -> set[str]:
    return {finding["state"] for finding in finished.summary["step_time"]["findings"]}


def idle_ratio(finished: Finished) -> float:
    return float(finished.ranks[0].get("device_idle_ratio", 0.0))


def test_small_kernels_that_are_queued_slowly_are_launch_bound(launcher: Launcher) -> None:
    finished = finish(launcher, SLOW_CPU)
    assert finished.summary["primary_diagnosis"]["state"] == "LAUNCH_BOUND"
    assert finished.summary["step_time"]["clock"] == "device"
    assert true_idle_ratio(launcher) > 0.4
    assert true_idle_ratio(launcher) - 0.08 <= idle_ratio(finished) <= 1.0


@pytest.mark.parametrize("reads_loss", [False, True])
def test_a_device_that_is_always_busy_is_not(launcher: Launcher, reads_loss: bool) -> None:
    """Also where the loss is read, and the CPU catches up with the device, in each step."""
    finished = finish(launcher, replace(BUSY_DEVICE, reads_loss=reads_loss))
    assert "LAUNCH_BOUND" not in states(finished)
    assert finished.summary["step_time"]["clock"] == "device"
    assert true_idle_ratio(launcher) < 0.08
    assert idle_ratio(finished) < 0.08
