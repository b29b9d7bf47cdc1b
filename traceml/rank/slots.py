"""The layout of a record while it is being filled: a list of integers, one slot each.

Phases come first, so that a phase's number is its slot. Times are nanoseconds;
ABSENT stands for what was not measured. What can be derived from the slots is
derived here, on the sender's thread, and not while the training waits.
"""

from collections.abc import Sequence

import numpy as np

from traceml.wire.columns import PHASES, VALUES, Records

IDLE = 0  # before the first step: collected, never reported
DATALOADER, H2D, FORWARD, BACKWARD, OPTIMIZER, COLLECTIVE_WAIT, OTHER = range(1, 8)
LOSS = 8  # after forward: forward if a backward follows, other if none does
STEP, END_NS, TAGS, SAMPLES, ELEMENTS = range(9, 14)
FINISH_NS = 14  # what finishing the step before took
MARKS = 15  # phases left in this step, to price our own overhead
UNMARKED = 16  # backwards that ended without their gradients-ready mark
WIDTH = 17

ABSENT = -1

PHASE_NAMES = ("", *PHASES, "forward")

Row = list[int]

_PHASES = slice(DATALOADER, OTHER + 1)


def to_records(rows: Sequence[Row], mark_ns: int, resident_bytes: int | None) -> Records:
    """Turn finished rows into columns, absent values into NaN.

    `mark_ns` is the price of a phase change, `resident_bytes` the process's at this time.
    """
    table = np.array(rows, dtype=np.int64).reshape(-1, WIDTH)
    values = np.full((len(table), len(VALUES)), np.nan)
    phases = table[:, _PHASES].astype(np.float64)
    phases[phases < 0] = np.nan
    phases[:, OTHER - DATALOADER] += table[:, LOSS]
    step_ns = np.nansum(phases, axis=1)
    unmarked = table[:, UNMARKED] > 0
    for slot in (BACKWARD, COLLECTIVE_WAIT):
        phases[unmarked, slot - DATALOADER] = np.nan
    overhead_ns = table[:, FINISH_NS] + table[:, MARKS] * mark_ns
    resident = np.nan if resident_bytes is None else float(resident_bytes)
    columns = {
        "step_ns": step_ns,
        "overhead_ns": overhead_ns,
        "resident_bytes": resident,
        "samples": np.where(table[:, SAMPLES] < 0, np.nan, table[:, SAMPLES]),
        "elements": np.where(table[:, ELEMENTS] < 0, np.nan, table[:, ELEMENTS]),
    }
    for name, column in columns.items():
        values[:, VALUES.index(name)] = column
    first = VALUES.index(f"{PHASES[0]}_ns")
    values[:, first : first + len(PHASES)] = phases
    return Records(table[:, STEP], table[:, END_NS], table[:, TAGS], values)
