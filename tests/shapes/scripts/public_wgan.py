"""A Wasserstein GAN: several critic iterations, each with its own batch, per generator step."""

import time
from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset, default_collate

GENERATOR_ITERATIONS, CRITIC_ITERATIONS = 6, 3
BATCH_SIZE, NZ, CLAMP = 16, 8, 0.05


def slow_collate(samples: list[tuple[Tensor]]) -> list[Tensor]:
    time.sleep(0.05)
    batch: list[Tensor] = default_collate(samples)
    return batch


def endless(loader: DataLoader[tuple[Tensor]]) -> Iterator[Tensor]:
    while True:
        for (batch,) in loader:
            yield batch


def mlp(inputs: int, outputs: int) -> nn.Module:
    return nn.Sequential(nn.Linear(inputs, 32), nn.ReLU(), nn.Linear(32, outputs))


def main() -> None:
    torch.manual_seed(5)
    torch.set_num_threads(1)
    points = TensorDataset(torch.randn(5 * BATCH_SIZE, 2) * 0.3 + 2.0)
    batches = endless(DataLoader(points, BATCH_SIZE, shuffle=True, collate_fn=slow_collate))
    generator, critic = mlp(NZ, 2), mlp(2, 1)
    optimizer_g = torch.optim.RMSprop(generator.parameters(), lr=5e-4)
    optimizer_c = torch.optim.RMSprop(critic.parameters(), lr=5e-4)

    for _ in range(GENERATOR_ITERATIONS):
        critic.requires_grad_(True)
        for _ in range(CRITIC_ITERATIONS):
            real = next(batches)
            optimizer_c.zero_grad()
            with torch.no_grad():
                fake = generator(torch.randn(len(real), NZ))
            critic_loss = critic(fake).mean() - critic(real).mean()
            critic_loss.backward()
            optimizer_c.step()
            with torch.no_grad():
                for p in critic.parameters():
                    p.clamp_(-CLAMP, CLAMP)
            print(f"loss 0 {critic_loss.item().hex()}")

        critic.requires_grad_(False)
        optimizer_g.zero_grad()
        generator_loss = -critic(generator(torch.randn(BATCH_SIZE, NZ))).mean()
        generator_loss.backward()
        optimizer_g.step()
        print(f"generator {generator_loss.item():.4f}")


if __name__ == "__main__":
    main()
