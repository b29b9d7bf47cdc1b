"""An RNN language model with truncated backpropagation and parameters updated by hand."""

import tempfile
import time
from pathlib import Path

import torch
from torch import Tensor, nn

EPOCHS, BATCH_SIZE, BPTT, NTOKENS = 3, 4, 6, 20
CLIP = 0.25

Hidden = tuple[Tensor, Tensor]

torch.manual_seed(1111)
torch.set_num_threads(1)


class RNNModel(nn.Module):
    def __init__(self, ninp: int = 16, nhid: int = 16) -> None:
        super().__init__()
        self.nhid = nhid
        self.drop = nn.Dropout(0.1)
        self.encoder = nn.Embedding(NTOKENS, ninp)
        self.rnn = nn.LSTM(ninp, nhid)
        self.decoder = nn.Linear(nhid, NTOKENS)

    def forward(self, tokens: Tensor, hidden: Hidden) -> tuple[Tensor, Hidden]:
        output, hidden = self.rnn(self.drop(self.encoder(tokens)), hidden)
        decoded = self.decoder(self.drop(output)).view(-1, NTOKENS)
        return torch.log_softmax(decoded, dim=1), hidden

    def init_hidden(self, batch: int) -> Hidden:
        weight = next(self.parameters())
        return weight.new_zeros(1, batch, self.nhid), weight.new_zeros(1, batch, self.nhid)


def corpus(length: int) -> Tensor:
    return torch.arange(length) * 3 % NTOKENS


def batchify(tokens: Tensor) -> Tensor:
    rows = len(tokens) // BATCH_SIZE
    return tokens[: rows * BATCH_SIZE].view(BATCH_SIZE, -1).t().contiguous()


def get_batch(source: Tensor, i: int) -> tuple[Tensor, Tensor]:
    length = min(BPTT, len(source) - 1 - i)
    return source[i : i + length], source[i + 1 : i + 1 + length].reshape(-1)


def repackage_hidden(hidden: Hidden) -> Hidden:
    return hidden[0].detach(), hidden[1].detach()


train_data, val_data, test_data = (batchify(corpus(length)) for length in (147, 50, 50))
model = RNNModel()
criterion = nn.NLLLoss()


def evaluate(source: Tensor) -> float:
    model.eval()
    total = 0.0
    hidden = model.init_hidden(BATCH_SIZE)
    with torch.no_grad():
        for i in range(0, len(source) - 1, BPTT):
            tokens, targets = get_batch(source, i)
            output, hidden = model(tokens, hidden)
            hidden = repackage_hidden(hidden)
            total += len(tokens) * criterion(output, targets).item()
    return total / (len(source) - 1)


def train(lr: float) -> None:
    model.train()
    hidden = model.init_hidden(BATCH_SIZE)
    for i in range(0, len(train_data) - 1, BPTT):
        tokens, targets = get_batch(train_data, i)
        model.zero_grad()
        hidden = repackage_hidden(hidden)
        output, hidden = model(tokens, hidden)
        loss = criterion(output, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        time.sleep(0.05)
        for p in model.parameters():
            p.data.add_(p.grad, alpha=-lr)
        print(f"loss 0 {loss.item().hex()}")


with tempfile.TemporaryDirectory() as folder:
    save = Path(folder) / "model.pt"
    lr, best_val_loss = 5.0, None
    for _ in range(EPOCHS):
        train(lr)
        val_loss = evaluate(val_data)
        if best_val_loss is None or val_loss < best_val_loss:
            torch.save(model, save)  # the model whole, as a pickle
            best_val_loss = val_loss
        else:
            lr /= 4.0
    model = torch.load(save, weights_only=False)
    model.rnn.flatten_parameters()
print(f"test loss {evaluate(test_data):.3f}")
