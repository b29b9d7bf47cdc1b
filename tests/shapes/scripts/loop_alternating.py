"""A GAN on random tensors: two optimizers take turns, with forwards between them, no DataLoader."""

import time

import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits as bce


class Generator(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 32))

    def forward(self, noise: torch.Tensor) -> torch.Tensor:
        time.sleep(0.05)
        return self.layers(noise)


def main() -> None:
    torch.manual_seed(3)
    torch.set_num_threads(1)
    generator = Generator()
    discriminator = nn.Sequential(nn.Linear(32, 64), nn.LeakyReLU(0.2), nn.Linear(64, 1))
    for_generator = torch.optim.Adam(generator.parameters(), lr=2e-4)
    for_discriminator = torch.optim.Adam(discriminator.parameters(), lr=2e-4)
    ones, zeros = torch.ones(8, 1), torch.zeros(8, 1)
    for _ in range(12):
        real = torch.randn(8, 32) + 3.0
        fake = generator(torch.randn(8, 16))

        for_discriminator.zero_grad()
        loss = bce(discriminator(real), ones) + bce(discriminator(fake.detach()), zeros)
        loss.backward()
        for_discriminator.step()

        for_generator.zero_grad()
        fooled = bce(discriminator(fake), ones)
        fooled.backward()
        for_generator.step()
        print("loss", 0, (loss + fooled).item().hex())


if __name__ == "__main__":
    main()
