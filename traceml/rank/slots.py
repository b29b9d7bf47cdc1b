"""The layout of a step while it is put together: a list of integers, one slot each.

Phases come first, so that a phase's number is its slot. Times are nanoseconds;
ABSENT stands for what was not measured.
"""

from collections.abc import Sequence

import numpy as np

from traceml.wire.columns import PHASES, VALUES, Records

IDLE = 0  # before the first step: collected, never reported
DATALOADER, H2D, FORWARD, BACKWARD, OPTIMIZER, COLLECTIVE_WAIT, OTHER = range(1, 8)
LOSS = 8  # after forward: forward if a backward follows, other if none does
STEP, END_NS, TAGS, SAMPLES, ELEMENTS = range(9, 14)
ENTRIES = 14  # written in this step, to price our own overhead
FORWARDS, BACKWARDS = 15, 16  # how many of each
UNMARKED = 17  # backwards that ended without their gradients-ready mark
WIDTH = 18

ABSENT = -1

PHASE_NAMES = ("", *PHASES, "forward")

Row = list[int]

_PHASES = slice(DATALOADER, OTHER + 1)


def joined(first: Row, second: Row) -> Row:
    """Two parts of one step as one."""
    row = [b if a < 0 else a if b < 0 else a + b for a, b in zip(first, second, strict=True)]
    row[END_NS] = second[END_NS]
    row[TAGS] = first[TAGS] | second[TAGS]
    return row


def to_records(rows: Sequence[Row], entry_ns: int, resident_bytes: int | None) -> Records:
    """Turn finished rows into columns, absent values into NaN.

    `entry_ns` is the price of an entry, `resident_bytes` the process's at this time.
    """
    table = np.array(rows, dtype=np.int64).reshape(-1, WIDTH)
    values = np.full((len(table), len(VALUES)), np.nan)
    phases = table[:, _PHASES].astype(np.float64)
    phases[phases < 0] = np.nan
    phases[:, OTHER - DATALOADER] += table[:, LOSS]
    step_ns = np.nansum(phases, axis=1)
    blind = (table[:, BACKWARDS] > 0) & (table[:, FORWARDS] == 0)
    # Where forward is seen in other steps, its time in this one must not pass for other.
    phases[blind & (table[:, FORWARD] >= 0), OTHER - DATALOADER] = np.nan
    phases[blind, FORWARD - DATALOADER] = np.nan
    unmarked = table[:, UNMARKED] > 0
    for slot in (BACKWARD, COLLECTIVE_WAIT):
        phases[unmarked, slot - DATALOADER] = np.nan
    resident = np.nan if resident_bytes is None else float(resident_bytes)
    columns = {
        "step_ns": step_ns,
        "overhead_ns": table[:, ENTRIES] * entry_ns,
        "resident_bytes": resident,
        "samples": np.where(table[:, SAMPLES] < 0, np.nan, table[:, SAMPLES]),
        "elements": np.where(table[:, ELEMENTS] < 0, np.nan, table[:, ELEMENTS]),
    }
    for name, column in columns.items():
        values[:, VALUES.index(name)] = column
    first = VALUES.index(f"{PHASES[0]}_ns")
    values[:, first : first + len(PHASES)] = phases
    return Records(table[:, STEP], table[:, END_NS], table[:, TAGS], values)
