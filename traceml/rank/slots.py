"""The layout of a step while it is put together: a list of integers, one slot each.

Phases come first, so that a phase's number is its slot. Times are nanoseconds;
ABSENT stands for what was not measured.
"""

from collections.abc import Sequence

import numpy as np

from traceml.wire.columns import (
    DEVICE_TIMES,
    MARKED,
    PHASES,
    TIMES,
    VALUES,
    Integers,
    Matrix,
    Records,
)

IDLE = 0  # before the first step: collected, never reported
DATALOADER, H2D, FORWARD, BACKWARD, OPTIMIZER, COLLECTIVE_WAIT, OTHER = range(1, 8)
LOSS = 8  # after forward: forward if a backward follows, other if none does
STEP, END_NS, TAGS, SAMPLES, ELEMENTS = range(9, 14)
ENTRIES = 14  # written in this step, to price our own overhead
FORWARDS, BACKWARDS = 15, 16  # how many of each
UNMARKED = 17  # backwards that ended without their gradients-ready mark
UNTIMED = 18  # marks without a time: what was measured between them is worth nothing
UNSEEN = 19  # waits that there may be and that nobody sees
WAIT_FORWARD, WAIT_OPTIMIZER, WAIT_OTHER = range(20, 23)  # of collective_wait, in that place
DEVICE_IDLE = 23  # the device had done all that was queued, within compute
ALLOCATED, RESERVED, FLOOR, RETRIES = range(24, 28)  # of the device's allocator
READING = 28  # ns that it took to read it
ENDS = 29  # when each phase was last left, in the order of the phases, LOSS included
WIDTH = ENDS + LOSS + 1

ABSENT = -1

PHASE_NAMES = ("", *PHASES, "forward")

Row = list[int]

_PHASES = slice(DATALOADER, OTHER + 1)
_WAITS = slice(WAIT_FORWARD, WAIT_OTHER + 1)  # in the order of WAITS
_DEVICE_TIMES = slice(len(TIMES), len(TIMES) + len(DEVICE_TIMES))
_AMOUNTS = {
    "allocated_bytes": ALLOCATED,
    "reserved_bytes": RESERVED,
    "floor_bytes": FLOOR,
    "allocation_retries": RETRIES,
    "samples": SAMPLES,
    "elements": ELEMENTS,
}
_NOT_TIMED: Row = [int(slot == UNTIMED) for slot in range(WIDTH)]


def joined(first: Row, second: Row) -> Row:
    """Two parts of one step as one."""
    row = [b if a < 0 else a if b < 0 else a + b for a, b in zip(first, second, strict=True)]
    row[END_NS] = second[END_NS]
    row[TAGS] = first[TAGS] | second[TAGS]
    row[ENDS:] = [max(a, b) for a, b in zip(first[ENDS:], second[ENDS:], strict=True)]
    return row


def to_records(
    rows: Sequence[Row],
    entry_ns: int,
    resident_bytes: int | None,
    device: Sequence[Row | None] = (),
) -> Records:
    """Turn finished rows into columns, absent values into NaN.

    `entry_ns` is the price of an entry, `resident_bytes` what is resident at this time, and
    `device` the same steps by the device's clock, if there is one.
    """
    table = _table(rows)
    values = np.full((len(table), len(VALUES)), np.nan)
    values[:, : len(TIMES)] = times(table)
    if any(device):
        timed = _table([row or _NOT_TIMED for row in device])
        values[:, _DEVICE_TIMES] = device_times(timed)
        values[:, VALUES.index("device_idle_ns")] = _idle(timed)
    columns = {
        "overhead_ns": table[:, ENTRIES] * entry_ns + table[:, READING],
        "resident_bytes": np.nan if resident_bytes is None else float(resident_bytes),
        **{name: _or_nan(table[:, slot]) for name, slot in _AMOUNTS.items()},
    }
    for name, column in columns.items():
        values[:, VALUES.index(name)] = column
    return Records(table[:, STEP], table[:, TAGS], values)


def _table(rows: Sequence[Row]) -> Integers:
    return np.array(rows, dtype=np.int64).reshape(-1, WIDTH)


def _or_nan(column: Integers) -> Matrix:
    return np.where(column < 0, np.nan, column)


def times(table: Integers) -> Matrix:
    """What rows say in TIMES: the step and its phases, the waits in them, where they ended, and
    the step's end.
    """
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
    phases[table[:, UNSEEN] > 0, COLLECTIVE_WAIT - DATALOADER] = np.nan
    waits = table[:, _WAITS].astype(np.float64)
    waits[(waits < 0) | np.isnan(phases[:, [COLLECTIVE_WAIT - DATALOADER]])] = np.nan
    end_ns = table[:, END_NS].astype(np.float64)
    marked = slice(0, len(MARKED))
    left = table[:, ENDS + DATALOADER : ENDS + OTHER][:, marked].astype(np.float64)
    left[(left <= 0) | np.isnan(phases[:, marked])] = np.nan
    ends = end_ns[:, np.newaxis] - left
    return np.column_stack((step_ns, phases, waits, ends, end_ns))


def device_times(table: Integers) -> Matrix:
    """What rows say in DEVICE_TIMES. The step's end is counted from the end of its last
    exchange, or else of its backward: devices share no clock, but leave an exchange together.
    """
    values = times(table)
    exchanged = table[:, ENDS + COLLECTIVE_WAIT]
    left = np.where(exchanged > 0, exchanged, table[:, ENDS + BACKWARD]).astype(np.float64)
    left[left <= 0] = np.nan
    values[:, -1] = table[:, END_NS] - left
    values[table[:, UNTIMED] > 0] = np.nan
    return np.maximum(values, 0.0)


def _idle(table: Integers) -> Matrix:
    idle = table[:, DEVICE_IDLE].astype(np.float64)
    idle[table[:, UNTIMED] > 0] = np.nan
    return idle
