"""Loops in one process: what they do between two batches, and with how many optimizers."""

from dataclasses import replace

from tests.shapes.shape import COMPUTE, Shape

BY_HAND = "each backward pass counts as a step"
OPTIMIZER = frozenset({"optimizer"})

WITHOUT_LOADER = [
    # Both optimizers make up each step from the first one on, so one is warmup.
    Shape("loop_alternating", steps=12, planted="forward"),
    Shape("loop_lbfgs", steps=12, planted="optimizer"),
    Shape("loop_no_loader", steps=12, planted="other"),
    # The first step of each optimizer.
    Shape("loop_two_models_no_loader", steps=14, planted="backward", excluded={"warmup": 2}),
]

WITH_LOADER = [
    Shape("loop_accumulation", steps=12, planted="forward"),
    Shape("loop_autograd_grad", steps=12, planted="backward"),
    Shape(
        "loop_by_hand",
        steps=12,
        planted="backward",
        found=COMPUTE - OPTIMIZER,
        absent=OPTIMIZER,
        note=BY_HAND,
    ),
    # The delay is in the block's own backward: running it again adds no sleep.
    Shape("loop_checkpointing", steps=12, planted="backward", environment={"REENTRANT": "0"}),
    Shape("loop_checkpointing", steps=12, planted="backward", environment={"REENTRANT": "1"}),
    # Compiled at the first batch, which is warmup as well, and at the last, which is smaller.
    Shape("loop_compiled", steps=12, planted="forward", excluded={"warmup": 1, "compile": 1}),
    # The delay is in the loss: not inside the model, and forward all the same.
    Shape("loop_compiled_in_place", steps=12, planted="forward"),
    # Inside compiled code an optimizer calls none of its hooks.
    Shape(
        "loop_compiled_step",
        steps=12,
        planted="forward",
        found=COMPUTE - OPTIMIZER,
        absent=OPTIMIZER,
        note=BY_HAND,
    ),
    # After steps 4 and 8; no step follows the third evaluation. The delay is in its
    # forwards as well, so they would show if they were not left out.
    Shape("loop_evaluation", steps=12, planted="forward", excluded={"warmup": 1, "eval": 2}),
    # 13 batches. What the failed one took is a part of the step after it.
    Shape("loop_exception", steps=12, planted="optimizer"),
    Shape("loop_frozen_tied", steps=12, planted="dataloader"),
    Shape("loop_grad_scaler", steps=12, planted="backward"),
    Shape("loop_iterable", steps=12, planted="dataloader"),
    Shape("loop_model_parallel", steps=12, planted="forward"),
    Shape("loop_notebook", steps=12, planted="other"),
    Shape("loop_optimizer_in_backward", steps=12, planted="optimizer"),
    Shape("loop_optimizers_together", steps=12, planted="optimizer"),
    # After steps 5 and 10.
    Shape("loop_saves", steps=12, planted="optimizer", excluded={"warmup": 1, "checkpoint": 2}),
    Shape(
        "loop_saves_distributed", steps=12, planted="other", excluded={"warmup": 1, "checkpoint": 2}
    ),
    Shape("loop_thread", steps=12, planted="dataloader"),
    Shape("loop_two_losses", steps=12, planted="backward"),
    Shape("loop_two_models", steps=14, planted="dataloader", excluded={"warmup": 2}),
]

SHAPES: list[Shape] = [
    *WITHOUT_LOADER,
    *(replace(shape, found=shape.found | {"dataloader"}) for shape in WITH_LOADER),
]
