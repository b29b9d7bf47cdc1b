"""An RNN language model with truncated backpropagation and torch's SGD."""

import time

import torch
from torch import Tensor, nn

EPOCHS, BATCH_SIZE, BPTT, NTOKENS = 3, 4, 6, 20


class SlowSGD(torch.optim.SGD):
    def step(self, closure: None = None) -> None:
        time.sleep(0.05)
        super().step(closure)


class RNNModel(nn.Module):
    def __init__(self, nhid: int = 16) -> None:
        super().__init__()
        self.nhid = nhid
        self.encoder = nn.Embedding(NTOKENS, nhid)
        self.rnn = nn.GRU(nhid, nhid, num_layers=2, dropout=0.1)
        self.decoder = nn.Linear(nhid, NTOKENS)
        self.decoder.weight = self.encoder.weight  # tied

    def forward(self, tokens: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
        output, hidden = self.rnn(self.encoder(tokens), hidden)
        return self.decoder(output).flatten(0, 1), hidden

    def init_hidden(self) -> Tensor:
        return torch.zeros(2, BATCH_SIZE, self.nhid)


def batchify(tokens: Tensor) -> Tensor:
    rows = len(tokens) // BATCH_SIZE
    return tokens[: rows * BATCH_SIZE].view(BATCH_SIZE, -1).t().contiguous()


def get_batch(source: Tensor, i: int) -> tuple[Tensor, Tensor]:
    length = min(BPTT, len(source) - 1 - i)
    return source[i : i + length], source[i + 1 : i + 1 + length].flatten()


def train(
    model: RNNModel, optimizer: torch.optim.Optimizer, criterion: nn.Module, source: Tensor
) -> None:
    model.train()
    hidden = model.init_hidden()
    for i in range(0, len(source) - 1, BPTT):
        tokens, targets = get_batch(source, i)
        model.zero_grad()
        hidden = hidden.detach()
        output, hidden = model(tokens, hidden)
        loss = criterion(output, targets)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        optimizer.step()
        print(f"loss 0 {loss.item().hex()}")


@torch.no_grad()
def evaluate(model: RNNModel, criterion: nn.Module, source: Tensor) -> float:
    model.eval()
    total = 0.0
    hidden = model.init_hidden()
    for i in range(0, len(source) - 1, BPTT):
        tokens, targets = get_batch(source, i)
        output, hidden = model(tokens, hidden)
        total += len(tokens) * criterion(output, targets).item()
    return total / (len(source) - 1)


def main() -> None:
    torch.manual_seed(1111)
    torch.set_num_threads(1)
    train_data = batchify(torch.arange(147) * 3 % NTOKENS)
    val_data = batchify(torch.arange(50) * 3 % NTOKENS)
    model = RNNModel()
    criterion = nn.CrossEntropyLoss()
    optimizer = SlowSGD(model.parameters(), lr=2.0)
    for epoch in range(EPOCHS):
        train(model, optimizer, criterion, train_data)
        print(f"epoch {epoch}, validation loss {evaluate(model, criterion, val_data):.3f}")


if __name__ == "__main__":
    main()
