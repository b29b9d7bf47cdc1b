"""Which faults are planted: the whole matrix, and the part of it that fits into a test."""

import re
from collections.abc import Iterable, Iterator
from itertools import product

from benchmarks.accuracy.schedule import (
    ALL,
    CALIBRATION_STEPS,
    COMPUTE,
    FAULT_STEPS,
    MODELS,
    PLACES,
    ROTATING,
    SLEEP,
    WINDOW_STEPS,
    Schedule,
    Segment,
)

HEALTHY_RUNS = 20
_HEALTHY_STEPS = 150 - CALIBRATION_STEPS
_OWN_PLACES = PLACES[:-1]
_QUICK_STEPS = 60  # of a fault that is there in every step
_QUICK_HEALTHY = Segment(WINDOW_STEPS + 5)
_LEAK_MIB, _LEAK_STEPS = 1.0, 220


def full() -> list[Schedule]:
    """Everything: more than an hour."""
    return [*_matrix(), *_variants(), *_habits(), *_healthy(HEALTHY_RUNS), *_leaks(), *_stalls()]


def quick() -> list[Schedule]:
    """Three minutes, on two ranks that sleep."""
    constant = [
        *(_one(place, 1, 0.4) for place in _OWN_PLACES),
        *(_one(place, 0, 1.5) for place in ("input", "backward", "other")),
        *(Segment(place=place, delay=0.4) for place in ("input", "forward", "other", "exchange")),
        Segment(place="forward", ranks=ROTATING, delay=1.5),
    ]
    seldom = [
        _one("input", 0, 0.4, every=3),
        _one("backward", 0, 1.5, every=3),
        Segment(place="exchange", delay=1.5, every=3),
    ]
    faults = [*(_shortened(each) for each in constant), *seldom]
    half = len(faults) // 2
    return [
        Schedule("quick-1", 2, _with_pauses(faults[:half], _QUICK_HEALTHY)),
        Schedule("quick-2", 2, _with_pauses(faults[half:], _QUICK_HEALTHY)),
        *_healthy(1),
    ]


def chosen(schedules: Iterable[Schedule], pattern: str | None) -> list[Schedule]:
    """Those whose names fit."""
    return [each for each in schedules if pattern is None or re.search(pattern, each.name)]


def _matrix() -> Iterator[Schedule]:
    for ranks, work, every, delay in product((2, 4), (SLEEP, COMPUTE), (1, 3), (0.15, 0.4, 1.5)):
        often = "constant" if every == 1 else f"one-in-{every}"
        faults = [_one(place, n % ranks, delay, every) for n, place in enumerate(_OWN_PLACES)]
        faults += [Segment(FAULT_STEPS, place, ALL, delay, every) for place in PLACES]
        faults += [Segment(FAULT_STEPS, "forward", ROTATING, delay, every)]
        yield Schedule(f"{ranks}-{work}-{often}-{delay:.2f}", ranks, _with_pauses(faults), work)


def _variants() -> Iterator[Schedule]:
    """Models in which ranks also wait for each other elsewhere than at the end of backward."""
    for model, ranks, delay in product(MODELS[1:], (2, 4), (0.4, 1.5)):
        places = ("input", "forward", "backward", "other")
        faults = [_one(place, n % ranks, delay) for n, place in enumerate(places)]
        yield Schedule(f"{model}-{ranks}-{delay:.2f}", ranks, _with_pauses(faults), model=model)


def _habits() -> Iterator[Schedule]:
    """What trainings do that is no fault."""
    habits = [
        Segment(FAULT_STEPS, save_every=20),
        Segment(FAULT_STEPS, evaluate_every=50),
        Segment(FAULT_STEPS, accumulate=2),
        Segment(FAULT_STEPS, batch_spread=0.25),
    ]
    for ranks, work in product((2, 4), (SLEEP, COMPUTE)):
        yield Schedule(f"habits-{ranks}-{work}", ranks, _with_pauses(habits), work)
    cold = (Segment(_HEALTHY_STEPS),)
    yield Schedule("cold", 2, cold, cold_seconds=2.0, judged_whole=True)


def _healthy(runs: int) -> Iterator[Schedule]:
    kinds = ((2, SLEEP), (2, COMPUTE), (4, SLEEP), (4, COMPUTE))
    for number in range(runs):
        ranks, work = kinds[number % len(kinds)]
        name = f"healthy-{number:02}-{ranks}-{work}"
        yield Schedule(name, ranks, (Segment(_HEALTHY_STEPS),), work, judged_whole=True)


def _leaks() -> Iterator[Schedule]:
    whose: tuple[int | str, ...] = (1, ALL)
    for ranks, who in product((2, 4), whose):
        segments = (Segment(_LEAK_STEPS, ranks=who, leak_mib=_LEAK_MIB),)
        yield Schedule(f"leak-{ranks}-{who}", ranks, segments, judged_whole=True)


def _stalls() -> Iterator[Schedule]:
    for ranks, (place, stuck) in product(
        (2, 4), (("input", "asleep"), ("forward", "asleep"), ("forward", "stopped"))
    ):
        segments = (Segment(), Segment(1, place, ranks - 1, stuck=stuck))
        yield Schedule(f"stall-{ranks}-{place}-{stuck}", ranks, segments)


def _one(place: str, rank: int, delay: float, every: int = 1) -> Segment:
    return Segment(FAULT_STEPS, place, rank, delay, every)


def _shortened(segment: Segment) -> Segment:
    return Segment(_QUICK_STEPS, segment.place, segment.ranks, segment.delay)


def _with_pauses(faults: Iterable[Segment], pause: Segment | None = None) -> tuple[Segment, ...]:
    """A healthy segment before the first fault, and after each."""
    healthy = pause or Segment()
    return (healthy, *(each for fault in faults for each in (fault, healthy)))
