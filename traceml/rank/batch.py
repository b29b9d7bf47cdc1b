"""How large a batch is: the shape of its first tensor, samples along the first dimension."""

from collections.abc import Mapping
from typing import Any

from torch import Size, Tensor

_DEPTH = 4
_NOTHING = Size((0,))
_SCALAR = Size((1,))


def shape_of(batch: Any) -> Size:
    """The shape of the first tensor in whatever a loader yields; no samples where there is none."""
    first = batch[0] if type(batch) is list and batch else batch
    if type(first) is not Tensor:  # a tensor or a list of them is what nearly every loader yields
        first = first_tensor(batch)
    return _NOTHING if first is None else first.shape or _SCALAR


def first_tensor(batch: Any) -> Tensor | None:
    """The first tensor in what may be nested; None where there is none."""
    for _ in range(_DEPTH):
        if isinstance(batch, Tensor):
            return batch
        if isinstance(batch, (list, tuple)) and batch:
            batch = batch[0]
        elif isinstance(batch, Mapping) and batch:
            batch = next(iter(batch.values()))
        else:
            break
    return None
