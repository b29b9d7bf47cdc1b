"""What a training on a device notices of TraceML: no wait, no other loss, and few events."""

from dataclasses import replace

import pytest

from tests.accelerator.plan import Plan
from tests.accelerator.running import SETTLING, Run, run, run_all

pytestmark = [
    pytest.mark.timeout(900),  # the first may have to compile
    pytest.mark.usefixtures("accelerator"),
]

EVENTS_A_STEP = 12
SHORT = Plan(copy=2, forward=8, backward=12, optimizer=2, collective=2, steps=12)
PLANS = {
    "plain": replace(SHORT, world=1),
    "the loss is read": replace(SHORT, world=1, reads_loss=True),
    "prefetch": replace(SHORT, shape="prefetch", world=1),
    "ddp": replace(SHORT, shape="ddp"),
    "ddp, before torch 2.8": replace(SHORT, shape="ddp", on_current_stream=False),
    "fsdp2": replace(SHORT, shape="fsdp2"),
    "tensor parallel": replace(SHORT, shape="tensor_parallel"),
    "tensor parallel, asynchronous": replace(SHORT, shape="tensor_parallel_async"),
}


@pytest.fixture(scope="module")
def runs(accelerator: None) -> dict[str, tuple[Run, Run]]:
    """Traced and bare."""
    plans = list(PLANS.values())
    ran = run_all([*plans, *(replace(plan, traced=False) for plan in plans)], at_once=2)
    return dict(zip(PLANS, zip(ran[: len(plans)], ran[len(plans) :], strict=True), strict=True))


@pytest.mark.parametrize("name", PLANS)
def test_the_device_is_never_waited_for_and_computes_the_same(
    name: str, runs: dict[str, tuple[Run, Run]]
) -> None:
    traced, bare = runs[name]
    assert (traced.told["clock"], traced.told["faults"]) == ("DeviceClock", 0)
    assert len(traced.steps) == SHORT.steps
    assert added(traced, bare, "synchronisations") == 0
    assert added(traced, bare, "collectives") == 0
    assert traced.told["losses"] == bare.told["losses"]


@pytest.mark.parametrize("name", ["plain", "prefetch", "ddp", "ddp, before torch 2.8"])
def test_a_step_records_few_events(name: str, runs: dict[str, tuple[Run, Run]]) -> None:
    """Those included with which their price is taken, once."""
    traced, bare = runs[name]
    assert 0 < added(traced, bare, "recorded") <= EVENTS_A_STEP * SHORT.steps


def added(traced: Run, bare: Run, what: str) -> int:
    return int(traced.told["counts"][what] - bare.told["counts"][what])


def test_models_that_the_garbage_collector_does_not_know_are_timed_on_their_device() -> None:
    ran = run(replace(SHORT, world=1, frozen=True))
    assert (ran.told["device"], ran.told["clock"], ran.told["faults"]) == ("fake", "DeviceClock", 0)
    assert ran.told["notes"] == []
    assert ran.true_ms(lambda step: step.own["forward"]) == pytest.approx(SHORT.forward)
    assert all(step["device_forward_ns"] > 0 for step in ran.steps[SETTLING:])
    assert ran.device_ms("forward") == pytest.approx(
        ran.true_ms(lambda step: step.device("forward")), abs=2
    )
