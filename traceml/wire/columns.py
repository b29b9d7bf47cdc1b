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

# What is measured of a step, in the order of `Records.values`: the step itself,
# its phases, then the figures that are no durations of the training's own.
DURATIONS = ("step_ns", *(f"{phase}_ns" for phase in PHASES))
VALUES = (*DURATIONS, "overhead_ns", "resident_bytes", "samples", "elements")

Matrix = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Records:
    """Steps of one rank, column by column; NaN in `values` means not measured."""

    step: Integers
    end_ns: Integers
    tags: Integers
    values: Matrix

    def __len__(self) -> int:
        return len(self.step)

    def __getitem__(self, rows: Any) -> "Records":
        return Records(self.step[rows], self.end_ns[rows], self.tags[rows], self.values[rows])


def encode(records: Records, sequence: int, preceding: int = 0) -> Batch:
    """Put records into a message, 61 bytes each; so many were made before them."""
    batch = Batch(
        sequence=sequence,
        preceding=preceding,
        records=len(records),
        step=records.step.astype("<u4").tobytes(),
        end_ns=records.end_ns.astype("<i8").tobytes(),
        tags=records.tags.astype("u1").tobytes(),
    )
    narrow = np.ascontiguousarray(records.values.T, dtype="<f4")
    for name, column in zip(VALUES, narrow, strict=True):
        setattr(batch, name, column.tobytes())
    return batch


def decode(batch: Batch) -> Records:
    """Take records out of a message; ValueError if it holds no sound records."""
    records = Records(
        step=_column(batch, "step", "<u4").astype(np.int64),
        end_ns=_column(batch, "end_ns", "<i8").astype(np.int64),
        tags=_column(batch, "tags", "u1").astype(np.int64),
        values=np.stack([_column(batch, name, "<f4") for name in VALUES], axis=1, dtype=np.float64),
    )
    if (np.diff(records.step) <= 0).any():
        raise ValueError("its steps are not in order")
    if not np.isfinite(records.values[:, 0]).all():
        raise ValueError("a step in it has no length")
    if (records.values < 0).any() or np.isinf(records.values).any():
        raise ValueError("a value in it is no amount")
    return records


def _column(batch: Batch, name: str, dtype: str) -> npt.NDArray[Any]:
    column = np.frombuffer(getattr(batch, name), dtype=dtype)
    if len(column) != batch.records:
        raise ValueError(
            f"column {name} holds {len(column)} values, the batch {batch.records} records"
        )
    return column
