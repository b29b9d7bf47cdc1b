"""A character-level GPT: batches cut from a tensor, micro steps, and one endless loop."""

import math
import tempfile
import time
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

out_dir = tempfile.TemporaryDirectory()
eval_interval, eval_iters, max_iters = 5, 2, 20
gradient_accumulation_steps, batch_size, block_size = 2, 4, 16
n_layer, n_head, n_embd = 1, 2, 32
learning_rate, min_lr, warmup_iters, grad_clip = 1e-2, 1e-3, 3, 1.0

torch.manual_seed(1337)
torch.set_num_threads(1)

text = "the quick brown fox jumps over the lazy dog. " * 40
chars = sorted(set(text))
data = torch.tensor([chars.index(c) for c in text])
splits = {"train": data[:1500], "val": data[1500:]}


def get_batch(split: str) -> tuple[Tensor, Tensor]:
    tokens = splits[split]
    starts = torch.randint(len(tokens) - block_size, (batch_size,)).tolist()
    time.sleep(0.05 / gradient_accumulation_steps)  # the disk is slow
    x = torch.stack([tokens[i : i + block_size] for i in starts])
    y = torch.stack([tokens[i + 1 : i + 1 + block_size] for i in starts])
    return x, y


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(n_embd), nn.LayerNorm(n_embd)
        self.c_attn = nn.Linear(n_embd, 3 * n_embd)
        self.c_proj = nn.Linear(n_embd, n_embd)
        self.mlp = nn.Sequential(
            nn.Linear(n_embd, 4 * n_embd), nn.GELU(), nn.Linear(4 * n_embd, n_embd)
        )

    def forward(self, x: Tensor) -> Tensor:
        b, t, c = x.shape
        heads = self.c_attn(self.ln_1(x)).view(b, t, 3, n_head, c // n_head)
        q, k, v = heads.transpose(1, 3).unbind(2)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.c_proj(y.transpose(1, 2).reshape(b, t, c))
        return x + self.mlp(self.ln_2(x))


class GPT(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.wte = nn.Embedding(len(chars), n_embd)
        self.wpe = nn.Embedding(block_size, n_embd)
        self.blocks = nn.Sequential(*(Block() for _ in range(n_layer)), nn.LayerNorm(n_embd))
        self.lm_head = nn.Linear(n_embd, len(chars), bias=False)

    def forward(self, idx: Tensor, targets: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        x = self.blocks(self.wte(idx) + self.wpe(torch.arange(idx.shape[1])))
        if targets is None:
            return self.lm_head(x[:, [-1]]), None
        logits = self.lm_head(x)
        return logits, F.cross_entropy(logits.flatten(0, 1), targets.flatten())

    @torch.no_grad()
    def generate(self, idx: Tensor, max_new_tokens: int) -> Tensor:
        for _ in range(max_new_tokens):
            logits, _ = self(idx[:, -block_size:])
            probs = F.softmax(logits[:, -1], dim=-1)
            idx = torch.cat((idx, torch.multinomial(probs, num_samples=1)), dim=1)
        return idx


@torch.no_grad()
def estimate_loss() -> dict[str, float]:
    model.eval()
    out = {
        split: sum(model(*get_batch(split))[1].item() for _ in range(eval_iters)) / eval_iters
        for split in splits
    }
    model.train()
    return out


def get_lr(it: int) -> float:
    if it < warmup_iters:
        return learning_rate * (it + 1) / (warmup_iters + 1)
    ratio = (it - warmup_iters) / (max_iters - warmup_iters)
    return min_lr + 0.5 * (1.0 + math.cos(math.pi * ratio)) * (learning_rate - min_lr)


model = GPT()
optimizer = torch.optim.AdamW(model.parameters(), betas=(0.9, 0.99), weight_decay=0.1)
scaler = torch.amp.GradScaler("cpu", enabled=False)
best_val_loss, iter_num = 1e9, 0
X, Y = get_batch("train")
while True:
    for group in optimizer.param_groups:
        group["lr"] = get_lr(iter_num)
    if iter_num % eval_interval == 0:
        losses = estimate_loss()
        if losses["val"] < best_val_loss:
            best_val_loss = losses["val"]
            if iter_num > 0:
                checkpoint = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
                torch.save(checkpoint, Path(out_dir.name) / "ckpt.pt")
    for _ in range(gradient_accumulation_steps):
        logits, loss = model(X, Y)
        loss = loss / gradient_accumulation_steps
        X, Y = get_batch("train")  # the next one, while a GPU would still be busy
        scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), grad_clip)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad(set_to_none=True)
    print(f"loss 0 {(loss.item() * gradient_accumulation_steps).hex()}")
    iter_num += 1
    if iter_num > max_iters:
        break

model.eval()
print("".join(chars[i] for i in model.generate(torch.zeros((1, 1), dtype=torch.long), 20)[0]))
out_dir.cleanup()
