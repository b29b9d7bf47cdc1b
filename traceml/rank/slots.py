"""The layout of a record while it is being filled: a list of integers, one slot each.

Phases come first, so that a phase's number is its slot. Times are nanoseconds,
memory bytes; ABSENT stands for what was not measured.
"""

import numpy as np

from traceml.wire.columns import PHASES, VALUES, Integers, Records

IDLE = 0  # before the first step: collected, never reported
DATALOADER, H2D, FORWARD, BACKWARD, OPTIMIZER, COLLECTIVE_WAIT, OTHER = range(1, 8)
LOSS = 8  # after forward: forward if a backward follows, other if none does
STEP, END_NS, TAGS, STEP_NS, OVERHEAD_NS, RESIDENT_BYTES, SAMPLES, ELEMENTS = range(9, 17)
MARKS = 17  # phases left in this step, to price our own overhead
WIDTH = 18

ABSENT = -1

PHASE_NAMES = ("", *PHASES, "forward")

_VALUE_SLOTS = [STEP_NS, *range(DATALOADER, OTHER + 1), *range(OVERHEAD_NS, ELEMENTS + 1)]
assert len(_VALUE_SLOTS) == len(VALUES)


def to_records(rows: Integers) -> Records:
    """Turn raw rows (n x WIDTH) into columns, absent values into NaN."""
    values = rows[:, _VALUE_SLOTS].astype(np.float64)
    values[values < 0] = np.nan
    return Records(rows[:, STEP], rows[:, END_NS], rows[:, TAGS], values)
