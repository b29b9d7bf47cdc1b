"""A variational autoencoder whose forward encodes, draws and decodes."""

import time

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812
from torch.utils.data import DataLoader, TensorDataset

EPOCHS, BATCH_SIZE, PIXELS, LATENT = 3, 16, 64, 4


class SlowBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx: object, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: object, gradient: Tensor) -> Tensor:
        time.sleep(0.05)
        return gradient


class VAE(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc1 = nn.Linear(PIXELS, 32)
        self.fc21 = nn.Linear(32, LATENT)
        self.fc22 = nn.Linear(32, LATENT)
        self.fc3 = nn.Linear(LATENT, 32)
        self.fc4 = nn.Linear(32, PIXELS)

    def encode(self, x: Tensor) -> tuple[Tensor, Tensor]:
        h = F.relu(self.fc1(x))
        return self.fc21(h), self.fc22(h)

    def reparameterize(self, mu: Tensor, logvar: Tensor) -> Tensor:
        std = torch.exp(0.5 * logvar)
        return mu + torch.randn_like(std) * std

    def decode(self, z: Tensor) -> Tensor:
        return torch.sigmoid(self.fc4(F.relu(self.fc3(z))))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        mu, logvar = self.encode(x.view(-1, PIXELS))
        z = SlowBackward.apply(self.reparameterize(mu, logvar))
        return self.decode(z), mu, logvar


def loss_function(recon: Tensor, x: Tensor, mu: Tensor, logvar: Tensor) -> Tensor:
    bce = F.binary_cross_entropy(recon, x.view(-1, PIXELS), reduction="sum")
    return bce - 0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())


def train(model: VAE, loader: DataLoader[Tensor], optimizer: torch.optim.Optimizer) -> None:
    model.train()
    for (x,) in loader:
        optimizer.zero_grad()
        recon, mu, logvar = model(x)
        loss = loss_function(recon, x, mu, logvar)
        loss.backward()
        optimizer.step()
        print(f"loss 0 {(loss.item() / len(x)).hex()}")


def test(model: VAE, loader: DataLoader[Tensor]) -> float:
    model.eval()
    total = 0.0
    with torch.no_grad():
        for (x,) in loader:
            recon, mu, logvar = model(x)
            total += loss_function(recon, x, mu, logvar).item()
    return total


def main() -> None:
    torch.manual_seed(1)
    torch.set_num_threads(1)
    train_loader = DataLoader(TensorDataset(torch.rand(96, 1, 8, 8)), BATCH_SIZE, shuffle=True)
    test_loader = DataLoader(TensorDataset(torch.rand(32, 1, 8, 8)), BATCH_SIZE)
    model = VAE()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(EPOCHS):
        train(model, train_loader, optimizer)
        print(f"epoch {epoch}, test loss {test(model, test_loader):.2f}")
        with torch.no_grad():
            sample = model.decode(torch.randn(4, LATENT))
        print(f"sample {sample.mean().item():.3f}")


if __name__ == "__main__":
    main()
