"""Ways to train on two ranks; one of them is slow, and the other has to wait for it."""

from functools import partial

from tests.shapes.shape import COMPUTE, Shape

WAITED = COMPUTE | {"collective_wait"}
READ = WAITED | {"dataloader"}

slow_one = partial(Shape, ranks=2, slow_rank=1, found=WAITED)
launched = partial(slow_one, processes=2)
reading = partial(launched, found=READ)

SHAPES: list[Shape] = [
    # One step for each optimizer.step(), of two and of three batches.
    reading("ddp_accumulate", steps=12, planted="optimizer"),
    reading("ddp_no_sync", steps=12, planted="dataloader"),
    launched("ddp_unused", steps=12, planted="forward"),
    # The activations are made anew within backward: no forward pass, and no step, of its own.
    reading("ddp_static_graph", steps=12, planted="backward"),
    launched("ddp_bucket_view", steps=12, planted="optimizer"),
    # Rank 1 waits in its forward, for the buffers of rank 0.
    reading("ddp_batch_norm", steps=12, planted="dataloader", slow_rank=0),
    # Rank 0 waits in the middle of its forward, in a collective of the model's own.
    launched("ddp_sync_norm", steps=12, planted="forward"),
    launched("ddp_comm_hook", steps=12, planted="backward"),
    # Rank 0 does 12 steps, of which it has 9 in common with rank 1.
    reading("ddp_join", steps=9, planted="forward", rank_steps={0: 12}),
    launched("ddp_compile", steps=12, planted="optimizer"),
    launched("ddp_zero", steps=12, planted="forward"),
    reading("ranks_fully_shard", steps=12, planted="dataloader"),
    slow_one("ranks_spawned", steps=12, planted="forward"),
    slow_one("ranks_forked", steps=12, planted="backward"),
    # Rank 0 waits between its backward and its optimizer.
    reading("ranks_all_reduce", steps=12, planted="backward"),
]
