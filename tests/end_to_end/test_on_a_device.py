"""Two ranks on the fake accelerator that wait for each other: who makes the other wait is named.

The device's times are what was planned, however busy the machine is.
"""

from dataclasses import replace
from typing import Any

import pytest

from tests.accelerator.launched import finish
from tests.accelerator.plan import Plan
from tests.launching import Finished, Launcher

pytestmark = [
    pytest.mark.timeout(900),  # the first may have to compile
    pytest.mark.usefixtures("accelerator"),
]

LATE_MS = 25.0
# So far ahead that the devices have work even while other processes have the cores.
TWO_RANKS = Plan(copy=2, forward=20, backward=40, optimizer=6, collective=1, steps=24, ahead=8)
SHAPES = {
    "ddp": replace(TWO_RANKS, shape="ddp"),
    "ddp, before torch 2.8": replace(TWO_RANKS, shape="ddp", on_current_stream=False),
    "fsdp2": replace(TWO_RANKS, shape="fsdp2"),
    "fsdp2, before torch 2.8": replace(TWO_RANKS, shape="fsdp2", on_current_stream=False),
}


def verdict(finished: Finished) -> dict[str, Any]:
    found = finished.summary["primary_diagnosis"]
    return {name: found.get(name) for name in ("state", "rank", "phase", "confidence")}


def assert_measured_in_full(finished: Finished) -> None:
    summary = finished.summary
    assert summary["step_time"]["clock"] == "device"
    assert summary["notes"] == []
    assert [rank["device"] for rank in summary["ranks"]] == ["fake", "fake"]


@pytest.mark.parametrize(
    ("where", "phase", "state", "shape"),
    [
        ("fetch", "dataloader", "INPUT_STRAGGLER", "ddp"),
        ("copy", "h2d", "INPUT_STRAGGLER", "ddp, before torch 2.8"),
        ("forward", "forward", "COMPUTE_STRAGGLER", "ddp"),
        ("backward", "backward", "COMPUTE_STRAGGLER", "ddp, before torch 2.8"),
        ("optimizer", "optimizer", "COMPUTE_STRAGGLER", "ddp"),
        ("other", "other", "STRAGGLER", "ddp, before torch 2.8"),
        ("fetch", "dataloader", "INPUT_STRAGGLER", "fsdp2, before torch 2.8"),
        ("copy", "h2d", "INPUT_STRAGGLER", "fsdp2"),
        ("forward", "forward", "COMPUTE_STRAGGLER", "fsdp2, before torch 2.8"),
        ("backward", "backward", "COMPUTE_STRAGGLER", "fsdp2"),
        ("optimizer", "optimizer", "COMPUTE_STRAGGLER", "fsdp2, before torch 2.8"),
        ("other", "other", "STRAGGLER", "fsdp2"),
    ],
)
def test_the_late_rank_is_named_with_its_phase(
    launcher: Launcher, where: str, phase: str, state: str, shape: str
) -> None:
    # A fetch costs a device nothing that has work left meanwhile.
    ahead = 0 if where == "fetch" else TWO_RANKS.ahead
    plan = replace(SHAPES[shape], late_phase=where, late_ms=LATE_MS, ahead=ahead)
    finished = finish(launcher, plan)
    assert verdict(finished) == {
        "state": state, "rank": 1, "phase": phase, "confidence": "high"
    }  # fmt: skip
    assert_measured_in_full(finished)
    in_time, late = (waited_by_place(finished, rank) for rank in (0, 1))
    assert sum(in_time.values()) - sum(late.values()) > 0.8 * LATE_MS / 1e3


def waited_by_place(finished: Finished, rank: int) -> dict[str, float]:
    places: dict[str, float] = finished.ranks[rank]["wait_seconds_by_place"]
    assert set(places) <= {"forward", "backward", "optimizer", "other"}
    waited = finished.ranks[rank]["phases"]["collective_wait"]
    assert sum(places.values()) == pytest.approx(waited, rel=0.01)
    return places


@pytest.mark.parametrize("shape", ["ddp", "fsdp2, before torch 2.8"])
def test_of_ranks_that_are_equal_nobody_is_warned(launcher: Launcher, shape: str) -> None:
    finished = finish(launcher, SHAPES[shape])
    found = finished.summary["step_time"]["findings"]
    assert [each for each in found if each["severity"] != "info"] == []
    assert verdict(finished)["state"] == "COMPUTE_BOUND"
    assert_measured_in_full(finished)
    assert all(waited_by_place(finished, rank)["backward"] > 0 for rank in (0, 1))
