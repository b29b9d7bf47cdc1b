"""A diffusion toy: a denoiser, its moving average, and samples from that every few steps."""

import copy
import math
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812
from torch.utils.data import DataLoader, TensorDataset

TIMESTEPS, TRAIN_STEPS, SAMPLE_EVERY = 10, 21, 7


class Denoiser(nn.Module):
    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.time = nn.Embedding(TIMESTEPS, width)
        self.enter = nn.Linear(2, width)
        self.leave = nn.Sequential(
            nn.SiLU(), nn.Linear(width, width), nn.SiLU(), nn.Linear(width, 2)
        )

    def forward(self, x: Tensor, t: Tensor) -> Tensor:
        return self.leave(self.enter(x) + self.time(t))


class GaussianDiffusion(nn.Module):
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self.register_buffer("betas", torch.linspace(1e-3, 0.3, TIMESTEPS))
        self.register_buffer("alphas_cumprod", torch.cumprod(1.0 - self.betas, dim=0))

    def forward(self, x: Tensor) -> Tensor:
        t = torch.randint(TIMESTEPS, (len(x),))
        noise = torch.randn_like(x)
        kept = self.alphas_cumprod[t].unsqueeze(1)
        return F.mse_loss(self.model(kept.sqrt() * x + (1 - kept).sqrt() * noise, t), noise)

    @torch.no_grad()
    def sample(self, count: int) -> Tensor:
        x = torch.randn(count, 2)
        for t in reversed(range(TIMESTEPS)):
            beta, kept = self.betas[t], self.alphas_cumprod[t]
            noise = self.model(x, torch.full((count,), t))
            x = (x - beta / (1 - kept).sqrt() * noise) / (1 - beta).sqrt()
            if t > 0:
                x = x + beta.sqrt() * torch.randn_like(x)
        return x


class EMA:
    def __init__(self, model: nn.Module, decay: float = 0.9) -> None:
        self._online, self._decay = model, decay
        self.model = copy.deepcopy(model).eval().requires_grad_(False)

    @torch.no_grad()
    def update(self) -> None:
        time.sleep(0.05)
        for average, current in zip(
            self.model.parameters(), self._online.parameters(), strict=True
        ):
            average.lerp_(current, 1.0 - self._decay)


def cycle(loader: DataLoader[tuple[Tensor]]) -> Iterator[Tensor]:
    while True:
        for (batch,) in loader:
            yield batch


def main() -> None:
    torch.manual_seed(11)
    torch.set_num_threads(1)
    angle = torch.arange(64) / 64 * 2 * math.pi
    circle = TensorDataset(torch.stack([angle.cos(), angle.sin()], dim=1))
    batches = cycle(DataLoader(circle, batch_size=16, shuffle=True))
    diffusion = GaussianDiffusion(Denoiser())
    optimizer = torch.optim.Adam(diffusion.parameters(), lr=1e-3)
    ema = EMA(diffusion)
    with tempfile.TemporaryDirectory() as folder:
        for step in range(1, TRAIN_STEPS + 1):
            loss = diffusion(next(batches))
            loss.backward()
            nn.utils.clip_grad_norm_(diffusion.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            ema.update()
            print(f"loss 0 {loss.item().hex()}")
            if step % SAMPLE_EVERY == 0:
                samples = ema.model.sample(8)
                torch.save(samples, Path(folder) / f"sample-{step}.pt")
                print(f"samples {samples.norm(dim=1).mean().item():.3f}")


if __name__ == "__main__":
    main()
