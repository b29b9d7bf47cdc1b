"""Ways to read batches in one process."""

from tests.shapes.shape import COMPUTE, Shape

READ = COMPUTE | {"dataloader"}

SHAPES: list[Shape] = [
    Shape("loader_fork", steps=12, planted="forward", found=READ),
    Shape("loader_spawn", steps=12, planted="backward", found=READ),
    Shape("loader_forkserver", steps=12, planted="optimizer", found=READ),
    Shape("loader_persistent", steps=16, planted="other", found=READ),
    Shape("loader_pinned", steps=12, planted="dataloader", found=READ),
    Shape("loader_wrapped", steps=12, planted="dataloader", found=READ),
    # Another thread reads; the training thread only takes batches from a queue.
    Shape("loader_thread", steps=12, planted="other", absent=frozenset({"dataloader"})),
    Shape("loader_cycle", steps=12, planted="dataloader", found=READ),
    Shape("loader_mapping", steps=12, planted="forward", found=READ),
    Shape("loader_namedtuple", steps=12, planted="backward", found=READ),
    Shape("loader_dataclass", steps=12, planted="optimizer", found=READ),
    Shape("loader_zipped", steps=12, planted="dataloader", found=READ),
    # The batch that is looked at before the loop belongs to the first step, the warmup.
    Shape("loader_contract", steps=12, planted="dataloader", found=READ),
    Shape("loader_ahead", steps=12, planted="optimizer", found=READ),
    # Without a planted delay: to fork four workers takes as long as that already.
    Shape("loader_forks", steps=60, found=READ),
    Shape("loader_forks", steps=60, found=READ, environment={"GRPC_ENABLE_FORK_SUPPORT": "0"}),
    Shape("loader_forks", steps=60, found=READ, environment={"GRPC_ENABLE_FORK_SUPPORT": "1"}),
]
