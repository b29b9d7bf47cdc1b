"""What a device's allocator says of steps. Torch's hooks are real, the allocator is not."""

import math
from threading import Thread
from typing import Any

import pytest
import torch

from tests.rank.conftest import LocalTracer, Traced, recorded
from tests.rank.tape import Tape, replayed
from traceml.rank import allocator
from traceml.rank.allocator import watch
from traceml.rank.events import ABANDON, MEMORY, SCOPE, Recorder
from traceml.rank.readings import Reading

GPU = torch.device("xpu", 1)
AN_HOUR_NS = 3_600 * 10**9


class Memory:
    """Shaped like an allocator of torch, in bytes."""

    def __init__(self) -> None:
        self.allocated = self.peak = 100
        self.reserved = 500
        self.retries = 7
        self.asked: list[torch.device] = []
        self.is_broken = False

    def hold(self, size: int) -> None:
        self.allocated += size
        self.peak = max(self.peak, self.allocated)

    def use(self, size: int) -> None:
        """For a moment."""
        self.hold(size)
        self.hold(-size)

    def stats(self, device: torch.device) -> dict[str, Any]:
        self.asked.append(device)
        if self.is_broken:
            raise RuntimeError("no driver")
        return {
            "allocated_bytes": {"all": {"current": self.allocated, "peak": self.peak}},
            "reserved_bytes": {"all": {"current": self.reserved, "peak": 900}},
            "num_alloc_retries": self.retries,
        }


class Job:
    """A training on that device, whose steps need what is said."""

    def __init__(self, traced: Traced, memory: Memory) -> None:
        self.traced, self.memory = traced, memory
        self.model = torch.nn.Linear(2, 2)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        watch(traced.recorder, GPU)

    def backward(self, activations: int = 0, temporary: int = 0) -> None:
        self.memory.hold(activations)
        loss = self.model(torch.ones(1, 2)).sum()
        loss.register_hook(lambda _: self.memory.use(temporary))
        loss.backward()
        self.memory.hold(-activations)

    def step(self, activations: int = 0, temporary: int = 0, is_due: bool = True) -> None:
        if is_due and self.traced.recorder.allocator is not None:
            self.traced.recorder.allocator.due_ns = 0
        self.backward(activations, temporary)
        self.optimizer.step()
        self.traced.recorder.finish()

    def told(self, *names: str) -> list[Any]:
        """Of the steps since it was asked last."""
        steps = self.traced.records()
        return [tuple(step[name] for name in names) for step in steps]


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> Memory:
    memory = Memory()
    monkeypatch.setattr(torch.xpu, "memory_stats_as_nested_dict", memory.stats)
    monkeypatch.setattr(allocator, "EVERY_NS", AN_HOUR_NS)
    return memory


@pytest.fixture
def job(traced: Traced, memory: Memory) -> Job:
    return Job(traced, memory)


def test_a_step_tells_what_stays_allocated_what_is_reserved_and_its_peak(job: Job) -> None:
    job.step(activations=60, temporary=20)
    assert job.told("floor_bytes", "reserved_bytes", "allocated_bytes") == [(100, 500, 180)]
    assert set(job.memory.asked) == {GPU}


def test_a_peak_from_before_the_training_is_no_steps(job: Job) -> None:
    job.memory.use(10_000)  # as loading a checkpoint does
    for _ in range(2):
        job.step(activations=60, temporary=20)
    assert job.told("allocated_bytes") == [(160,), (160,)]  # all that can be seen of it


def test_a_step_that_needs_less_has_a_lower_peak(job: Job) -> None:
    for activations in (60, 300, 60):
        job.step(activations, temporary=20)
    assert job.told("allocated_bytes") == [(180,), (420,), (180,)]


def test_steps_that_need_the_same_keep_their_peak(job: Job) -> None:
    for _ in range(5):
        job.step(activations=60, temporary=20)
    assert job.told("allocated_bytes") == [(180,)] * 5


def test_what_an_evaluation_needs_does_not_stay_the_peak(job: Job) -> None:
    job.step(activations=60, temporary=20)
    job.memory.use(1_000)
    job.step(activations=60, temporary=20)
    job.step(activations=60, temporary=20)
    assert job.told("allocated_bytes") == [(180,), (1_100,), (180,)]


def test_peaks_may_be_reset_by_the_user(job: Job) -> None:
    job.step(activations=300, temporary=20)
    for _ in range(2):
        job.memory.peak = job.memory.allocated
        job.step(activations=60, temporary=30)
    assert job.told("allocated_bytes") == [(420,), (190,), (180,)]


def test_retries_are_told_once_and_those_from_before_the_training_never(job: Job) -> None:
    job.step()
    job.memory.retries += 2
    job.step()
    job.step()
    assert job.told("allocation_retries") == [(0,), (2,), (0,)]
    assert job.traced.replay.memory.retries_so_far == 9


def test_retries_that_the_user_has_reset_are_none(job: Job) -> None:
    job.step()
    job.memory.retries = 0
    job.step()
    assert job.told("allocation_retries") == [(0,), (0,)]


def test_between_two_readings_peaks_are_carried_on_and_nothing_is_counted_twice(job: Job) -> None:
    job.step(activations=60)
    job.memory.retries += 1
    job.step(activations=60)
    job.step(activations=300, is_due=False)
    job.step(activations=300, is_due=False)
    told = job.told("allocated_bytes", "reserved_bytes", "floor_bytes", "allocation_retries")
    assert told[:2] == [(160, 500, 100, 0), (160, 500, 100, 1)]
    for allocated, reserved, floor, retries in told[2:]:
        assert (allocated, reserved, retries) == (160, 500, 0)
        assert math.isnan(floor)


