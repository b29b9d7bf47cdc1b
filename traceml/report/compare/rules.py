"""Every number that decides a comparison, in one place."""

from dataclasses import dataclass

MEBIBYTE = 2**20


@dataclass(frozen=True, slots=True)
class Rules:
    """What counts as a change, and how sure one has to be. Ratios are 0-1."""

    threshold: float = 0.05  # smaller changes are no news
    floor_seconds: float = 100e-6  # nor are shorter ones, a step
    floor_bytes: float = 32 * MEBIBYTE
    level_of_change: float = 0.99  # of the interval that must leave out 0: one false alarm in 200
    level_of_equality: float = 0.90  # of the interval that must lie within the threshold
    least_steps: int = 20  # a run, left out ones not counted
    # How much equal runs differ from each other, as a standard deviation. With one baseline it
    # can't be seen and is assumed; several tell, and the guess counts for so many of them.
    assumed_run_noise: float = 0.015
    assumed_degrees: float = 8.0
    expected_run_noise: float = 0.01
    expected_degrees: float = 4.0
    unknown_step_noise: float = 0.05  # where a summary does not tell how its steps vary
    unknown_degrees: float = 4.0
    cause_share: float = 0.25  # of the step's change: a phase with less of it is no cause
    alike_share: float = 0.10  # of the step: shorter phases have no say in whether all moved alike


DEFAULT = Rules()
