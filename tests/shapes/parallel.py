"""Ways to train on two ranks; mostly one of them is slow, and the other has to wait for it."""

from tests.shapes.shape import COMPUTE, Shape

WAITED = COMPUTE | {"collective_wait"}
READ = WAITED | {"dataloader"}

SHAPES: list[Shape] = [
    # One step for each optimizer.step(), of two and of three batches.
    Shape(
        "ddp_accumulate",
        steps=12,
        processes=2,
        ranks=2,
        planted="optimizer",
        slow_rank=1,
        found=READ,
    ),
    Shape(
        "ddp_no_sync",
        steps=12,
        processes=2,
        ranks=2,
        planted="dataloader",
        slow_rank=1,
        found=READ,
    ),
    Shape(
        "ddp_unused",
        steps=12,
        processes=2,
        ranks=2,
        planted="forward",
        slow_rank=1,
        found=WAITED,
    ),
    # The activations are made anew within backward: no forward pass, and no step, of its own.
    Shape(
        "ddp_static_graph",
        steps=12,
        processes=2,
        ranks=2,
        planted="backward",
        slow_rank=1,
        found=READ,
    ),
    Shape(
        "ddp_bucket_view",
        steps=12,
        processes=2,
        ranks=2,
        planted="optimizer",
        slow_rank=1,
        found=WAITED,
    ),
    # Rank 1 waits in its forward, for the buffers of rank 0.
    Shape(
        "ddp_batch_norm",
        steps=12,
        processes=2,
        ranks=2,
        planted="dataloader",
        slow_rank=0,
        found=READ,
    ),
    # Rank 0 waits in the middle of its forward, in a collective of the model's own.
    Shape(
        "ddp_sync_norm",
        steps=12,
        processes=2,
        ranks=2,
        planted="forward",
        slow_rank=1,
        found=WAITED,
    ),
    Shape(
        "ddp_comm_hook",
        steps=12,
        processes=2,
        ranks=2,
        planted="backward",
        slow_rank=1,
        found=WAITED,
    ),
    # Rank 0 does 12 steps, of which it has 9 in common with rank 1.
    Shape(
        "ddp_join",
        steps=9,
        processes=2,
        ranks=2,
        planted="forward",
        slow_rank=1,
        found=READ,
        rank_steps={0: 12},
    ),
    Shape(
        "ddp_compile",
        steps=12,
        processes=2,
        ranks=2,
        planted="optimizer",
        slow_rank=1,
        found=WAITED,
    ),
    Shape(
        "ddp_zero",
        steps=12,
        processes=2,
        ranks=2,
        planted="forward",
        slow_rank=1,
        found=WAITED,
    ),
    Shape(
        "ranks_fully_shard",
        steps=12,
        processes=2,
        ranks=2,
        planted="dataloader",
        slow_rank=1,
        found=READ,
    ),
    Shape("ranks_spawned", steps=12, ranks=2, planted="forward", slow_rank=1, found=WAITED),
    Shape("ranks_forked", steps=12, ranks=2, planted="backward", slow_rank=1, found=WAITED),
    # Rank 0 waits between its backward and its optimizer.
    Shape(
        "ranks_all_reduce",
        steps=12,
        processes=2,
        ranks=2,
        planted="backward",
        slow_rank=1,
        found=READ,
    ),
]
