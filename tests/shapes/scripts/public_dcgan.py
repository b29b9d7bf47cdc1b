"""A convolutional GAN: the discriminator's two backward passes, then the generator's."""

import tempfile
import time
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

EPOCHS, BATCH_SIZE, NZ, NF = 3, 8, 16, 4


class SlowBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx: object, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: object, gradient: Tensor) -> Tensor:
        time.sleep(0.05)
        return gradient


class Generator(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.main = nn.Sequential(
            nn.ConvTranspose2d(NZ, NF, 4, bias=False),
            nn.BatchNorm2d(NF),
            nn.ReLU(True),
            nn.ConvTranspose2d(NF, 3, 4, stride=2, padding=1),
            nn.Tanh(),
        )

    def forward(self, noise: Tensor) -> Tensor:
        return SlowBackward.apply(self.main(noise))


class Discriminator(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.main = nn.Sequential(
            nn.Conv2d(3, NF, 4, stride=2, padding=1),
            nn.LeakyReLU(0.2, inplace=True),
            nn.Conv2d(NF, 1, 4),
            nn.Sigmoid(),
        )

    def forward(self, image: Tensor) -> Tensor:
        return self.main(image).view(-1)


def weights_init(m: nn.Module) -> None:
    if isinstance(m, nn.Conv2d | nn.ConvTranspose2d):
        nn.init.normal_(m.weight, 0.0, 0.02)


def main() -> None:
    torch.manual_seed(999)
    torch.set_num_threads(1)
    dataloader = DataLoader(
        TensorDataset(torch.rand(6 * BATCH_SIZE, 3, 8, 8) * 2 - 1), BATCH_SIZE, shuffle=True
    )
    net_g, net_d = Generator().apply(weights_init), Discriminator().apply(weights_init)
    criterion = nn.BCELoss()
    fixed_noise = torch.randn(4, NZ, 1, 1)
    optimizer_d = torch.optim.Adam(net_d.parameters(), lr=2e-4, betas=(0.5, 0.999))
    optimizer_g = torch.optim.Adam(net_g.parameters(), lr=2e-4, betas=(0.5, 0.999))
    with tempfile.TemporaryDirectory() as folder:
        for epoch in range(EPOCHS):
            for i, (real,) in enumerate(dataloader):
                # discriminator: a batch of real images, then one of fakes
                net_d.zero_grad()
                label = torch.full((len(real),), 1.0)
                err_d_real = criterion(net_d(real), label)
                err_d_real.backward()
                fake = net_g(torch.randn(len(real), NZ, 1, 1))
                label.fill_(0.0)
                err_d_fake = criterion(net_d(fake.detach()), label)
                err_d_fake.backward()
                optimizer_d.step()

                # generator: the same fakes, seen by the new discriminator
                net_g.zero_grad()
                label.fill_(1.0)
                err_g = criterion(net_d(fake), label)
                err_g.backward()
                optimizer_g.step()

                print(f"loss 0 {(err_d_real + err_d_fake + err_g).item().hex()}")
                if i % 4 == 0:
                    with torch.no_grad():  # pictures to look at, without eval()
                        picture = net_g(fixed_noise)
                    print(f"picture {picture.mean().item():.3f}")
            torch.save(net_g.state_dict(), Path(folder) / f"netG_epoch_{epoch}.pth")
            torch.save(net_d.state_dict(), Path(folder) / f"netD_epoch_{epoch}.pth")


if __name__ == "__main__":
    main()
