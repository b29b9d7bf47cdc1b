"""Loops in the manner of the public training scripts that most others begin from."""

from tests.shapes.shape import COMPUTE, Shape

WITH_LOADER = COMPUTE | {"dataloader"}

SHAPES: list[Shape] = [
    # 21 iterations, counted from 0 to 20 inclusive, of two micro steps each. The loss is estimated
    # before iterations 0, 5, 10, 15 and 20, and the model saved at all but the first of them: such
    # a step counts once, as a checkpoint. The next batch is cut between forward and backward, so
    # its time is the forward's.
    Shape(
        "public_nanogpt",
        steps=21,
        planted="forward",
        absent=frozenset({"dataloader"}),
        excluded={"warmup": 1, "checkpoint": 4},
    ),
    # What is done after the last epoch tags nothing, here and below: no step follows.
    Shape(
        "public_mnist",
        steps=18,
        planted="dataloader",
        found=WITH_LOADER,
        excluded={"warmup": 1, "eval": 2},
    ),
    Shape(
        "public_imagenet",
        steps=21,
        planted="other",
        found=WITH_LOADER,
        excluded={"warmup": 1, "checkpoint": 2},
    ),
    Shape(
        "public_word_lm",
        steps=18,
        planted="other",  # the update by hand
        found=frozenset({"forward", "backward"}),
        absent=frozenset({"optimizer", "dataloader"}),
        excluded={"warmup": 1, "checkpoint": 2},
        note="each backward pass counts as a step",
    ),
    Shape(
        "public_word_lm_sgd",
        steps=18,
        planted="optimizer",
        absent=frozenset({"dataloader"}),
        excluded={"warmup": 1, "eval": 2},
    ),
    # It draws pictures without gradients, but not in eval mode: no evaluation.
    Shape(
        "public_dcgan",
        steps=18,
        planted="backward",
        found=WITH_LOADER,
        excluded={"warmup": 1, "checkpoint": 2},
    ),
    # Each of the 6 * 3 batches makes a step; the generator's is part of every third. So the
    # critic's first step and the generator's are two different ones.
    Shape(
        "public_wgan",
        steps=18,
        planted="dataloader",
        found=WITH_LOADER,
        excluded={"warmup": 2},
    ),
    # Sampled from and saved after steps 7, 14 and 21.
    Shape(
        "public_diffusion",
        steps=21,
        planted="other",  # the moving average's update
        found=WITH_LOADER,
        excluded={"warmup": 1, "checkpoint": 2},
    ),
    # The teacher is a copy of an nn.GRU in the midst of training, and a model of its own: were it
    # tied to the original, the losses would change. It is called without gradients, but not in eval
    # mode: no evaluation.
    Shape("public_mean_teacher", steps=18, planted="other", found=WITH_LOADER),
    Shape(
        "public_vae",
        steps=18,
        planted="backward",
        found=WITH_LOADER,
        excluded={"warmup": 1, "eval": 2},
    ),
    Shape(
        "public_vae_methods",
        steps=18,
        planted="forward",  # between encoder and decoder
        found=WITH_LOADER,
        excluded={"warmup": 1, "eval": 2},
    ),
    # 3 rollouts, each learnt from in 2 epochs of 4 minibatches. A rollout is without gradients, but
    # not in eval mode: no evaluation.
    Shape(
        "public_ppo",
        steps=24,
        planted="forward",  # between the agent's methods and backward
        absent=frozenset({"dataloader"}),
    ),
    # Saved after epochs 2 and 4 of 4.
    Shape(
        "public_trainer",
        steps=24,
        planted="dataloader",
        found=WITH_LOADER,
        excluded={"warmup": 1, "eval": 2, "checkpoint": 1},
    ),
    # Validated before the first step, too; forward and backward happen inside optimizer.step.
    Shape(
        "public_trainer_closure",
        steps=18,
        planted="forward",
        found=WITH_LOADER,
        excluded={"warmup": 1, "eval": 2},
    ),
    # 8 batches an epoch make 4 steps. Evaluated after each of the 4 epochs, saved after steps 5, 10
    # and 15.
    Shape(
        "public_transformers",
        steps=16,
        planted="optimizer",
        found=WITH_LOADER,
        excluded={"warmup": 1, "eval": 3, "checkpoint": 3},
    ),
]
