"""A variational autoencoder of which the loop calls the methods, never the model itself."""

import time

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812
from torch.utils.data import DataLoader, TensorDataset

EPOCHS, BATCH_SIZE, PIXELS, LATENT = 3, 16, 64, 4


class VAE(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(PIXELS, 32), nn.ReLU(), nn.Linear(32, 2 * LATENT))
        self.decoder = nn.Sequential(nn.Linear(LATENT, 32), nn.ReLU(), nn.Linear(32, PIXELS))

    def encode(self, x: Tensor) -> tuple[Tensor, Tensor]:
        mu, logvar = self.encoder(x).chunk(2, dim=1)
        return mu, logvar

    def decode(self, z: Tensor) -> Tensor:
        return torch.sigmoid(self.decoder(z))


def draw(mu: Tensor, logvar: Tensor) -> Tensor:
    time.sleep(0.05)
    return mu + torch.randn_like(mu) * torch.exp(0.5 * logvar)


def kl_divergence(mu: Tensor, logvar: Tensor) -> Tensor:
    return -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp(), dim=1).mean()


def main() -> None:
    torch.manual_seed(2)
    torch.set_num_threads(1)
    train_loader = DataLoader(TensorDataset(torch.rand(96, PIXELS)), BATCH_SIZE, shuffle=True)
    val_loader = DataLoader(TensorDataset(torch.rand(32, PIXELS)), BATCH_SIZE)
    model = VAE()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(EPOCHS):
        model.train()
        for (x,) in train_loader:
            mu, logvar = model.encode(x)
            recon = model.decode(draw(mu, logvar))
            loss = F.binary_cross_entropy(recon, x) + 0.01 * kl_divergence(mu, logvar)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            print(f"loss 0 {loss.item().hex()}")

        model.eval()
        error = 0.0
        for (x,) in val_loader:
            with torch.no_grad():
                mu, _ = model.encode(x)
                error += F.mse_loss(model.decode(mu), x).item()
        print(f"epoch {epoch}, validation error {error:.4f}")


if __name__ == "__main__":
    main()
