"""On whose clock a step is told: the devices' own where all ranks have it, else the CPU's."""

import numpy as np

from traceml.sidecar.contest import Flags
from traceml.wire.columns import DEVICE_TIMES, TIMES, VALUES, Matrix

KEPT = (*TIMES, *VALUES[len(TIMES) + len(DEVICE_TIMES) :])
_DEVICE = slice(len(TIMES), len(TIMES) + len(DEVICE_TIMES))
_DEVICE_STEP = VALUES.index("device_step_ns")


def on_one_clock(values: Matrix) -> tuple[Matrix, Flags]:
    """Steps (step x rank x VALUES) with the times of one clock each, and which are the devices'."""
    on_device = np.asarray(np.isfinite(values[:, :, _DEVICE_STEP]).all(axis=1))
    kept = np.delete(values, _DEVICE, axis=2)
    kept[on_device, :, : len(TIMES)] = values[on_device][:, :, _DEVICE]
    return kept, on_device
