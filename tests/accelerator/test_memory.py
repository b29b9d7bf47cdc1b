"""The device's memory, read where real steps end on a device with an allocator of its own."""

import math
from dataclasses import replace
from itertools import pairwise

import pytest

from tests.accelerator.plan import Plan
from tests.accelerator.running import Run, run

pytestmark = [pytest.mark.alone, pytest.mark.usefixtures("accelerator")]

PLAN = Plan(steps=30)  # some seconds, so that there are several readings
KEPT_BYTES = 512  # of each step: its loss, and the least that the allocator hands out


@pytest.fixture(scope="module")
def ran(accelerator: None) -> Run:
    return run(PLAN)


def test_what_stays_allocated_grows_by_what_the_loop_keeps(ran: Run) -> None:
    floors = {
        number: step["floor_bytes"]
        for number, step in enumerate(ran.steps)
        if not math.isnan(step["floor_bytes"])
    }
    assert len(floors) >= 2
    for (earlier, before), (later, after) in pairwise(floors.items()):
        assert after - before == (later - earlier) * KEPT_BYTES


def test_every_step_has_a_peak_that_is_above_the_floor(ran: Run) -> None:
    for step in ran.steps:
        assert step["allocated_bytes"] <= step["reserved_bytes"]
        assert math.isnan(step["floor_bytes"]) or step["allocated_bytes"] > step["floor_bytes"]
        assert step["allocation_retries"] == 0


def test_reading_it_waits_for_nothing(ran: Run) -> None:
    bare = run(replace(PLAN, traced=False))
    assert ran.told["counts"]["synchronisations"] == bare.told["counts"]["synchronisations"]
    assert (ran.told["faults"], ran.told["notes"]) == (0, [])
