"""The record of one step on one rank, and its way into and out of a `Batch`."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from traceml.wire.telemetry_pb2 import Batch

PROTOCOL = 1

PHASES = (
    "dataloader",
    "h2d",
    "forward",
    "backward",
    "optimizer",
    "collective_wait",
    "other",
)

# The phases whose ends are told: where a rank is late, it is at one of these.
MARKED = PHASES[: PHASES.index("collective_wait")]

# Where a rank may wait for others. What is not told of a wait was in backward.
PLACES = ("forward", "backward", "optimizer", "other")
TOLD_PLACES = tuple(place for place in PLACES if place != "backward")

# What is measured of a step, in the order of `Records.values`: the step itself and its
# phases, where the waiting was, the time from a phase's last end to the step's, and the
# step's own end on the clock that the ranks of a node share; the same on the device's clock,
# where there is one; then the figures that are no times of the training's own.
DURATIONS = ("step_ns", *(f"{phase}_ns" for phase in PHASES))
WAITS = tuple(f"{place}_wait_ns" for place in TOLD_PLACES)
TIMES = (*DURATIONS, *WAITS, *(f"{phase}_end_ns" for phase in MARKED), "end_ns")
DEVICE_TIMES = tuple(f"device_{name}" for name in TIMES)
VALUES = (
    *TIMES, *DEVICE_TIMES, "device_idle_ns",
    "overhead_ns", "resident_bytes", "allocated_bytes", "reserved_bytes", "floor_bytes",
    "allocation_retries", "samples", "elements",
)  # fmt: skip

_STEP, _TAGS = np.dtype("<u4"), np.dtype("u1")
_DTYPES = tuple(np.dtype("<f8" if name == "end_ns" else "<f4") for name in VALUES)

Matrix = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Records:
    """Steps of one rank, column by column; NaN in `values` means not measured."""

    step: Integers
    tags: Integers
    values: Matrix

    def __len__(self) -> int:
        return len(self.step)

    def __getitem__(self, rows: Any) -> "Records":
        return Records(self.step[rows], self.tags[rows], self.values[rows])


def encode(records: Records, sequence: int, preceding: int = 0) -> Batch:
    """Put records into a message, about 80 bytes each; so many were made before them."""
    batch = Batch(
        sequence=sequence,
        preceding=preceding,
        records=len(records),
        step=records.step.astype(_STEP).tobytes(),
        tags=records.tags.astype(_TAGS).tobytes(),
    )
    for name, dtype, column in zip(VALUES, _DTYPES, records.values.T, strict=True):
        if not np.isnan(column).all():
            setattr(batch, name, column.astype(dtype).tobytes())
    return batch


def decode(batch: Batch) -> Records:
    """Take records out of a message; ValueError if it holds no sound records."""
    step = _column(batch, "step", _STEP).astype(np.int64)
    tags = _column(batch, "tags", _TAGS).astype(np.int64)
    told = [index for index, name in enumerate(VALUES) if getattr(batch, name)]
    columns = [_column(batch, VALUES[index], _DTYPES[index]) for index in told]
    values = np.full((len(step), len(VALUES)), np.nan)
    if columns:
        values[:, told] = np.array(columns).T
    if (step[1:] <= step[:-1]).any():
        raise ValueError("its steps are not in order")
    if np.isnan(values[:, 0]).any():
        raise ValueError("a step in it has no length")
    return Records(step, tags, values)


def _column(batch: Batch, name: str, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    column = np.frombuffer(getattr(batch, name), dtype)
    if len(column) != batch.records:
        raise ValueError(
            f"column {name} holds {len(column)} values, the batch {batch.records} records"
        )
    return column
