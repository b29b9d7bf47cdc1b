"""The operators of SyncBatchNorm, which torch has for CUDA only, on the fake accelerator."""

from typing import Any

import torch
from torch import Tensor


def _all_but_channels(tensor: Tensor) -> list[int]:
    return [dim for dim in range(tensor.dim()) if dim != 1]


def _along(values: Tensor, tensor: Tensor) -> Tensor:
    """Values of channels, in a shape that goes with the tensor's."""
    return values.view(1, -1, *(1 for _ in range(tensor.dim() - 2)))


def stats(inputs: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    dims = _all_but_channels(inputs)
    return inputs.mean(dims), (inputs.var(dims, unbiased=False) + eps).rsqrt()


def gather_stats(
    _: Tensor,
    mean: Tensor,
    invstd: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    momentum: float,
    eps: float,
    counts: Tensor,
) -> tuple[Tensor, Tensor]:
    shares = (counts / counts.sum()).view(-1, 1)
    total = (mean * shares).sum(0)
    variance = ((invstd.pow(-2) - eps + (mean - total).square()) * shares).sum(0)
    if running_mean is not None and running_var is not None:
        running_mean.lerp_(total, momentum)
        running_var.lerp_(variance, momentum)
    return total, (variance + eps).rsqrt()


def normalised(
    inputs: Tensor, weight: Tensor, bias: Tensor, mean: Tensor, invstd: Tensor, _: float
) -> Tensor:
    scaled = (inputs - _along(mean, inputs)) * _along(invstd * weight, inputs)
    return scaled + _along(bias, inputs)


def backward_sums(
    gradient: Tensor, inputs: Tensor, mean: Tensor, invstd: Tensor, *_: Any
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    dims = _all_but_channels(inputs)
    of_bias = gradient.sum(dims)
    products = (gradient * (inputs - _along(mean, inputs))).sum(dims)
    return of_bias, products, products * invstd, of_bias.clone()


def input_gradient(
    gradient: Tensor,
    inputs: Tensor,
    mean: Tensor,
    invstd: Tensor,
    weight: Tensor,
    gradients: Tensor,
    products: Tensor,
    counts: Tensor,
) -> Tensor:
    total = counts.sum()
    centred = (inputs - _along(mean, inputs)) * _along(invstd.square() * products / total, inputs)
    return (gradient - _along(gradients / total, inputs) - centred) * _along(
        invstd * weight, inputs
    )


_LIBRARY = torch.library.Library("aten", "IMPL")  # what is registered lives as long


def register() -> None:
    """Make them known to torch."""
    for name, function in {
        "batch_norm_stats": stats,
        "batch_norm_gather_stats_with_counts": gather_stats,
        "batch_norm_elemt": normalised,
        "batch_norm_backward_reduce": backward_sums,
        "batch_norm_backward_elemt": input_gradient,
    }.items():
        _LIBRARY.impl(name, function, "PrivateUse1")
