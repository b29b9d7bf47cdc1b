"""A training whose loader is slow, and the same training after the loader was mended.

    traceml run examples/diagnosis/dataloader_bottleneck_demo.py --run-name compare_slow \\
        --args --scenario slow
    traceml run examples/diagnosis/dataloader_bottleneck_demo.py --run-name compare_fast \\
        --args --scenario fast
    traceml compare logs/compare_slow logs/compare_fast

In the slow scenario every sample takes `--sleep-ms` to read, as from a distant disk, and
the loop waits for all of a batch. In the fast one they are in memory, as after caching.
"""

import argparse
import time

import torch
from torch.utils.data import DataLoader, Dataset

CLASSES = 10


class Samples(Dataset[tuple[torch.Tensor, int]]):
    def __init__(self, count: int, width: int, seconds_per_sample: float) -> None:
        self.features = torch.randn(count, width, generator=torch.Generator().manual_seed(0))
        self.seconds_per_sample = seconds_per_sample

    def __len__(self) -> int:
        return len(self.features)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        if self.seconds_per_sample:
            time.sleep(self.seconds_per_sample)
        return self.features[index], index % CLASSES


def model_of(width: int, depth: int) -> torch.nn.Module:
    hidden = [
        part for _ in range(depth) for part in (torch.nn.Linear(width, width), torch.nn.ReLU())
    ]
    return torch.nn.Sequential(*hidden, torch.nn.Linear(width, CLASSES))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scenario", choices=("slow", "fast"), default="slow")
    parser.add_argument("--sleep-ms", type=float, default=2.0, help="to read a sample, when slow")
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--num-samples", type=int, default=15_360)
    parser.add_argument("--hidden-dim", type=int, default=512)
    parser.add_argument("--depth", type=int, default=4, help="hidden layers")
    parser.add_argument("--print-every", type=int, default=20, help="steps; 0 prints nothing")
    return parser.parse_args()


def main() -> None:
    given = arguments()
    torch.manual_seed(0)
    seconds = given.sleep_ms / 1e3 if given.scenario == "slow" else 0.0
    data = Samples(given.num_samples, given.hidden_dim, seconds)
    loader = DataLoader(data, batch_size=given.batch_size, shuffle=True)
    model = model_of(given.hidden_dim, given.depth)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step, (features, labels) in enumerate(loader, start=1):
        loss = torch.nn.functional.cross_entropy(model(features), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if given.print_every and step % given.print_every == 0:
            print(f"step {step:4}  loss {loss.item():.3f}", flush=True)


if __name__ == "__main__":
    main()
