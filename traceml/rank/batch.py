"""How large a batch is: the leading dimension and element count of its first tensor."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor

_DEPTH = 4


def size_of(batch: Any) -> tuple[int, int]:
    """Samples and elements of whatever a loader yields; zeros where no tensor is found."""
    first = batch[0] if type(batch) is list and batch else batch
    if type(first) is Tensor:  # what nearly every loader yields: told at a glance
        shape = first.shape
        return (shape[0] if shape else 1), shape.numel()
    for _ in range(_DEPTH):
        if isinstance(batch, Tensor):
            return (batch.shape[0] if batch.dim() else 1), batch.numel()
        if isinstance(batch, (list, tuple)) and batch:
            batch = batch[0]
        elif isinstance(batch, Mapping) and batch:
            batch = next(iter(batch.values()))
        else:
            break
    return 0, 0