def test_it_is_read_once_in_a_while_and_not_once_a_step(job: Job) -> None:
    for step in range(20):
        job.step(is_due=not step)
    assert len(job.memory.asked) == 2  # as backward began, and at the end


def test_in_many_backwards_of_one_step_it_is_looked_at_in_the_first(job: Job) -> None:
    for _ in range(8):
        job.backward(activations=60)
    job.optimizer.step()
    assert len(job.memory.asked) == 2


def test_an_allocator_that_fails_is_counted_once_and_asked_no_more(job: Job) -> None:
    job.memory.is_broken = True
    for _ in range(3):
        job.step()
    assert len(job.memory.asked) == job.traced.recorder.faults == 1
    assert all(math.isnan(value) for (value,) in job.told("allocated_bytes"))


def test_a_device_that_nobody_has_used_yet_says_nothing(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job.memory, "stats", lambda _: {})
    monkeypatch.setattr(torch.xpu, "memory_stats_as_nested_dict", lambda _: {})
    watch(job.traced.recorder, GPU)
    job.step()
    assert job.traced.recorder.faults == 0
    assert math.isnan(job.told("allocated_bytes")[0][0])


def test_a_backend_with_flat_figures_is_read_too(
    traced: Traced, monkeypatch: pytest.MonkeyPatch
) -> None:
    flat = {
        "allocated_bytes.all.current": 3,
        "allocated_bytes.all.peak": 8,
        "reserved_bytes.all.current": 9,
    }
    monkeypatch.delattr(torch.xpu, "memory_stats_as_nested_dict")
    monkeypatch.setattr(torch.xpu, "memory_stats", lambda _: flat)
    job = Job(traced, Memory())
    job.step()
    told = job.told("floor_bytes", "reserved_bytes", "allocated_bytes", "allocation_retries")
    assert told == [(3, 9, 3, 0)]


@pytest.mark.parametrize("device", ["cpu", "mps", "meta"])
def test_where_no_allocator_tells_of_itself_nothing_is_read(device: str) -> None:
    recorder = Recorder()
    watch(recorder, torch.device(device))
    assert recorder.allocator is None


def test_on_the_cpu_a_training_has_no_allocator(tracer: LocalTracer) -> None:
    model = torch.nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        model(torch.ones(1, 2)).sum().backward()
        optimizer.step()
    assert tracer.recorder.allocator is None
    assert len(recorded(tracer, ended=True)) == 3


def test_where_no_optimizer_is_seen_it_is_read_where_a_scope_ends(job: Job) -> None:
    job.backward(activations=60, temporary=20)
    job.traced.recorder.finish()
    assert job.told("floor_bytes", "allocated_bytes") == [(100, 180)]


def test_after_an_optimizer_a_scopes_end_is_another_place_and_not_read(job: Job) -> None:
    job.step()
    job.memory.hold(-40)  # gradients are freed
    assert job.traced.recorder.allocator is not None
    job.traced.recorder.allocator.due_ns = 0
    job.traced.recorder.finish()
    (_, (floor,)) = job.told("floor_bytes")
    assert math.isnan(floor)


def test_where_no_step_is_seen_to_end_peaks_are_read_and_no_floor(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(allocator, "EVERY_NS", 0)
    for _ in range(3):
        job.backward(activations=60)
    job.traced.recorder.allocator = None
    job.traced.recorder.finish()
    ((allocated, floor),) = job.told("allocated_bytes", "floor_bytes")
    assert allocated == 160
    assert math.isnan(floor)


def test_other_threads_do_not_read(job: Job) -> None:
    def train() -> None:
        job.backward()
        job.optimizer.step()

    thread = Thread(target=train)
    thread.start()
    thread.join()
    assert len(job.memory.asked) == 0


def test_steps_that_end_by_themselves_have_the_reading_of_their_own_end() -> None:
    tape = Tape()
    for floor in (10, 20, 30):
        tape.fetch().step().note(MEMORY, Reading(2 * floor, 99, floor, 0, 0, 0))
    steps = [step.values for step in replayed(tape)]
    assert [step["floor_bytes"] for step in steps] == [10, 20, 30]
    assert [step["allocated_bytes"] for step in steps] == [20, 40, 60]


def test_of_several_readings_in_a_step_the_highest_peak_and_all_retries_count() -> None:
    tape = Tape().note(SCOPE)
    for allocated in (50, 80, 60):
        tape.note(MEMORY, Reading(allocated, 99, 10, 1, 0, 0))
    (step,) = replayed(tape.scope_end())
    assert (step.values["allocated_bytes"], step.values["allocation_retries"]) == (80, 3)


def test_what_a_step_that_was_abandoned_retried_is_told_of_the_next() -> None:
    tape = Tape().note(SCOPE).note(MEMORY, Reading(50, 99, 10, 2, 2, 0)).at(ABANDON)
    (step,) = replayed(tape.step().scope_end())
    assert step.values["allocation_retries"] == 2


def test_what_a_reading_takes_is_our_own_overhead() -> None:
    bare, read = Tape().note(SCOPE), Tape().note(SCOPE).note(MEMORY, Reading(5, 5, 5, 0, 0, 40_000))
    one, other = (replayed(tape.step().scope_end())[0]["overhead"] for tape in (bare, read))
    assert other - one == 40_001  # and an entry
